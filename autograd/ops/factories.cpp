// Making tensors: constants, ranges and random numbers.
#include "reprise/autograd/draw.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/number.h"
#include "reprise/kernels/copy.h"
#include "reprise/kernels/index.h"
#include "reprise/kernels/random_fill.h"

namespace reprise {

Tensor zeros(const Shape& shape, DType dtype, Device device) { return Tensor::zeros(shape, dtype, device); }

Tensor ones(const Shape& shape, DType dtype, Device device) { return full(shape, 1, dtype, device); }

Tensor full(const Shape& shape, double value, DType dtype, Device device) {
  Tensor out = Tensor::empty(shape, dtype, device);
  kernels::fill(current_stream(device), out, autograd::element("full", value, dtype));
  return out;
}

Tensor scalar(double value, DType dtype, Device device) { return full({}, value, dtype, device); }

Tensor arange(int64_t count, DType dtype, Device device) {
  check(count >= 0, "arange: count must be at least 0, got ", count);
  Tensor out = Tensor::empty({count}, dtype, device);
  kernels::arange(current_stream(device), out);
  return out;
}

Tensor rand(const Shape& shape, DType dtype, Device device, Generator* generator) {
  Tensor out = Tensor::empty(shape, dtype, device);
  auto [seed, offset] = autograd::draw(generator);
  kernels::fill_uniform(current_stream(device), out, 0, 1, seed, offset);
  return out;
}

Tensor randn(const Shape& shape, DType dtype, Device device, Generator* generator) {
  Tensor out = Tensor::empty(shape, dtype, device);
  auto [seed, offset] = autograd::draw(generator);
  kernels::fill_normal(current_stream(device), out, 0, 1, seed, offset);
  return out;
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
