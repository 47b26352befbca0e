// functional_call of whole models: the values of another model of the same form, as leaves, give what that model gives.
#include "reprise/nn/functional_call.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/models/llama.h"
#include "reprise/nn/models/resnet.h"
#include "reprise/nn/models/unet.h"
#include "reprise/nn/models/vit.h"
#include "reprise/tests/autograd/recompute/support.h"
#include "reprise/tests/nn/small_models.h"

namespace reprise::nn {
namespace {

using testing::numbers;
using testing::same_bits;
using testing::test_device;

template <class Model>
std::unique_ptr<Model> made(const auto& options, uint64_t seed) {
  auto model = std::make_unique<Model>(options, test_device());
  NoGrad guard;
  Generator generator(seed);
  for (const auto& [name, p] : model->named_parameters())
    p.copy_(normal_init(p.shape(), 0.3, Device::cpu(), &generator).to(test_device()));
  return model;
}

template <class Model>
void expect_as_that_model(const auto& options, const Tensor& x) {
  for (const char* strategy : {"none", "full"})
    for (const bool autocast : {false, true}) {
      SCOPED_TRACE(std::string(strategy) + (autocast ? ", autocast" : ""));
      auto model = made<Model>(options, 1), other = made<Model>(options, 2);
      NamedTensors given;
      TensorList leaves;
      for (const auto& [name, p] : other->named_parameters()) {
        leaves.push_back(p.detach().clone().set_requires_grad());
        given.emplace_back(name, leaves.back());
      }
      for (const auto& [name, buffer] : other->named_buffers()) given.emplace_back(name, buffer.clone());
      const NamedTensors own = model->named_buffers();
      TensorList before;
      for (const auto& [name, buffer] : own) before.push_back(buffer.clone());
      if constexpr (requires { model->h; }) model->h.set_recompute(parse_strategy(strategy));
      if constexpr (requires { model->layers; }) model->layers.set_recompute(parse_strategy(strategy));
      if constexpr (requires { model->blocks; }) model->blocks.set_recompute(parse_strategy(strategy));
      if constexpr (requires { model->set_recompute({}); }) model->set_recompute(parse_strategy(strategy));
      Tensor got, want;
      {
        amp::Autocast scope(test_device(), DType::bf16, {.enabled = autocast});
        want = (*other)(x);
        got = functional_call(*model, given, x);
      }
      EXPECT_TRUE(same_bits(got, want));
      mean(square(got)).backward();
      mean(square(want)).backward();
      const NamedTensors theirs = other->named_parameters();
      for (size_t i = 0; i < leaves.size(); ++i)
        EXPECT_TRUE(same_bits(leaves[i].grad(), theirs[i].second.grad())) << theirs[i].first;
      const NamedTensors statistics = other->named_buffers();
      for (size_t i = 0; i < statistics.size(); ++i) {
        EXPECT_TRUE(same_bits(given[leaves.size() + i].second, statistics[i].second)) << statistics[i].first;
        EXPECT_TRUE(same_bits(own[i].second, before[i])) << statistics[i].first;
      }
      for (const auto& [name, p] : model->named_parameters()) EXPECT_FALSE(p.grad().defined()) << name;
    }
}

TEST(FunctionalModels, Gpt) {
  expect_as_that_model<Gpt>(testing::odd_gpt(), testing::random_tokens({2, 7}, 23, 4).to(test_device()));
}

TEST(FunctionalModels, Llama) {
  const LlamaOptions options{
      .vocab_size = 23, .context = 11, .layers = 2, .heads = 4, .kv_heads = 2, .width = 16};
  expect_as_that_model<Llama>(options, testing::random_tokens({2, 7}, 23, 4).to(test_device()));
}

TEST(FunctionalModels, Vit) {
  const VitOptions options{.image = 8,
                           .patch = 4,
                           .classes = 5,
                           .width = 16,
                           .layers = 2,
                           .heads = 2,
                           .registers = 1,
                           .layer_scale = 0.5,
                           .qk_norm = true,
                           .rope = true};
  expect_as_that_model<Vit>(options, numbers({3, 3, 8, 8}));
}

TEST(FunctionalModels, ResNet) {
  const ResNetOptions options{.classes = 5, .width = 4, .blocks = {1, 1}, .stem = ResNetStem::cifar};
  expect_as_that_model<ResNet>(options, numbers({3, 3, 8, 8}));
}

TEST(FunctionalModels, UNet) {
  const UNetOptions options{.channels = 2, .classes = 2, .features = 4, .depth = 2};
  expect_as_that_model<UNet>(options, numbers({2, 2, 9, 7}));
}

}  // namespace
}  // namespace reprise::nn
