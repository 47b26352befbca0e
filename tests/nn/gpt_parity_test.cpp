// Gpt against PyTorch: from the same weights and batch, the same loss, gradients and trained weights.
// tools/parity_torch.py made the golden file; with REPRISE_PARITY_FILE set, our values are written there for
// its --check.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "reprise/autograd/engine.h"
#include "reprise/io/safetensors.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/support/golden.h"

namespace reprise {
namespace {

// Both sides round in f32: PyTorch's own f32 differs from its f64 by 7e-7 here. 1e-5 is what we promise.
constexpr double tolerance = 1e-5;
constexpr int64_t width = 32;

struct Parity {
  io::SafetensorsFile golden{reprise::testing::golden_path("gpt_parity.safetensors")};
  nn::Gpt model{{.vocab_size = 61, .context = 16, .layers = 2, .heads = 4, .width = width}};
  Tensor tokens = golden.read("tokens"), targets = golden.read("targets");

  Parity() {
    nn::NamedTensors state;
    for (const auto& [name, parameter] : model.state_dict()) state.emplace_back(name, golden.read(name));
    model.load_state_dict(state);
  }

  Tensor backward() {
    Tensor loss = cross_entropy(model(tokens), targets);
    loss.backward();
    return loss;
  }
};

// The largest difference over [begin, end), relative to the largest wanted value there.
double relative_difference(const Tensor& got, const Tensor& want, int64_t begin, int64_t end) {
  double difference = 0, largest = 0;
  for (int64_t i = begin; i < end; ++i) {
    double a = got.data<float>()[i], b = want.data<float>()[i];
    if (std::isnan(a)) return a;
    difference = std::max(difference, std::abs(a - b));
    largest = std::max(largest, std::abs(b));
  }
  return difference / largest;
}

void expect_close(const std::string& name, const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape(), want.shape()) << name;
  EXPECT_LE(relative_difference(got, want, 0, want.numel()), tolerance) << name;
}

TEST(GptParity, LossAndGradientsAreThoseOfPyTorch) {
  Parity parity;
  expect_close("loss", parity.backward().detach(), parity.golden.read("loss"));
  for (const auto& [name, parameter] : parity.model.state_dict())
    expect_close("grad." + name, parameter.grad(), parity.golden.read("grad." + name));
}

TEST(GptParity, TenAdamWStepsLeadToPyTorchsWeights) {
  Parity parity;
  optim::AdamW optimizer(optim::decay_matrices(parity.model, 1e-3, 0.1),
                         {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8});
  for (int step = 0; step < 10; ++step) {
    parity.backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  for (const auto& [name, parameter] : parity.model.state_dict()) {
    Tensor got = parameter.detach(), want = parity.golden.read("after." + name);
    if (!name.ends_with("c_attn.bias")) {
      expect_close("after." + name, got, want);
      continue;
    }
    // A key's bias shifts all scores of a query alike, so its gradient is 0 but for rounding, which AdamW
    // scales up to whole steps: noise on both sides. The parts of q and v are compared.
    EXPECT_LE(relative_difference(got, want, 0, width), tolerance) << name << " of q";
    EXPECT_LE(relative_difference(got, want, 2 * width, 3 * width), tolerance) << name << " of v";
  }
}

TEST(GptParity, WritesItsValuesForPyTorchToCheck) {
  const char* path = std::getenv("REPRISE_PARITY_FILE");
  if (path == nullptr) GTEST_SKIP() << "REPRISE_PARITY_FILE is not set";
  Parity parity;
  nn::NamedTensors kept{{"tokens", parity.tokens}, {"targets", parity.targets}};
  for (const auto& [name, parameter] : parity.model.state_dict())
    kept.emplace_back(name, parameter.detach().clone());
  optim::AdamW optimizer(optim::decay_matrices(parity.model, 1e-3, 0.1), {.beta1 = 0.9, .beta2 = 0.95});
  for (int step = 0; step < 10; ++step) {
    Tensor loss = parity.backward();
    if (step == 0) {
      kept.emplace_back("loss", loss.detach().clone());
      for (const auto& [name, parameter] : parity.model.state_dict())
        kept.emplace_back("grad." + name, parameter.grad().clone());
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  for (const auto& [name, parameter] : parity.model.state_dict())
    kept.emplace_back("after." + name, parameter.detach());
  io::NamedViews views;
  for (const auto& [name, tensor] : kept) views.emplace_back(name, tensor.view());
  io::write_safetensors(path, views);
}

}  // namespace
}  // namespace reprise
