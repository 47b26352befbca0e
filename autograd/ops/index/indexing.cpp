// Reading places, and writing them.
#include "reprise/autograd/ops/index/indexing.h"

#include "reprise/autograd/function.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/index/along_dim.h"
#include "reprise/autograd/ops/index/index_put.h"
#include "reprise/autograd/ops/number.h"
#include "reprise/autograd/ops/wide.h"
#include "reprise/kernels/elementwise/copy.h"
#include "reprise/kernels/elementwise/elementwise.h"
#include "reprise/kernels/index/index.h"

namespace reprise {
namespace {

using namespace autograd;

// x[places] as (rows..., rest...).
Tensor read_rows(const Tensor& x, const Places& places) {
  const Tensor table = places.table_of(places.part_of(x));  // (count, rest...)
  Shape shape = places.rows.shape();
  for (int64_t size : places.rest) shape.push_back(size);
  if (!is_floating(x.dtype()))
    return reshape(index_select(table, 0, reshape(places.rows, {places.rows.numel()})), shape);
  return reshape(embedding(reshape(table, {places.count, numel_of(places.rest)}), places.rows), shape);
}

Tensor read_places(const Tensor& x, const Places& places) {
  return places.rows.defined() ? places.to_result(read_rows(x, places)) : places.part_of(x);
}

// Which of several rows for one place stays: the last.
Tensor staying(const Tensor& rows, int64_t count) {
  const Tensor flat = reshape(rows, {rows.numel()});
  const Tensor numbers = arange(rows.numel(), DType::i64, rows.device());
  const Tensor last = scatter(zeros({count}, DType::i64, rows.device()), 0, flat, numbers);
  return reshape(equal(gather(last, flat), numbers), rows.shape());
}

struct IndexPut : Function<IndexPut> {
  static constexpr const char* name = "index_put";
  static constexpr auto autocast = amp::Policy::widest;
  static constexpr OpCost cost = OpCost::moves();
  Places places_{};  // without rows, which are saved
  bool accumulate_ = false;
  Shape shape_of_values_;
  DType dtype_of_values_ = DType::f32;

  Tensor forward(const Tensor& x, const Tensor& values, const Tensor& rows, const Places& places,
                 bool accumulate, Overwrite overwrite) {
    save(rows);
    places_ = places;
    places_.rows = {};
    accumulate_ = accumulate;
    shape_of_values_ = values.shape();
    dtype_of_values_ = values.dtype();
    Tensor y = overwrite.target(x);
    write_places(y, places, values, accumulate);
    return y;
  }

  TensorList backward(const TensorList& dy) {
    Places places = places_;
    places.rows = saved(0);
    // Where nothing else has the gradient, its places become 0 where it lies: a buffer that is filled part by part costs what
    // its parts cost.
    const Overwrite overwrite =
        !accumulate_ && needs_grad(0) && !grad_mode_enabled() ? Overwrite::of(dy[0]) : Overwrite();
    Tensor dx, dvalues;
    if (needs_grad(1)) {
      dvalues = converted(sum_to(of_values(dy[0], places), shape_of_values_), dtype_of_values_);
      if (overwrite.allowed && dvalues.storage() == dy[0].storage()) dvalues = clone(dvalues);
    }
    if (needs_grad(0)) {
      const Tensor zero = scalar(0, dy[0].dtype(), dy[0].device());
      dx = accumulate_ ? dy[0] : IndexPut::apply(dy[0], zero, places.rows, places, false, overwrite);
    }
    return {dx, dvalues, Tensor()};
  }

