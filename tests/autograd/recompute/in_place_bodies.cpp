#include "reprise/tests/autograd/recompute/in_place_bodies.h"

#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/ops/elementwise/pointwise.h"
#include "reprise/autograd/ops/index/indexing.h"

namespace reprise::testing {
namespace {

// A buffer filled row by row, of which parts are read again; what is saved is changed afterwards.
Tensor filled(const Tensor& x, const Tensor& w) {
  Tensor buffer = zeros({4, 3}, DType::f32, x.device());
  for (int64_t i = 0; i < 4; ++i) buffer.index_put_({i}, tanh(x[i] * w));
  Tensor h = exp(buffer * 0.5);  // keeps its result
  Tensor kept = h * w;           // keeps h
  h.mul_(3).add_(buffer, 0.25);
  h.index_put_({h > 3.5}, 1.5);
  h.index_put_({Slice(), 0}, kept[{Slice(), 2}] + h[{Slice(), 1}], true);
  return h * kept;
}

Tensor by_value(const Tensor& x, const Tensor& w) {
  Tensor h = matmul(x, w.reshape({3, 1})) * x;
  Tensor half = h.to(DType::bf16);
  half.add_(x.to(DType::bf16), 0.3).mul_(1.7);  // what rounds twice has other bits
  h.copy_(half);
  h.relu_().sub_(x).div_(w).clamp_(-2, 2).masked_fill_(x > 0.5, 0.25);
  return h * x;
}

Tensor a_constant_too(const Tensor& x, const Tensor& w) {
  Tensor m = sin(x.detach()), view = m.transpose(0, 1);  // outside of the graph: views see it
  m.mul_(0.5);
  Tensor scale = zeros({3}, DType::f32, x.device());
  scale.fill_(2);
  scale.index_put_({1}, 3);
  scale.mul_(w);  // from here on in the graph
  return x * scale + view.transpose(0, 1);
}

// What was saved of a buffer before the next write: the first run, which keeps none of it, has the replay's bits.
Tensor read_between(const Tensor& x, const Tensor& w) {
  Tensor buffer = zeros({4, 3}, DType::f32, x.device());
  Tensor read = x;
  for (int64_t i = 0; i < 4; ++i) {
    buffer.index_put_({i}, tanh(read[i] * w));
    buffer.add_(w, 0.5).mul_(0.9);
    if (i % 2) read = read + square(buffer);  // keeps it
    buffer.index_put_({Tensor::from<int64_t>({0, 3, 0}, {3}, x.device())}, read[{Slice(0, 3)}], i > 1);
  }
  buffer.copy_(buffer * read);
  Tensor part = buffer[{Slice(1, 3)}] * 1.0;
  part.fill_(0.25).add_(w);
  return concat({part, buffer[{Slice(0, 2)}]}, 0) * read;
}

Tensor by_assignment(const Tensor& x, const Tensor& w) {
  Tensor buffer = zeros({4, 3}, DType::f32, x.device());
  for (int64_t i = 0; i < 4; ++i) buffer[i] = tanh(x[i] * w);
  const Tensor kept = exp(buffer * 0.5);
  buffer[{Slice(), 0}] += kept[{Slice(), 2}];
  buffer[buffer > 1] *= 0.5;
  buffer[1][Slice(1, {})] -= w[{Slice(1, {})}];
  buffer[2][0] = 0.25;
  return buffer * kept;
}

Tensor by_functions(const Tensor& x, const Tensor& w) {
  Tensor h = x * w;
  h.abs_().sqrt_().exp_().lerp_(w, 0.25).addcmul_(x, w, 0.5).addcdiv_(w, x);
  const Tensor kept = h * w;  // keeps h
  h.sigmoid_().log_().neg_().pow_(1.5).square_().tanh_();
  return h.triu_(-1) + kept.clone().tril_(1);
}

// Places along both dimensions, and numbers that are drawn, of which some get the gradient of what is added.
Tensor by_places(const Tensor& x, const Tensor& w) {
  const Tensor rows = Tensor::from<int64_t>({3, 0, 3}, {3}, x.device());
  Tensor h = zeros({4, 3}, DType::f32, x.device());
  h.normal_(0, 0.5).mul_(w).index_copy_(0, rows, x[{Slice(0, 3)}]);
  const Tensor kept = h * x;  // keeps h
  h.scatter_(1, Tensor::from<int64_t>({2, 1, 1, 1, 0, 1, 2, 0}, {4, 2}, x.device()),
             x[{Slice(), Slice(0, 2)}]);
  h.index_add_(0, rows, kept[{Slice(1, {})}]).index_fill_(1, rows[{Slice(1, 2)}], 0.5);
  h.scatter_add_(0, rows.unsqueeze(1).expand({3, 3}), tanh(x[{Slice(1, {})}]));
  Tensor noise = x * 2.0;
  return h * kept + noise.uniform_(-1, 1) * w;
}

Tensor by_more_functions(const Tensor& x, const Tensor& w) {
  Tensor h = x * w;
  h.sin_().expm1_().erf_().cos_().reciprocal_().log1p_().elu_(0.5).leaky_relu_(0.2);
  const Tensor kept = h * w;  // keeps h
  h.square_().add_(0.5).rsqrt_().cumsum_(0).pow_(abs(w.detach()));
  Tensor steps = h * 3.0;
  steps.floor_().add_(kept).ceil_().sub_(x).round_().mul_(w).trunc_().add_(x).sign_();
  return h * kept + steps * w;
}

// With tensors and other dtypes beside them, and bits that are drawn, which get the gradient of what is added.
Tensor by_operands(const Tensor& x, const Tensor& w) {
  Tensor h = x * 2.0;
  h.fmod_(1.5).remainder_(abs(w.detach()) + 0.5).lerp_(w, sigmoid(x));
  const Tensor kept = h * x;  // keeps h
  h.masked_fill_(x > 0.25, w[0]).add_(x.to(DType::i64), 0.5).fmod_(w).remainder_(0.75);
  Tensor same = x * w;
  same.fill_(kept[1][2]);
  Tensor bits = x * 2.0;
  return h * kept + same * w + bits.bernoulli_(0.5).add_(w.to(DType::f64)) * x;
}

}  // namespace

const std::vector<InPlaceBody>& in_place_bodies() {
  static const std::vector<InPlaceBody> bodies{filled,       by_value,          a_constant_too,
                                               read_between, by_assignment,     by_functions,
                                               by_places,    by_more_functions, by_operands};
  return bodies;
}

}  // namespace reprise::testing
