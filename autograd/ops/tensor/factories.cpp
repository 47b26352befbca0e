// Making tensors: constants, ranges and random numbers.
#include "reprise/autograd/ops/tensor/factories.h"

#include <algorithm>
#include <cmath>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/number.h"
#include "reprise/autograd/random_draw.h"
#include "reprise/kernels/elementwise/copy.h"
#include "reprise/kernels/elementwise/random_fill.h"
#include "reprise/kernels/index/index.h"

namespace reprise {
namespace {

// For observers: the kernels that fill it are not asked for by others, and it is known by what it was made
// of.
template <class Fill, class... Args>
Tensor made(const char* factory, const Tensor& y, const Fill& fill, const Args&... args) {
  SetDataObserver unseen(nullptr);
  fill(current_stream(y.device()), y.view());
  if (autograd::OpObserver::any())
    autograd::OpObserver::notify_made(factory, y, autograd::attributes_of(y.shape(), y.dtype(), args...));
  return y;
}

// The numbers of a literal in row-major order, and what is known of them.
struct Literal {
  std::vector<double> reals;
  std::vector<int64_t> wholes;
  std::optional<DType> dtype;
};

// The shape of `part`, whose numbers are added to `all`.
Shape read_literal(const detail::Nested& part, Literal& all) {
  if (!part.is_list) {
    all.wholes.push_back(part.whole);
    all.reals.push_back(part.dtype == DType::f32 ? part.real : double(part.whole));
    all.dtype = all.dtype ? promote(*all.dtype, part.dtype) : part.dtype;
    return {};
  }
  Shape shape{int64_t(part.list.size())}, first;
  for (size_t i = 0; i < part.list.size(); ++i) {
    const Shape inner = read_literal(part.list[i], all);
    if (i == 0) first = inner;
    check(inner == first, "tensor: what stands side by side has shapes ", first, " and ", inner);
  }
  for (int64_t size : first) shape.push_back(size);
  return shape;
}

}  // namespace

Tensor tensor(const detail::Nested& numbers, std::optional<DType> dtype, Device device) {
  Literal all;
  const Shape shape = read_literal(numbers, all);
  const DType own = all.dtype.value_or(DType::f32), wanted = dtype.value_or(own);
  for (double number : all.reals)
    if (wanted != DType::i64 || is_floating(own)) autograd::element("tensor", number, wanted);
  const Tensor y =
      is_floating(own) ? Tensor::from(all.reals, shape, device) : Tensor::from(all.wholes, shape, device);
  return cast(y, wanted);
}

Tensor empty(const Shape& shape, DType dtype, Device device) { return Tensor::empty(shape, dtype, device); }

Tensor zeros(const Shape& shape, DType dtype, Device device) { return Tensor::zeros(shape, dtype, device); }

Tensor ones(const Shape& shape, DType dtype, Device device) { return full(shape, 1, dtype, device); }

Tensor full(const Shape& shape, double value, DType dtype, Device device) {
  double element = autograd::element("full", value, dtype);
  auto fill = [&](const Stream& stream, const TensorView& y) { kernels::fill(stream, y, element); };
  return made("full", Tensor::empty(shape, dtype, device), fill, value);
}

Tensor scalar(double value, DType dtype, Device device) { return full({}, value, dtype, device); }

Tensor arange(int64_t count, DType dtype, Device device) {
  check(count >= 0, "arange: count must be at least 0, got ", count);
  auto fill = [](const Stream& stream, const TensorView& y) { kernels::arange(stream, y); };
  return made("arange", Tensor::empty({count}, dtype, device), fill);
}

Tensor arange(double start, double end, double step, DType dtype, Device device) {
  const double steps = std::ceil((end - start) / step);
  check(step != 0 && std::isfinite(steps) && steps <= double(max_elements), "arange: from ", start, " to ",
        end, " by steps of ", step);
  return cast(arange(int64_t(std::max(0.0, steps)), DType::f64, device) * step + start, dtype);
}

Tensor detail::range_of_integers(int64_t start, int64_t end, int64_t step, DType dtype, Device device) {
  // Without signs, as the way from one number to another may not fit i64.
  const bool up = step > 0;
  const uint64_t to = uint64_t(up ? end : start), from = uint64_t(up ? start : end),
                 length = (up ? end > start : start > end) ? to - from : 0,
                 stride = up ? uint64_t(step) : 0 - uint64_t(step);
  const uint64_t count = step == 0 ? 0 : length / stride + (length % stride != 0);
  check(step != 0 && count <= uint64_t(max_elements), "arange: from ", start, " to ", end, " by steps of ",
        step);
  // By halves, as a double does not have all numbers of i64.
  auto number = [&](int64_t value) {
    return scalar(double(value >> 32), DType::i64, device) * 0x1p32 + double(value & 0xffffffff);
  };
  return cast(arange(int64_t(count), DType::i64, device) * number(step) + number(start), dtype);
}

Tensor linspace(double start, double end, int64_t count, DType dtype, Device device) {
  check(count >= 0, "linspace: count must be at least 0, got ", count);
  const Tensor i = arange(count, DType::f64, device);
  const double last = double(std::max<int64_t>(1, count - 1)), step = (end - start) / last;
  // From both ends, so that both are exact.
  return cast(where(less(i, scalar(0.5 * double(count), DType::f64, device)), i * step + start,
                    (i - last) * step + end),
              dtype);
}

Tensor eye(int64_t rows, int64_t columns, DType dtype, Device device) {
  check(rows >= 0 && columns >= 0, "eye: sizes must be at least 0, got ", rows, " and ", columns);
  return cast(equal(unsqueeze(arange(rows, DType::i64, device), 1), arange(columns, DType::i64, device)),
              dtype);
}

Tensor eye(int64_t size, DType dtype, Device device) { return eye(size, size, dtype, device); }

Tensor empty_like(const Tensor& x, DType dtype) { return Tensor::empty(x.shape(), dtype, x.device()); }
Tensor zeros_like(const Tensor& x, DType dtype) { return zeros(x.shape(), dtype, x.device()); }
Tensor ones_like(const Tensor& x, DType dtype) { return ones(x.shape(), dtype, x.device()); }
Tensor full_like(const Tensor& x, double value, DType dtype) {
  return full(x.shape(), value, dtype, x.device());
}
Tensor rand_like(const Tensor& x, DType dtype, Generator* generator) {
  return rand(x.shape(), dtype, x.device(), generator);
}
Tensor randn_like(const Tensor& x, DType dtype, Generator* generator) {
  return randn(x.shape(), dtype, x.device(), generator);
}

Tensor empty_like(const Tensor& x) { return empty_like(x, x.dtype()); }
Tensor zeros_like(const Tensor& x) { return zeros_like(x, x.dtype()); }
Tensor ones_like(const Tensor& x) { return ones_like(x, x.dtype()); }
Tensor full_like(const Tensor& x, double value) { return full_like(x, value, x.dtype()); }
Tensor rand_like(const Tensor& x, Generator* generator) { return rand_like(x, x.dtype(), generator); }
Tensor randn_like(const Tensor& x, Generator* generator) { return randn_like(x, x.dtype(), generator); }

Tensor rand(const Shape& shape, DType dtype, Device device, Generator* generator) {
  check(is_floating(dtype), "rand: needs a floating dtype, got ", dtype);
  Tensor y = Tensor::empty(shape, dtype, device);
  Generator::State draw = autograd::random_draw(generator);
  auto fill = [&](const Stream& stream, const TensorView& view) {
    kernels::fill_uniform(stream, view, 0, 1, draw.seed, draw.offset);
  };
  return made("rand", y, fill, draw);
}

Tensor randn(const Shape& shape, DType dtype, Device device, Generator* generator) {
  check(is_floating(dtype), "randn: needs a floating dtype, got ", dtype);
  Tensor y = Tensor::empty(shape, dtype, device);
  Generator::State draw = autograd::random_draw(generator);
  auto fill = [&](const Stream& stream, const TensorView& view) {
    kernels::fill_normal(stream, view, 0, 1, draw.seed, draw.offset);
  };
  return made("randn", y, fill, draw);
}

Tensor one_hot(const Tensor& indices, int64_t classes, DType dtype) {
  autograd::check_given("one_hot", indices);
  check(indices.dtype() == DType::i64 || indices.dtype() == DType::i32,
        "one_hot: indices must be i64 or i32, got ", indices.dtype());
  check(classes >= 0, "one_hot: classes must be at least 0, got ", classes);
  Shape shape = indices.shape();
  shape.push_back(classes);
  numel_of(shape, "one_hot");
  Tensor codes = Tensor::empty(shape, dtype, indices.device());
  kernels::one_hot(current_stream(indices.device()), indices, codes);
  return codes;
}

}  // namespace reprise
