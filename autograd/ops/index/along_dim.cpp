#include "reprise/autograd/ops/index/along_dim.h"

#include <algorithm>

#include "reprise/autograd/function.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/index/scattered.h"
#include "reprise/autograd/ops/number.h"
#include "reprise/autograd/ops/wide.h"
#include "reprise/kernels/index/argsort.h"
#include "reprise/kernels/reduce/cumulative_sum.h"
#include "reprise/kernels/reduce/reduce.h"

namespace reprise {
namespace {

// A number has dimension 0 here, of size 1, as in PyTorch.
Tensor with_dim(const Tensor& x) { return x.rank() == 0 ? reshape(x, {1}) : x; }
// y, which was made of with_dim(x), without that dimension.
Tensor as_given(const Tensor& x, const Tensor& y) { return x.rank() == 0 ? reshape(y, {}) : y; }

int given_dim(const char* op, const Tensor& x, int64_t dim) {
  autograd::check_given(op, x);
  return normalize_dim(dim, std::max(x.rank(), 1), op);
}

// f(x) along its last dimension, of x along `dim`.
template <class F>
Tensor as_last(const char* op, const Tensor& x, int64_t dim, const F& f) {
  const int d = given_dim(op, x, dim);
  const Tensor given = with_dim(x);
  if (d == given.rank() - 1) return as_given(x, f(given));
  return as_given(x, transpose(f(transpose(given, d, -1)), d, -1));
}

// The first largest along the last dimension, which stays with size 1. No gradient flows through it.
struct Argmax : autograd::Function<Argmax> {
  static constexpr const char* name = "argmax";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr autograd::OpCost cost = autograd::OpCost::reduction();

  Tensor forward(const Tensor& x) {
    Shape shape = x.shape();
    shape[x.rank() - 1] = 1;
    Tensor y = Tensor::empty(shape, DType::i64, x.device());
    kernels::argmax(current_stream(x.device()), x, y);
    return y;
  }
  TensorList backward(const TensorList&) { return {Tensor()}; }
};

Tensor extreme_place(const char* op, const Tensor& x, int64_t dim, bool keep_dim, bool smallest) {
  NoGrad guard;
  const int d = given_dim(op, x, dim);
  check(with_dim(x).size(d) > 0, op, ": dimension ", d, " of ", x.shape(), " is empty");
  const Tensor y = as_last(op, x, d, [&](const Tensor& rows) {
    if (!smallest) return Argmax::apply(rows);
    // Their order turned round: NaN stays NaN, and -1 - x is in i64 what -x is not for the least number.
    const Tensor turned = is_floating(x.dtype()) ? -rows : -1 - rows.to(DType::i64);
    return Argmax::apply(turned);
  });
  return keep_dim || x.rank() == 0 ? y : squeeze(y, d);
}

// `index` (K) for each slice of `shape`, whose size along d it replaces.
Tensor of_all_slices(const char* op, const Tensor& index, Shape shape, int d) {
  autograd::check_given(op, index);
  check(index.rank() <= 1, op, ": the index must be (K), got ", index.shape());
  Shape aligned = Shape::filled(shape.size(), 1);
  aligned[d] = shape[d] = index.numel();
  return expand(reshape(index, aligned), shape);
}

// `index` (K) for each slice of x, of which the source has K.
Tensor places_of_slices(const char* op, const Tensor& x, const Tensor& index, const Tensor& source, int d) {
  autograd::check_given(op, source);
  const Tensor places = of_all_slices(op, index, with_dim(x).shape(), d);
  check(with_dim(source).shape() == places.shape(), op, ": the source ", source.shape(), " is not of shape ",
        places.shape());
  return places;
}

struct Argsort : autograd::Function<Argsort> {
  static constexpr const char* name = "argsort";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr autograd::OpCost cost = autograd::OpCost::moves();

