// Optimizers, clipping and schedules against PyTorch's values in tests/golden/ops.safetensors
// (tools/parity_ops.py).
#include "reprise/tests/support/golden.h"
#include "reprise/io/safetensors.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/schedule.h"
#include "reprise/nn/optim/sgd.h"
#include "reprise/tests/support/compare.h"

namespace reprise::optim {
namespace {

using testing::is_close;

// Some ten roundings of f32, whose unit is 6e-8, in each of five steps.
constexpr double tolerance = 1e-6;

Tensor golden(const std::string& key) {
  static const io::SafetensorsFile file(reprise::testing::golden_path("ops.safetensors"));
  return file.read(key);
}

// The weight after each of the case's gradients.
template <class Optimizer, class Options>
void check_steps(const std::string& key, const Options& options) {
  SCOPED_TRACE(key);
  Tensor weight = golden(key + ".start").set_requires_grad();
  Tensor grads = golden(key + ".grads"), after = golden(key + ".after");
  Optimizer optimizer(TensorList{weight}, options);
  for (int64_t step = 0; step < grads.size(0); ++step) {
    weight.set_grad(grads.select(0, step).clone());
    optimizer.step();
    EXPECT_TRUE(is_close(weight.detach(), after.select(0, step), tolerance)) << "step " << step;
  }
}

TEST(OptimGolden, AdamWTakesPyTorchsSteps) {
  check_steps<AdamW, AdamWOptions>(
      "adamw.decay", {.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1});
  check_steps<AdamW, AdamWOptions>(
      "adamw.no_decay", {.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-6, .weight_decay = 0});
}

TEST(OptimGolden, SgdTakesPyTorchsSteps) {
  check_steps<Sgd, SgdOptions>("sgd.plain", {.lr = 0.1});
  check_steps<Sgd, SgdOptions>("sgd.momentum_decay", {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01});
  check_steps<Sgd, SgdOptions>("sgd.nesterov",
                               {.lr = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01});
}

TEST(OptimGolden, ClippingIsThatOfPyTorch) {
  for (auto [name, limit] : {std::pair("clips", 1.0), std::pair("leaves", 100.0)}) {
    std::string key = std::string("clip_grad_norm.") + name;
    SCOPED_TRACE(key);
    TensorList weights;
    for (const char* part : {".a", ".b"}) {
      Tensor gradient = golden(key + part);
      weights.push_back(Tensor::zeros(gradient.shape()).set_requires_grad());
      weights.back().set_grad(gradient);
    }
    double norm = clip_grad_norm(weights, limit);
    EXPECT_NEAR(norm, golden(key + ".norm").item(), tolerance * norm);
    EXPECT_TRUE(is_close(weights[0].grad(), golden(key + ".a_clipped"), tolerance));
    EXPECT_TRUE(is_close(weights[1].grad(), golden(key + ".b_clipped"), tolerance));
  }
}

TEST(OptimGolden, SchedulesAreThoseOfPyTorch) {
  auto check = [](const std::string& key, const Schedule& schedule) {
    Tensor rates = golden(key + ".rates");
    for (int64_t step = 0; step < rates.numel(); ++step) {
      double want = rates.data<float>()[step];
      EXPECT_NEAR(schedule(step), want, 1e-7 * want) << key << " at step " << step;  // kept in f32
    }
  };
  check("lr.cosine", {.lr = 0.1, .min_lr = 0.01, .steps = 20, .decay = Decay::cosine});
  check("lr.linear", {.lr = 0.1, .min_lr = 0.01, .steps = 20, .decay = Decay::linear});
  check("lr.constant", {.lr = 0.1, .steps = 100, .decay = Decay::constant});
}

}  // namespace
}  // namespace reprise::optim
