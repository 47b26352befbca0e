#include "reprise/distributed/sharded/gradient_norm.h"

#include <algorithm>

#include "reprise/nn/optim/optimizer.h"
#include "reprise/nn/optim/scaled_gradients.h"

namespace reprise::distributed {
namespace {

using Squares =
    std::vector<std::vector<double>>;  // of the pieces of each parameter's gradient; without one, none

int64_t pieces_of(const optim::ElementRange& range) {
  return (range.count() + kernels::kSquaresPiece - 1) / kernels::kSquaresPiece;
}

// Calls body with each shard of a rank whose parameter has a gradient.
template <class Body>
void for_each_shard(const DataParallel& parallel, int rank, const Body& body) {
  for (size_t bucket = 0; bucket < parallel.buckets().size(); ++bucket)
    for (const Shard& shard : parallel.shards().of(bucket, rank))
      if (parallel.leaves()[shard.parameter].grad().defined()) body(shard);
}

int64_t pieces_of_rank(const DataParallel& parallel, int rank) {
  int64_t pieces = 0;
  for_each_shard(parallel, rank, [&](const Shard& shard) { pieces += pieces_of(shard.range); });
  return pieces;
}

// Of all ranks' shards, those of rank 0 first, with `most` places for each rank.
std::vector<double> gather(DataParallel& parallel, int64_t most) {
  ProcessGroup& group = parallel.group();
  TensorList gradients;
  for_each_shard(parallel, group.rank(),
                 [&](const Shard& shard) { gradients.push_back(parallel.own_gradient(shard.parameter)); });
  const std::vector<TensorView> views(gradients.begin(), gradients.end());
  const Tensor own = Tensor::zeros({most}, DType::f64),
               all = Tensor::zeros({most * group.size()}, DType::f64);
  kernels::squares_of_pieces(current_stream(own.device()), views,
                             own.slice(0, 0, pieces_of_rank(parallel, group.rank())).view());
  group.all_gather(all, own, "squares of gradients").wait();
  return all.to_vector<double>();
}

Squares squares_of(DataParallel& parallel) {
  const int ranks = parallel.group().size();
  int64_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) most = std::max(most, pieces_of_rank(parallel, rank));
  const std::vector<double> all = gather(parallel, most);
  Squares squares(parallel.leaves().size());
  for (int rank = 0; rank < ranks; ++rank) {  // a parameter's pieces lie on ranks in their order
    auto next = all.begin() + rank * most;
    for_each_shard(parallel, rank, [&](const Shard& shard) {
      squares[shard.parameter].insert(squares[shard.parameter].end(), next, next + pieces_of(shard.range));
      next += pieces_of(shard.range);
    });
  }
  return squares;
}

}  // namespace

void check_gradients(DataParallel& parallel, const TensorList& parameters,
                     const kernels::GradientCheck& given) {
  const Squares squares = squares_of(parallel);
  std::vector<double> in_order;
  std::vector<int32_t> places;
  int32_t place = 0;  // among those with a gradient
  for (const Tensor& parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    const auto found =
        std::ranges::find_if(parallel.leaves(), [&](const Tensor& leaf) { return leaf.is_same(parameter); });
    check(found != parallel.leaves().end(), "check_gradients: a parameter ", parameter.dtype(),
          parameter.shape(), " is not trained by this DataParallel");
    const std::vector<double>& own = squares[size_t(found - parallel.leaves().begin())];
    in_order.insert(in_order.end(), own.begin(), own.end());
    places.insert(places.end(), own.size(), place++);
  }
  kernels::check_squares(in_order, places, given);
}

double grad_norm(DataParallel& parallel) {
  if (!parallel.scatters_gradients()) return optim::grad_norm(parallel.leaves());
  optim::detail::check_unscaled("grad_norm", parallel.leaves());
  const Tensor norm = Tensor::empty({}, DType::f64), scale = Tensor::empty({}, DType::f64),
               found = Tensor::empty({}, DType::i32);
  check_gradients(parallel, parallel.leaves(), {.found = found, .norm = norm, .gradient_scale = scale});
  return norm.item();
}

}  // namespace reprise::distributed