  Tensor forward(const Tensor& x, bool descending) {
    Tensor y = Tensor::empty(x.shape(), DType::i64, x.device());
    kernels::argsort(current_stream(x.device()), x, descending, y);
    return y;
  }
  TensorList backward(const TensorList&) { return {Tensor()}; }
};

// Along the last dimension, from its end if `reverse`: each is the other's transpose.
struct Cumsum : autograd::Function<Cumsum> {
  static constexpr const char* name = "cumsum";
  static constexpr auto autocast = amp::Policy::f32;
  static constexpr uint32_t autocast_keeps = 0b1;  // x: 16 bits are read as they are
  static constexpr autograd::OpCost cost = autograd::OpCost::reduction();
  bool reverse_ = false;

  Tensor forward(const Tensor& x, bool reverse) {
    reverse_ = reverse;
    const bool widens = under_autocast() && autograd::is_half(x.dtype());
    const DType floating = widens ? DType::f32 : x.dtype();
    Tensor y = Tensor::empty(x.shape(), is_floating(x.dtype()) ? floating : DType::i64, x.device());
    kernels::cumulative_sum(current_stream(x.device()), x, reverse, y);
    return y;
  }
  TensorList backward(const TensorList& dy) { return {Cumsum::apply(dy[0], !reverse_)}; }
};

// What a scatter takes, with a dimension each.
struct Scattered {
  Tensor x, index, source;
  int d;

  // Error unless the index lies inside the source and, in the other dimensions, inside x.
  Scattered(const char* op, const Tensor& given, int64_t dim, const Tensor& index_given,
            const Tensor& source_given)
      : d(given_dim(op, given, dim)) {
    autograd::check_given(op, index_given, source_given);
    x = with_dim(given), index = with_dim(index_given), source = with_dim(source_given);
    bool fits = index.rank() == x.rank() && source.rank() == x.rank();
    for (int e = 0; fits && e < x.rank(); ++e)
      fits = index.size(e) <= source.size(e) && (e == d || index.size(e) <= x.size(e));
    check(fits, op, ": index ", index_given.shape(), " and source ", source_given.shape(), " do not fit ",
          given.shape(), " along dimension ", dim);
    check(source.dtype() == x.dtype(), op, ": dtypes differ: ", x.dtype(), " and ", source.dtype());
  }

  Tensor rows() const { return transpose(x, d, -1); }
  Tensor places() const { return transpose(index, d, -1); }
  // What the index reads of the source.
  Tensor values() const { return transpose(autograd::beginning(source, index.shape(), index.rank()), d, -1); }
};

Tensor set_along(const char* op, const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  const Scattered by(op, x, dim, index, source);
  return as_given(x, transpose(autograd::scattered_into(by.rows(), by.places(), by.values()), by.d, -1));
}

Tensor add_along(const char* op, const Tensor& given, int64_t dim, const Tensor& index,
                 const Tensor& given_source, double alpha = 1) {
  autograd::check_given(op, given, given_source);
  const autograd::CastArguments in(amp::Policy::widest, given, given_source);
  const Tensor& x = in[0];
  const Scattered by(op, x, dim, index, in[1]);
  autograd::whole_number(op, alpha, x.dtype());
  const Tensor sums = transpose(autograd::scattered(by.values(), by.places(), by.rows().shape()), by.d, -1);
  return x + as_given(x, alpha == 1 ? sums : sums * alpha);
}

Tensor everywhere(const char* op, double value, const Tensor& x, const Shape& shape) {
  return expand(scalar(autograd::element(op, value, x.dtype()), x.dtype(), x.device()), shape);
}

Tensor take(const char* op, const Tensor& x, const Tensor& index, int d) {
  return as_last(op, x, d, [&](const Tensor& rows) { return gather(rows, transpose(index, d, -1)); });
}

// Slice i of dimension d times(i) times in a row.
template <class Times>
Tensor repeat_slices(const Tensor& x, int d, const Times& times) {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < x.size(d); ++i) {
    check(times(i) >= 0, "repeat_interleave: ", times(i), " times");
    places.insert(places.end(), size_t(times(i)), i);
  }
  const auto count = int64_t(places.size());
  return index_select(x, d, Tensor::from(places, {count}, x.device()));
}

}  // namespace

