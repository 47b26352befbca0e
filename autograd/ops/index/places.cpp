// From the items between the brackets to a view and its rows.
#include "reprise/autograd/ops/index/places.h"

#include <algorithm>

#include "reprise/autograd/function.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"

namespace reprise::autograd {
namespace {

// Places in several dimensions as places in one, row-major, each checked against its size.
struct IndexPlaces : Function<IndexPlaces> {
  static constexpr const char* name = "index_places";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr OpCost cost = OpCost::moves();

  Tensor forward(const TensorList& places, const std::vector<int64_t>& sizes, const char* op) {
    Tensor sum = inside(op, places[0], sizes[0]);
    for (size_t k = 1; k < places.size(); ++k)
      sum = sum * scalar(double(sizes[k]), DType::i64, sum.device()) + inside(op, places[k], sizes[k]);
    return sum;
  }
  TensorList backward(const TensorList&) { return TensorList(edges().size()); }

  // In [0, size). On a device gather tells what lies outside.
  static Tensor inside(const char* op, const Tensor& places, int64_t size) {
    if (places.device().is_cpu()) {
      std::vector<int64_t> all = places.to_vector<int64_t>();
      for (size_t i = 0; i < all.size(); ++i) {
        check(all[i] >= -size && all[i] < size, op, ": place ", all[i], " at element ", i, " is outside [",
              -size, ", ", size, ")");
        if (all[i] < 0) all[i] += size;
      }
      return Tensor::from(all, places.shape());
    }
    const Tensor from_front =
        where(less(places, scalar(0, DType::i64, places.device())), places + double(size), places);
    return reshape(gather(arange(size, DType::i64, places.device()), reshape(from_front, {-1})),
                   places.shape());
  }
};

// A mask, or places, and the dimensions of the view that it stands for.
struct Taken {
  Tensor places;
  int dim = 0, count = 1;
};

int dims_of(const char* op, const Index& item) {
  if (std::holds_alternative<Ellipsis>(item.item()) || std::holds_alternative<NewAxis>(item.item())) return 0;
  const Tensor* places = std::get_if<Tensor>(&item.item());
  if (!places) return 1;
  check_given(op, *places);
  check(places->dtype() == DType::boolean || places->dtype() == DType::i64 || places->dtype() == DType::i32,
        op, ": places must be i64, i32 or bool, got ", places->dtype());
  check(places->dtype() != DType::boolean || places->rank() >= 1, op,
        ": a mask needs at least one dimension");
  return places->dtype() == DType::boolean ? places->rank() : 1;
}

// Reads the items from the front, following the shape of the view.
class Reader {
 public:
  Reader(const char* op, const Tensor& x) : op_(op), x_(x), shape_(x.shape()) {}

  void read(const std::vector<Index>& items) {
    int used = 0, ellipses = 0;
    for (const Index& item : items) {
      used += dims_of(op_, item);
      ellipses += std::holds_alternative<Ellipsis>(item.item());
    }
    check(ellipses <= 1, op_, ": more than one ellipsis");
    check(used <= x_.rank(), op_, ": ", used, " indices in a tensor of shape ", x_.shape());
    left_ = x_.rank() - used;
    for (const Index& item : items) std::visit([this](const auto& one) { (*this)(one); }, item.item());
  }
  void operator()(int64_t place) {
    const int64_t size = shape_[dim_];
    check(place >= -size && place < size, op_, ": place ", place, " is outside dimension ", dim_, " of ",
          shape_);
    steps.push_back({ViewStep::Kind::select, dim_, place < 0 ? place + size : place});
    Shape without;
    for (int d = 0; d < shape_.size(); ++d)
      if (d != dim_) without.push_back(shape_[d]);
    shape_ = without;
  }
  void operator()(const Slice& slice) {
    const int64_t size = shape_[dim_];
    check(slice.step >= 1, op_, ": a slice has step ", slice.step, ", which must be at least 1");
    auto bound = [&](int64_t given) {
      return std::clamp<int64_t>(given < 0 ? given + size : given, 0, size);
    };
    const int64_t begin = bound(slice.begin.value_or(0));
    const int64_t end = std::max(begin, bound(slice.end.value_or(size)));
    if (begin > 0 || end < size || slice.step > 1)
      steps.push_back(
          {ViewStep::Kind::slice, dim_, begin, end, std::min(slice.step, std::max<int64_t>(size, 1))});
    shape_[dim_++] = end == begin ? 0 : (end - begin - 1) / slice.step + 1;
  }
  void operator()(Ellipsis) { dim_ += left_; }
  void operator()(NewAxis) {
    steps.push_back({ViewStep::Kind::unsqueeze, dim_});
    Shape with;
    for (int d = 0; d <= shape_.size(); ++d) {
      if (d == dim_) with.push_back(1);
      if (d < shape_.size()) with.push_back(shape_[d]);
    }
    shape_ = with;
    ++dim_;
  }
  void operator()(const Tensor& places) {
    check(places.device() == x_.device(), op_, ": the tensor is on ", x_.device(), ", the places on ",
          places.device());
    if (places.dtype() == DType::boolean) return read_mask(places);
    const Tensor wide = cast(places, DType::i64);
    if (wide.rank() == 0) return (*this)(int64_t(wide.to_vector<int64_t>()[0]));
    taken.push_back({wide, dim_++, 1});
  }

