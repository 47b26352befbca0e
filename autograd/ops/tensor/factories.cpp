// Making tensors: constants, ranges and random numbers.
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
