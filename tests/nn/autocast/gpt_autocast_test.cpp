// A GPT under autocast: its gradients beside PyTorch's (tests/golden/autocast_gpt.txt, made by
// tools/parity_autocast.py), and its regions, which change no bit.
#include <cmath>
#include <fstream>
#include <map>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/engine.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/io/safetensors.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/models/llama.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/autograd/recompute/support.h"
#include "reprise/tests/nn/autocast/casts.h"
#include "reprise/tests/support/golden.h"

namespace reprise {
namespace {

using testing::CountCasts;
using testing::expect_no_cast;
using testing::same_bits;
using testing::test_device;

std::map<std::string, double> distances_of_pytorch() {
  std::ifstream file(testing::golden_path("autocast_gpt.txt"));
  std::map<std::string, double> distances;
  for (std::string line; std::getline(file, line);)
    if (const size_t tab = line.find('\t'); tab != std::string::npos)
      distances[line.substr(0, tab)] = std::stod(line.substr(tab + 1));
  return distances;
}

double squares(const Tensor& x) { return sum(square(x.to(DType::f64))).item(); }

// The distance to the gradient in f32 over 16 batches, at most PyTorch's own: its gradients of weights are rounded to
// bf16, ours are not. Those of one parameter scatter.
TEST(GptAutocastParity, FirstGradientsAreNoFurtherFromF32ThanPyTorchs) {
  const io::SafetensorsFile golden(testing::golden_path("gpt_parity.safetensors"));
  nn::Gpt model({.vocab_size = 61, .context = 16, .layers = 2, .heads = 4, .width = 32});
  nn::NamedTensors state;
  for (const auto& [name, parameter] : model.state_dict()) state.emplace_back(name, golden.read(name));
  model.load_state_dict(state);
  auto gradients = [&](int64_t batch, bool enabled) {
    auto moved = [&](const char* key) {
      std::vector<int64_t> ids = golden.read(key).to_vector<int64_t>();
      for (int64_t& id : ids) id = (id + batch) % 61;
      return Tensor::from(ids, golden.read(key).shape());
    };
    model.zero_grad();
    {
      amp::Autocast scope(Device::cpu(), DType::bf16, {.enabled = enabled});
      cross_entropy(model(moved("tokens")), moved("targets")).backward();
    }
    std::map<std::string, Tensor> found;
    for (const auto& [name, parameter] : model.state_dict()) found[name] = parameter.grad();
    return found;
  };
  std::map<std::string, double> off, all;
  for (int64_t batch = 0; batch < 16; ++batch) {
    const std::map<std::string, Tensor> want = gradients(batch, false), got = gradients(batch, true);
    for (const auto& [name, gradient] : want) {
      NoGrad no_graph;
      for (const std::string& of : {name, std::string("all")})
        off[of] += squares(got.at(name) - gradient), all[of] += squares(gradient);
    }
  }
  for (const auto& [name, pytorchs] : distances_of_pytorch()) {
    ASSERT_TRUE(all.contains(name)) << name;
    const double own = std::sqrt(off[name] / all[name]);
    EXPECT_LE(own, (name == "all" ? 1 : 1.1) * pytorchs) << name;
    EXPECT_GT(own, 0.1 * pytorchs) << name << ": nothing was rounded";
  }
}

// Losses, gradients of the last and weights after three updates of two micro-batches.
using Prepare = std::function<void(nn::BlockStack&)>;

TensorList trained(const Prepare& prepare, DType dtype, amp::Shadows shadows) {
  manual_seed(5);
  nn::Gpt model({.vocab_size = 31, .context = 12, .layers = 3, .heads = 2, .width = 16, .dropout = 0.1},
                test_device());
  prepare(model.h);
  optim::AdamW optimizer(optim::decay_matrices(model, 1e-2, 0.1));
  const Tensor tokens = arange(2 * 12, DType::i64, test_device()).reshape({2, 12});
  TensorList seen;
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    for (int micro = 0; micro < 2; ++micro) {
      Tensor loss;
      {
        amp::Autocast scope(test_device(), dtype, {.weights = shadows});
        loss = cross_entropy(model(tokens), tokens);
      }
      seen.push_back(loss.detach());
      loss.backward();
    }
    optimizer.step();
  }
  for (const auto& [name, parameter] : model.named_parameters()) {
    seen.push_back(parameter.detach());
    seen.push_back(parameter.grad());
  }
  return seen;
}

TEST(GptAutocast, NoStrategyAndNoLifetimeOfShadowsChangesABit) {
  const auto by = [](const char* strategy) -> Prepare {
    return [=](nn::BlockStack& blocks) { blocks.set_recompute(parse_strategy(strategy)); };
  };
  for (DType dtype : {DType::bf16, DType::f16}) {
    const TensorList want = trained(by("none"), dtype, amp::Shadows::step);
    for (const Tensor& x : want) ASSERT_EQ(x.dtype(), DType::f32);
    ASSERT_TRUE(same_bits(trained(by("none"), dtype, amp::Shadows::forward), want))
        << "shadows of a forward pass";
    ASSERT_TRUE(same_bits(trained(by("none"), dtype, amp::Shadows::none), want)) << "no shadows";
    for (const char* strategy : {"full", "selective", "selective:save_attention", "every:2", "keep:2",
                                 "segments:2", "layers:0,2", "sqrt", "offload", "offload:recompute_cheap"})
      ASSERT_TRUE(same_bits(trained(by(strategy), dtype, amp::Shadows::step), want)) << strategy;
    for (const recompute::Plan& plan : {recompute::plan_every(3, 1), recompute::plan_every(3, 2)})
      for (CheckpointMode mode : testing::kModes)
        ASSERT_TRUE(
            same_bits(trained([&](nn::BlockStack& blocks) { blocks.set_recompute(plan, {.mode = mode}); },
                              dtype, amp::Shadows::step),
                      want))
            << testing::name_of(mode);
  }
}

// Norms and sums write the dtype of what follows, in both passes and in replays: no operation is a cast.
TEST(GptAutocast, RunsNoCast) {
  const Tensor tokens = arange(2 * 8, DType::i64, test_device()).reshape({2, 8});
  for (DType dtype : {DType::bf16, DType::f16})
    for (double dropout : {0.0, 0.1})
      for (const char* strategy : {"none", "full", "selective", "every:2"}) {
        nn::Gpt model(
            {.vocab_size = 17, .context = 8, .layers = 2, .heads = 2, .width = 16, .dropout = dropout},
            test_device());
        model.h.set_recompute(parse_strategy(strategy));
        expect_no_cast([&] { return cross_entropy(model(tokens), tokens); }, dtype,
                       "dropout " + std::to_string(dropout) + ", " + strategy);
      }
}

// Queries and keys have 16 bits when they are turned, as a product left them or behind a norm in f32.
TEST(GptAutocast, RunsNoCastBehindRotaryPositions) {
  const Tensor tokens = arange(2 * 8, DType::i64, test_device()).reshape({2, 8});
  for (DType dtype : {DType::bf16, DType::f16})
    for (bool qk_norm : {false, true})
      for (const char* strategy : {"none", "full", "selective"}) {
        nn::Gpt gpt({.vocab_size = 17,
                     .context = 8,
                     .layers = 2,
                     .heads = 2,
                     .width = 16,
                     .qk_norm = qk_norm,
                     .rotary = true,
                     .recompute = parse_strategy(strategy)},
                    test_device());
        expect_no_cast([&] { return cross_entropy(gpt(tokens), tokens); }, dtype, "Gpt");
        nn::Llama llama({.vocab_size = 17,
                         .context = 8,
                         .layers = 2,
                         .heads = 4,
                         .kv_heads = 2,
                         .width = 16,
                         .qk_norm = qk_norm,
                         .recompute = parse_strategy(strategy)},
                        test_device());
        expect_no_cast([&] { return cross_entropy(llama(tokens), tokens); }, dtype, "Llama");
      }
}

// A block against its parts, whose norms give f32, so that products cast: values and gradients.
TEST(GptAutocast, FusedCastsOfABlockChangeNoBit) {
  for (DType dtype : {DType::bf16, DType::f16})
    for (double dropout : {0.0, 0.25})
      for (nn::NormKind kind : {nn::NormKind::layer, nn::NormKind::rms}) {
        manual_seed(3);
        nn::TransformerBlock block(16, 2, {.dropout = dropout, .norm = kind}, test_device());
        nn::Dropout drop(dropout);
        auto by_parts = [&](const Tensor& x) {
          CountCasts count;
          Tensor y;
          if (dropout == 0) {
            const Tensor middle = block.attn(block.norm1(x), {.residual = x});
            y = block.mlp(block.norm2(middle), {.residual = middle});
          } else {
            const Tensor middle = x + drop(block.attn(block.norm1(x))).to(DType::f32);
            y = middle + drop(block.mlp(block.norm2(middle))).to(DType::f32);
          }
          EXPECT_GT(count.casts, 0);
          return y;
        };
        auto run = [&](const std::function<Tensor(const Tensor&)>& call) {
          block.zero_grad();
          manual_seed(4);
          const Tensor x = randn({2, 5, 16}, DType::f32, test_device()).set_requires_grad();
          Tensor y;
          {
            amp::Autocast scope(test_device(), dtype);
            y = call(x);
          }
          sum(square(y)).backward();
          TensorList seen = {y.detach(), x.grad()};
          for (const auto& [name, parameter] : block.named_parameters()) seen.push_back(parameter.grad());
          return seen;
        };
        const TensorList got = run([&](const Tensor&x) { return block(x); }), want = run(by_parts);
        EXPECT_TRUE(same_bits(got, want)) << dtype << ", dropout " << dropout;
      }
}

}  // namespace
}  // namespace reprise