  std::vector<ViewStep> steps;
  std::vector<Taken> taken;
  const Shape& shape() const { return shape_; }

 private:
  void read_mask(const Tensor& mask) {
    bool fits = true;
    for (int d = 0; d < mask.rank(); ++d) fits &= mask.shape()[d] == shape_[dim_ + d];
    check(fits, op_, ": a mask of shape ", mask.shape(), " at dimension ", dim_, " of a tensor of shape ",
          shape_);
    taken.push_back({squeeze(nonzero(reshape(mask, {mask.numel()})), 1), dim_, mask.rank()});
    dim_ += mask.rank();
  }

  const char* op_;
  const Tensor& x_;
  Shape shape_;
  int dim_ = 0, left_ = 0;
};

}  // namespace

Places Places::resolve(const char* op, const Tensor& x, const std::vector<Index>& items) {
  check_given(op, x);
  NoGrad guard;
  Reader reader(op, x);
  reader.read(items);
  Places result{.steps = reader.steps, .part = reader.shape()};
  const std::vector<Taken>& taken = reader.taken;
  if (taken.empty()) return result;
  Shape common;
  for (const Taken& one : taken) common = broadcast_shapes(common, one.places.shape(), op);
  TensorList places;
  std::vector<int64_t> sizes;
  bool side_by_side = true;
  std::vector<bool> is_taken(size_t(reader.shape().size()));
  for (size_t k = 0; k < taken.size(); ++k) {
    const auto& [tensor, dim, count] = taken[k];
    side_by_side &= k == 0 || taken[k - 1].dim + taken[k - 1].count == dim;
    sizes.push_back(1);
    for (int d = dim; d < dim + count; ++d) {
      sizes.back() *= reader.shape()[d];
      is_taken[size_t(d)] = true;
      result.order.push_back(d);
    }
    result.count *= sizes.back();
    places.push_back(expand(tensor, common));
  }
  for (int d = 0; d < reader.shape().size(); ++d) {
    if (is_taken[size_t(d)]) continue;
    result.order.push_back(d);
    result.rest.push_back(reader.shape()[d]);
  }
  result.result_dim = side_by_side ? taken[0].dim : 0;
  result.rows = IndexPlaces::apply(places, sizes, op);
  return result;
}

Tensor Places::part_of(const Tensor& x) const {
  Tensor y = x;
  for (const ViewStep& step : steps) switch (step.kind) {
      case ViewStep::Kind::select:
        y = select(y, step.dim, step.begin);
        break;
      case ViewStep::Kind::slice:
        y = slice(y, step.dim, step.begin, step.end, step.step);
        break;
      case ViewStep::Kind::unsqueeze:
        y = unsqueeze(y, step.dim);
        break;
    }
  return y;
}

Tensor Places::table_of(const Tensor& view) const {
  Shape shape{count};
  for (int64_t size : rest) shape.push_back(size);
  return reshape(permute(view, order), shape);
}

Shape Places::result_shape() const {
  if (!rows.defined()) return part;
  Shape shape;
  for (int d = 0; d < result_dim; ++d) shape.push_back(rest[d]);
  for (int64_t size : rows.shape()) shape.push_back(size);
  for (int d = result_dim; d < rest.size(); ++d) shape.push_back(rest[d]);
  return shape;
}

Tensor Places::to_result(const Tensor& y) const {
  if (result_dim == 0) return y;
  Dims to;
  for (int d = 0; d < result_dim; ++d) to.push_back(rows.rank() + d);
  for (int d = 0; d < rows.rank(); ++d) to.push_back(d);
  for (int d = rows.rank() + result_dim; d < y.rank(); ++d) to.push_back(d);
  return permute(y, to);
}

Tensor Places::from_result(const Tensor& y) const {
  if (result_dim == 0) return y;
  Dims to;
  for (int d = 0; d < rows.rank(); ++d) to.push_back(result_dim + d);
  for (int d = 0; d < result_dim; ++d) to.push_back(d);
  for (int d = rows.rank() + result_dim; d < y.rank(); ++d) to.push_back(d);
  return permute(y, to);
}

}  // namespace reprise::autograd
