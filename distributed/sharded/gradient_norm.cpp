#include "reprise/distributed/sharded/gradient_norm.h"

#include <algorithm>

#include "reprise/nn/optim/optimizer.h"
#include "reprise/nn/optim/scaled_gradients.h"

namespace reprise::distributed {
namespace {

int64_t pieces_of(const optim::ElementRange& range) {
  return (range.count() + kernels::kSquaresPiece - 1) / kernels::kSquaresPiece;
}

Device device_of(const DataParallel& parallel) {
  return parallel.leaves().empty() ? Device::cpu() : parallel.leaves().front().device();
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

// The squares of all ranks' pieces, f64, with as many places for each rank as the one needs that has most.
Tensor gather_squares(DataParallel& parallel, int64_t most) {
  ProcessGroup& group = parallel.group();
  TensorList gradients;
  for_each_shard(parallel, group.rank(),
                 [&](const Shard& shard) { gradients.push_back(parallel.own_gradient(shard.parameter)); });
  const std::vector<TensorView> views(gradients.begin(), gradients.end());
  const Device device = device_of(parallel);
  const Tensor own = Tensor::zeros({most}, DType::f64, device),
               all = Tensor::empty({most * group.size()}, DType::f64, device);
  kernels::squares_of_pieces(current_stream(device), views,
                             own.slice(0, 0, pieces_of_rank(parallel, group.rank())).view());
  group.all_gather(all, own, "squares of gradients").wait();
  return all;
}

// Where the squares of each parameter's pieces stand among those; of one without a gradient, none.
std::vector<std::vector<int32_t>> places_of_squares(const DataParallel& parallel, int64_t most) {
  std::vector<std::vector<int32_t>> places(parallel.leaves().size());
  const int ranks = parallel.shards().ranks();
  for (int rank = 0; rank < ranks; ++rank) {  // a parameter's pieces lie on ranks in their order
    int64_t next = rank * most;
    for_each_shard(parallel, rank, [&](const Shard& shard) {
      for (int64_t piece = 0; piece < pieces_of(shard.range); ++piece)
        places[shard.parameter].push_back(int32_t(next++));
    });
  }
  return places;
}

}  // namespace

void check_gradients(DataParallel& parallel, const TensorList& parameters,
                     const kernels::GradientCheck& given) {
  int64_t most = 0;
  for (int rank = 0; rank < parallel.group().size(); ++rank)
    most = std::max(most, pieces_of_rank(parallel, rank));
  const auto places = places_of_squares(parallel, most);
  std::vector<int32_t> order, tensors;
  int32_t tensor = 0;  // among those with a gradient
  for (const Tensor& parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    const auto found =
        std::ranges::find_if(parallel.leaves(), [&](const Tensor& leaf) { return leaf.is_same(parameter); });
    check(found != parallel.leaves().end(), "check_gradients: a parameter ", parameter.dtype(),
          parameter.shape(), " is not trained by this DataParallel");
    const std::vector<int32_t>& own = places[size_t(found - parallel.leaves().begin())];
    order.insert(order.end(), own.begin(), own.end());
    tensors.insert(tensors.end(), own.size(), tensor++);
  }
  const Device device = device_of(parallel);
  auto on_device = [&](const std::vector<int32_t>& numbers) {
    return Tensor::from(numbers, {int64_t(numbers.size())}).to(device);
  };
  const Tensor squares = gather_squares(parallel, most), orders = on_device(order),
               tensors_of = on_device(tensors);
  kernels::check_squares(current_stream(device), {squares, orders, tensors_of}, given);
}

double grad_norm(DataParallel& parallel) {
  if (!parallel.scatters_gradients()) return optim::grad_norm(parallel.leaves());
  optim::detail::check_unscaled("grad_norm", parallel.leaves());
  const Device device = device_of(parallel);
  const Tensor norm = Tensor::empty({}, DType::f64, device), scale = Tensor::empty({}, DType::f64, device),
               found = Tensor::empty({}, DType::i32, device);
  check_gradients(parallel, parallel.leaves(), {.found = found, .norm = norm, .gradient_scale = scale});
  return norm.item();
}

}  // namespace reprise::distributed
