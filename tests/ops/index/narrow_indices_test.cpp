// Indices of i32, as tokenizers give them, wherever i64 are taken: the bits of both are the same.
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::same_bits;
using testing::test_device;

struct Case {
  const char* name;
  Shape x, indices;
  std::function<Tensor(const Tensor& x, const Tensor& indices)> call;
};

TEST(NarrowIndices, GiveTheBitsOfWideOnes) {
  const std::vector<Case> cases = {
      {"embedding", {3, 4}, {2, 3}, [](auto& x, auto& i) { return embedding(x, i); }},
      {"take_tokens", {2, 3, 4}, {2, 3}, [](auto& x, auto& i) { return take_tokens(x, i); }},
      {"cross_entropy", {2, 3, 5}, {2, 3}, [](auto& x, auto& i) { return cross_entropy(x, i); }},
      {"cross_entropy of logits given away",
       {2, 3, 5},
       {2, 3},
       [](auto& x, auto& i) { return cross_entropy(x * 2.0, i, {.ignore_index = 1}); }},
      {"cross_entropy with weights",
       {2, 3, 5},
       {2, 3},
       [](auto& x, auto& i) {
         return cross_entropy(x, i, {.weight = ones({5}, DType::f32, test_device()) * 0.3});
       }},
      {"nll_loss", {2, 3, 5}, {2, 3}, [](auto& x, auto& i) { return nll_loss(log_softmax(x), i); }}};
  for (const Case& c : cases) {
    auto run = [&](DType dtype) {
      manual_seed(1);
      Tensor x = randn(c.x, DType::f32, test_device()).set_requires_grad();
      const Tensor indices = Tensor::from<int64_t>({0, 2, 1, 1, 0, 2}, c.indices).to(dtype).to(test_device());
      Tensor y = c.call(x, indices);
      sum(square(y)).backward();
      return TensorList{y.detach(), x.grad()};
    };
    EXPECT_TRUE(same_bits(run(DType::i32), run(DType::i64))) << c.name;
  }
}

}  // namespace
}  // namespace reprise
