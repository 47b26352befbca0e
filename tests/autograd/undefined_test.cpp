// A tensor that was never given a value: every function that is given one names itself.
#include "reprise/autograd/engine.h"
#include "reprise/autograd/gradcheck.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/index/along_dim.h"
#include "reprise/tests/support/compare.h"

namespace reprise {
namespace {

using testing::expect_error;

struct Call {
  const char* name;
  std::function<void()> body;
};

void expect_named(const std::vector<Call>& calls) {
  for (const Call& call : calls) {
    SCOPED_TRACE(call.name);
    expect_error(call.body, {std::string(call.name) + ": "});
  }
}

const Tensor none;

TEST(Undefined, IsNamedByFunctionsOfOneTensor) {
  expect_named({{"neg", [] { -none; }},
                {"exp", [] { exp(none); }},
                {"log", [] { log(none); }},
                {"sqrt", [] { sqrt(none); }},
                {"rsqrt", [] { rsqrt(none); }},
                {"square", [] { square(none); }},
                {"reciprocal", [] { reciprocal(none); }},
                {"abs", [] { abs(none); }},
                {"sin", [] { sin(none); }},
                {"cos", [] { cos(none); }},
                {"tanh", [] { tanh(none); }},
                {"sigmoid", [] { sigmoid(none); }},
                {"erf", [] { erf(none); }},
                {"relu", [] { relu(none); }},
                {"gelu", [] { gelu(none); }},
                {"gelu_tanh", [] { gelu_tanh(none); }},
                {"silu", [] { silu(none); }},
                {"sum", [] { sum(none); }},
                {"sum", [] { none.sum({0}); }},
                {"mean", [] { mean(none); }},
                {"variance", [] { variance(none); }},
                {"max", [] { max(none); }},
                {"min", [] { min(none); }},
                {"argmax", [] { argmax(none); }},
                {"sum_to", [] { sum_to(none, {1}); }},
                {"reshape", [] { reshape(none, {1}); }},
                {"transpose", [] { transpose(none, 0, 1); }},
                {"permute", [] { permute(none, {0}); }},
                {"slice", [] { slice(none, 0, 0, 1); }},
                {"select", [] { select(none, 0, 0); }},
                {"expand", [] { expand(none, {1}); }},
                {"unsqueeze", [] { unsqueeze(none, 0); }},
                {"squeeze", [] { squeeze(none, 0); }},
                {"clone", [] { clone(none); }},
                {"cast", [] { cast(none, DType::f64); }},
                {"split", [] { split(none, 1, 0); }},
                {"softmax", [] { softmax(none); }},
                {"log_softmax", [] { log_softmax(none); }},
                {"dropout", [] { dropout(none, 0.5); }},
                {"one_hot", [] { one_hot(none, 3); }},
                {"pow", [] { pow(none, 3); }},
                {"packed_attention", [] { packed_attention(none, 1); }}});
}

TEST(Undefined, IsNamedByFunctionsOfSeveralTensors) {
  Tensor x = ones({3}), m = ones({3, 3}), q = ones({1, 1, 3, 3}), i = zeros({3}, DType::i64);
  expect_named({{"add", [=] { none + x; }},
                {"add", [=] { x + none; }},
                {"sub", [=] { none - x; }},
                {"mul", [=] { x* none; }},
                {"div", [=] { none / x; }},
                {"maximum", [=] { maximum(x, none); }},
                {"minimum", [=] { minimum(none, x); }},
                {"where", [=] { where(none, x, x); }},
                {"where", [=] { where(less(x, x), none, x); }},
                {"where", [=] { where(less(x, x), x, none); }},
                {"equal", [=] { equal(x, none); }},
                {"not_equal", [=] { not_equal(none, x); }},
                {"less", [=] { less(x, none); }},
                {"less_equal", [=] { less_equal(none, x); }},
                {"greater", [=] { greater(x, none); }},
                {"greater_equal", [=] { greater_equal(none, x); }},
                {"matmul", [=] { matmul(none, m); }},
                {"matmul", [=] { matmul(m, none); }},
                {"linear", [=] { linear(none, m); }},
                {"linear", [=] { linear(m, none); }},
                {"mlp", [=] { mlp(none, m, {}, m, {}); }},
                {"mlp", [=] { mlp(m, none, {}, m, {}); }},
                {"mlp", [=] { mlp(m, m, {}, none, {}); }},
                {"layer_norm", [=] { layer_norm(none, {}, {}); }},
                {"rms_norm", [=] { rms_norm(none, {}); }},
                {"add_layer_norm", [=] { add_layer_norm(x, none, {}, {}); }},
                {"add_rms_norm", [=] { add_rms_norm(none, x, {}); }},
                {"batch_norm", [=] { batch_norm(none, {}, {}, {}, {}); }},
                {"group_norm", [=] { group_norm(none, 1, {}, {}); }},
                {"swiglu", [=] { swiglu(x, none); }},
                {"swiglu", [=] { swiglu(none, x); }},
                {"embedding", [=] { embedding(none, i); }},
                {"embedding", [=] { embedding(m, none); }},
                {"conv2d", [=] { conv2d(none, q); }},
                {"conv2d", [=] { conv2d(q, none); }},
                {"attention", [=] { attention(none, q, q); }},
                {"attention", [=] { attention(q, none, q); }},
                {"attention", [=] { attention(q, q, none); }},
                {"cross_entropy", [=] { cross_entropy(none, i); }},
                {"cross_entropy", [=] { cross_entropy(m, none); }},
                {"gather", [=] { gather(none, i); }},
                {"gather", [=] { gather(x, none); }},
                {"concat",
                 [=] {
                   concat({x, none}, 0);
                 }},
                {"concat",
                 [=] {
                   concat({none, x}, 0);
                 }},
                {"stack",
                 [=] {
                   stack({x, none}, 0);
                 }},
                {"stack", [=] { stack({none}, 0); }}});
}

TEST(Undefined, IsNamedByItsPlaceAmongTheArguments) {
  Tensor x = ones({3});
  testing::expect_error([&] { less(none, x); }, {"less: tensor argument 0 is undefined"});
  testing::expect_error([&] { less(x, none); }, {"less: tensor argument 1 is undefined"});
}

TEST(Undefined, IsNamedByTheEngineAndMethods) {
  Tensor x = ones({1}).set_requires_grad();
  expect_named({{"backward", [] { none.backward(); }},
                {"backward", [] { backward({none}); }},
                {"grad", [=] { grad({none}, {x}); }},
                {"grad", [=] { grad({x}, {none}); }},
                {"copy_", [] { ones({1}).copy_(none); }},
                {"add_", [] { ones({1}).add_(none); }},
                {"set_data", [] { ones({1}).set_data(none); }},
                {"requires_grad", [] { none.requires_grad(); }},
                {"set_requires_grad", [] { none.set_requires_grad(); }},
                {"is_leaf", [] { none.is_leaf(); }},
                {"grad", [] { none.grad(); }},
                {"set_grad", [] { none.set_grad(ones({1})); }},
                {"retain_grad", [] { none.retain_grad(); }},
                {"register_hook", [] { none.register_hook([](const Tensor&) { return Tensor(); }); }},
                {"detach", [] { none.detach(); }},
                {"contiguous", [] { none.contiguous(); }},
                {"to", [] { none.to(Device::cpu()); }},
                {"fill_", [] { none.zero_(); }},
                {"copy_", [] { none.copy_(ones({1})); }},
                {"add_", [] { none.add_(ones({1})); }},
                {"mul_", [] { none.mul_(2); }},
                {"set_data", [] { none.set_data(ones({1})); }},
                {"reshape", [] { none.reshape({1}); }},
                {"clone", [] { none.clone(); }},
                {"cast", [] { none.to(DType::f64); }},
                {"mean", [] { none.mean(); }},
                {"matmul", [=] {
                   none.matmul(ones({1, 1}));
                 }}});
}

}  // namespace
}  // namespace reprise