Tensor detail::softmax_along(const Tensor& x, int64_t dim) {
  return as_last("softmax", x, dim, [](const Tensor& rows) { return softmax(rows); });
}
Tensor detail::log_softmax_along(const Tensor& x, int64_t dim) {
  return as_last("log_softmax", x, dim, [](const Tensor& rows) { return log_softmax(rows); });
}

Tensor argmax(const Tensor& x, int64_t dim, bool keep_dim) {
  return extreme_place("argmax", x, dim, keep_dim, false);
}
Tensor argmax(const Tensor& x) {
  autograd::check_given("argmax", x);
  return argmax(reshape(x, {-1}), 0);
}
Tensor argmin(const Tensor& x) {
  autograd::check_given("argmin", x);
  return argmin(reshape(x, {-1}), 0);
}
Tensor argmin(const Tensor& x, int64_t dim, bool keep_dim) {
  return extreme_place("argmin", x, dim, keep_dim, true);
}

Tensor take_along_dim(const Tensor& x, const Tensor& index, int64_t dim) {
  constexpr auto op = "take_along_dim";
  const int d = given_dim(op, x, dim);
  autograd::check_given(op, index);
  check(index.rank() == x.rank(), op, ": the index ", index.shape(), " needs the rank of ", x.shape());
  const Tensor whole = with_dim(x), places = with_dim(index);
  Shape of_x = whole.shape(), of_index = places.shape();
  of_x[d] = of_index[d] = 1;
  Shape common = broadcast_shapes(of_x, of_index, op);
  auto expanded = [&](const Tensor& part) {
    common[d] = part.size(d);
    return expand(part, common);
  };
  return as_given(x, take(op, expanded(whole), expanded(places), d));
}
Tensor take_along_dim(const Tensor& x, const Tensor& index) {
  autograd::check_given("take_along_dim", x, index);
  return take_along_dim(reshape(x, {x.numel()}), reshape(index, {index.numel()}), 0);
}

Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index) {
  constexpr auto op = "index_select";
  const int d = given_dim(op, x, dim);
  const Tensor whole = with_dim(x), places = of_all_slices(op, index, whole.shape(), d);
  check(x.rank() > 0 || index.numel() == 1, op, ": an index ", index.shape(), " of a number");
  return as_given(x, take(op, whole, places, d));
}

Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  return add_along("scatter_add", x, dim, index, source);
}

Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source, double alpha) {
  constexpr auto op = "index_add";
  const int d = given_dim(op, x, dim);
  return add_along(op, x, d, places_of_slices(op, x, index, source, d), source, alpha);
}

Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  return set_along("scatter", x, dim, index, source);
}
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, double value) {
  autograd::check_given("scatter", x, index);
  return set_along("scatter", x, dim, index, everywhere("scatter", value, x, index.shape()));
}

Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  constexpr auto op = "index_copy";
  const int d = given_dim(op, x, dim);
  return set_along(op, x, d, places_of_slices(op, x, index, source, d), source);
}
Tensor index_fill(const Tensor& x, int64_t dim, const Tensor& index, double value) {
  constexpr auto op = "index_fill";
  const int d = given_dim(op, x, dim);
  const Tensor places = of_all_slices(op, index, with_dim(x).shape(), d);
  return set_along(op, x, d, places, everywhere(op, value, x, places.shape()));
}

Tensor argsort(const Tensor& x, int64_t dim, bool descending) {
  NoGrad guard;
  return as_last("argsort", x, dim, [&](const Tensor& rows) { return Argsort::apply(rows, descending); });
}

ValuesAndIndices sort(const Tensor& x, int64_t dim, bool descending) {
  given_dim("sort", x, dim);
  const Tensor places = argsort(x, dim, descending);
  return {take_along_dim(x, places, dim), places};
}