  // The gradient of each value.
  Tensor of_values(const Tensor& dy, const Places& places) const {
    if (accumulate_ || !places.rows.defined()) return read_places(dy, places);
    const Tensor given = read_rows(dy, places);
    Shape aligned = places.rows.shape();
    for (int d = 0; d < places.rest.size(); ++d) aligned.push_back(1);
    const Tensor stay = reshape(staying(places.rows, places.count), aligned);
    return places.to_result(where(stay, given, scalar(0, dy.dtype(), dy.device())));
  }
};

// Error unless `source` is what the item along dim takes out of x.
Tensor put_along(const char* op, const Tensor& x, const Tensor& source, int64_t dim, const Index& item) {
  check_given(op, x, source);
  check(x.rank() >= 1, op, ": needs at least one dimension");
  std::vector<Index> items(size_t(normalize_dim(dim, x.rank(), op)), Slice());
  items.push_back(item);
  const Places places = Places::resolve(op, x, items);
  check(source.shape() == places.part, op, ": the source ", source.shape(), " is not of shape ", places.part);
  check(source.dtype() == x.dtype(), op, ": dtypes differ: ", x.dtype(), " and ", source.dtype());
  return put_places(op, x, places, source, false, {});
}

}  // namespace

void autograd::write_places(const Tensor& x, const Places& places, const Tensor& values, bool accumulate) {
  NoGrad guard;
  InsideOp inside;
  const Stream stream = current_stream(x.device());
  const Tensor part = places.part_of(x);
  const Tensor given = expand(values, places.result_shape());
  if (!places.rows.defined()) {
    if (accumulate)
      kernels::add_scaled(stream, cast(given, x.dtype()).view(), 1.0, part);
    else
      kernels::copy(stream, given, part);
    return;
  }
  const int64_t width = numel_of(places.rest), rows = places.rows.numel();
  const Tensor table = reshape(places.table_of(part), {places.count, width});
  const Tensor lines = reshape(places.from_result(cast(given, x.dtype())), {rows, width});
  const Tensor index = expand(reshape(places.rows, {1, rows}), {width, rows});
  const auto& kernel = accumulate ? kernels::scatter_add : kernels::scatter;
  kernel(stream, transpose(lines, 0, 1).view(), index, transpose(table, 0, 1).view());
  if (table.storage() == x.storage()) return;
  const Tensor back = permute(part, places.order);  // the strides allowed no table of it
  kernels::copy(stream, reshape(table, back.shape()).view(), back);
}

void autograd::check_values(const char* op, const Tensor& x, const Places& places, const Tensor& values) {
  check_given(op, values);
  check(values.device() == x.device(), op, ": the tensor is on ", x.device(), ", the values on ",
        values.device());
  const Shape shape = places.result_shape();
  check(broadcasts_to(values.shape(), shape), op, ": values ", values.shape(),
        " do not broadcast to the places, of shape ", shape);
}

Tensor autograd::put_places(const char* op, const Tensor& x, const Places& places, const Tensor& values,
                            bool accumulate, Overwrite overwrite) {
  check_values(op, x, places, values);
  return IndexPut::apply(x, values, places.rows, places, accumulate, overwrite);
}

Tensor index(const Tensor& x, const std::vector<Index>& places) {
  return read_places(x, Places::resolve("index", x, places));
}

Tensor nonzero(const Tensor& x) {
  check_given("nonzero", x);
  const Tensor truth = x.dtype() == DType::boolean ? x : not_equal(x, scalar(0, x.dtype(), x.device()));
  const std::vector<uint8_t> hits = truth.to(DType::u8).to_vector<uint8_t>();
  std::vector<int64_t> places;
  int64_t count = 0;
  for (size_t i = 0; i < hits.size(); ++i) {
    if (!hits[i]) continue;
    Dims place = x.shape();
    auto rest = int64_t(i);
    for (int d = x.rank() - 1; d >= 0; --d) {
      place[d] = rest % x.size(d);
      rest /= x.size(d);
    }
    places.insert(places.end(), place.begin(), place.end());
    ++count;
  }
  return Tensor::from(places, {count, x.rank()}, x.device());
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  constexpr auto op = "masked_select";
  check_given(op, x, mask);
  check(mask.dtype() == DType::boolean, op, ": needs bool, got ", mask.dtype());
  const Shape shape = broadcast_shapes(x.shape(), mask.shape(), op);
  const int64_t count = numel_of(shape, op);
  return index(reshape(expand(x, shape), {count}), {reshape(expand(mask, shape), {count})});
}

Tensor index_put(const Tensor& x, const std::vector<Index>& places, const Tensor& values, bool accumulate) {
  constexpr auto op = "index_put";
  return put_places(op, x, Places::resolve(op, x, places), values, accumulate, {});
}
Tensor index_put(const Tensor& x, const std::vector<Index>& places, double value, bool accumulate) {
  check_given("index_put", x);
  element("index_put", value, x.dtype());
  return index_put(x, places, scalar(value, x.dtype(), x.device()), accumulate);
}

Tensor slice_scatter(const Tensor& x, const Tensor& source, int64_t dim, std::optional<int64_t> begin,
                     std::optional<int64_t> end, int64_t step) {
  return put_along("slice_scatter", x, source, dim, Slice(begin, end, step));
}
Tensor select_scatter(const Tensor& x, const Tensor& source, int64_t dim, int64_t place) {
  return put_along("select_scatter", x, source, dim, place);
}

}  // namespace reprise
