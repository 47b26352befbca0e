// Making tensors: constants, ranges and random numbers.
#include <algorithm>
#include <cmath>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/ops.h"
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

}  // namespace

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
  check(step != 0 && std::isfinite((end - start) / step), "arange: from ", start, " to ", end,
        " by steps of ", step);
  const int64_t count = std::max<int64_t>(0, int64_t(std::ceil((end - start) / step)));
  return cast(arange(count, DType::f64, device) * step + start, dtype);
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

Tensor zeros_like(const Tensor& x) { return zeros(x.shape(), x.dtype(), x.device()); }
Tensor ones_like(const Tensor& x) { return ones(x.shape(), x.dtype(), x.device()); }
Tensor full_like(const Tensor& x, double value) { return full(x.shape(), value, x.dtype(), x.device()); }
Tensor rand_like(const Tensor& x, Generator* generator) {
  return rand(x.shape(), x.dtype(), x.device(), generator);
}
Tensor randn_like(const Tensor& x, Generator* generator) {
  return randn(x.shape(), x.dtype(), x.device(), generator);
}

Tensor rand(const Shape& shape, DType dtype, Device device, Generator* generator) {
  Tensor y = Tensor::empty(shape, dtype, device);
  Generator::State draw = autograd::random_draw(generator);
  auto fill = [&](const Stream& stream, const TensorView& view) {
    kernels::fill_uniform(stream, view, 0, 1, draw.seed, draw.offset);
  };
  return made("rand", y, fill, draw);
}

Tensor randn(const Shape& shape, DType dtype, Device device, Generator* generator) {
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