ValuesAndIndices topk(const Tensor& x, int64_t count, int64_t dim, bool largest) {
  const int d = given_dim("topk", x, dim);
  const Tensor whole = with_dim(x);
  check(count >= (x.rank() == 0) && count <= whole.size(d), "topk: ", count, " of dimension ", dim, " of ",
        x.shape());
  const Tensor places = slice(argsort(whole, d, largest), d, 0, count);
  return {as_given(x, take_along_dim(whole, places, d)), as_given(x, places)};
}

Tensor cumsum(const Tensor& x, int64_t dim) {
  return as_last("cumsum", x, dim, [](const Tensor& rows) { return Cumsum::apply(rows, false); });
}

Tensor flip(const Tensor& x, const Dims& dims) {
  autograd::check_given("flip", x);
  Tensor y = with_dim(x);
  dims_mask(dims, y.rank(), "flip");
  for (int64_t dim : dims) {
    const int64_t size = y.size(dim);
    y = index_select(y, dim, double(size - 1) - arange(size, DType::i64, x.device()));
  }
  return as_given(x, y);
}

Tensor roll(const Tensor& x, int64_t shift, int64_t dim) {
  const int d = given_dim("roll", x, dim);
  const Tensor whole = with_dim(x);
  const int64_t size = whole.size(d);
  if (size == 0) return x;
  const int64_t first = (size - shift % size) % size;  // what comes to the front
  return as_given(x, concat({slice(whole, d, first, size), slice(whole, d, 0, first)}, d));
}
Tensor roll(const Tensor& x, int64_t shift) {
  autograd::check_given("roll", x);
  return reshape(roll(reshape(x, {x.numel()}), shift, 0), x.shape());
}

Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims) {
  autograd::check_given("roll", x);
  check(shifts.size() == dims.size(), "roll: shifts ", shifts, " for dimensions ", dims);
  Tensor y = x;
  for (int i = 0; i < dims.size(); ++i) y = roll(y, shifts[i], dims[i]);
  return y;
}

Tensor repeat(const Tensor& x, const Dims& times) {
  constexpr auto op = "repeat";
  autograd::check_given(op, x);
  check(times.size() >= x.rank(), op, ": ", times, " says less than the ", x.rank(), " dimensions of ",
        x.shape());
  Shape shape = Shape::filled(times.size() - x.rank(), 1);
  for (int64_t size : x.shape()) shape.push_back(size);
  Tensor y = reshape(x, shape);
  for (int d = 0; d < times.size(); ++d) {
    check(times[d] >= 0, op, ": ", times, " has a number below 0");
    y = times[d] == 0 ? slice(y, d, 0, 0) : concat(TensorList(size_t(times[d]), y), d);
  }
  return y;
}

Tensor repeat_interleave(const Tensor& x, int64_t times, int64_t dim) {
  const int d = given_dim("repeat_interleave", x, dim);
  return repeat_slices(with_dim(x), d, [=](int64_t) { return times; });
}

Tensor repeat_interleave(const Tensor& x, const Tensor& times, int64_t dim) {
  constexpr auto op = "repeat_interleave";
  const int d = given_dim(op, x, dim);
  autograd::check_given(op, times);
  const Tensor whole = with_dim(x);
  check(times.dtype() == DType::i64 || times.dtype() == DType::i32, op, ": times must be i64 or i32, got ",
        times.dtype());
  check(times.rank() <= 1 && (times.numel() == 1 || times.numel() == whole.size(d)), op, ": times ",
        times.shape(), " for the ", whole.size(d), " slices of ", x.shape());
  const std::vector<int64_t> counts = times.to_vector<int64_t>();
  return repeat_slices(whole, d, [&](int64_t i) { return counts[counts.size() == 1 ? 0 : size_t(i)]; });
}

}  // namespace reprise
