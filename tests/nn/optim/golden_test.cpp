// Optimizers, clipping and schedules against PyTorch: tools/parity_ops.py made the golden values, in f64.
#include <gtest/gtest.h>

#include <memory>
#include <sstream>

#include "reprise/io/safetensors.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/schedule.h"
#include "reprise/nn/optim/sgd.h"
#include "reprise/tests/support/compare.h"

namespace reprise::optim {
namespace {

using testing::is_close;

// Ours is f32: a few roundings a step over five steps of numbers below 3.
constexpr double kTolerance = 2e-6;

class Golden : public ::testing::Test {
 protected:
  // A number of a case, or one of a Python tuple such as "(0.9, 0.95)"; `absent` if the case does not have
  // it.
  double number(const std::string& key, double absent = 0, int place = 0) const {
    auto found = golden_.metadata().find(key);
    if (found == golden_.metadata().end()) return absent;
    std::string text = found->second;
    for (char& c : text)
      if (c == '(' || c == ')' || c == ',') c = ' ';
    std::istringstream in(text);
    double value = 0;
    for (int i = 0; i <= place; ++i) in >> value;
    EXPECT_TRUE(in) << key << ": " << found->second;
    return value;
  }

  template <class Make>
  void check(const std::string& name, Make&& make) {
    Tensor weight = golden_.read(name + ".start").set_requires_grad();
    Tensor grads = golden_.read(name + ".grads"), after = golden_.read(name + ".after");
    auto optimizer = make(TensorList{weight});
    ASSERT_EQ(after.size(0), 5);
    for (int64_t step = 0; step < after.size(0); ++step) {
      weight.set_grad(grads.select(0, step).clone());
      optimizer->step();
      EXPECT_TRUE(is_close(weight.detach(), after.select(0, step), kTolerance)) << name << ", step " << step;
    }
  }

  io::SafetensorsFile golden_{REPRISE_SOURCE_DIR "/tests/golden/ops.safetensors"};
};

TEST_F(Golden, AdamWGoesWherePyTorchsGoes) {
  for (std::string name : {"adamw.decay", "adamw.no_decay"})
    check(name, [&](const TensorList& parameters) {
      return std::make_unique<AdamW>(parameters,
                                     AdamWOptions{.lr = number(name + ".lr"),
                                                  .beta1 = number(name + ".betas"),
                                                  .beta2 = number(name + ".betas", 0, 1),
                                                  .eps = number(name + ".eps"),
                                                  .weight_decay = number(name + ".weight_decay")});
    });
}

TEST_F(Golden, SgdGoesWherePyTorchsGoes) {
  for (std::string name : {"sgd.plain", "sgd.momentum_decay", "sgd.nesterov"})
    check(name, [&](const TensorList& parameters) {
      return std::make_unique<Sgd>(parameters, SgdOptions{.lr = number(name + ".lr"),
                                                          .momentum = number(name + ".momentum"),
                                                          .nesterov = name == "sgd.nesterov",
                                                          .weight_decay = number(name + ".weight_decay")});
    });
}

TEST_F(Golden, ClippingGivesPyTorchsNormAndGradients) {
  for (std::string name : {"clip_grad_norm.clips", "clip_grad_norm.leaves"}) {
    TensorList parameters;
    for (const char* part : {".a", ".b"}) {
      Tensor gradient = golden_.read(name + part);
      parameters.push_back(Tensor::zeros(gradient.shape()).set_requires_grad());
      parameters.back().set_grad(gradient);
    }
    double norm = clip_grad_norm(parameters, number(name + ".max_norm"));
    EXPECT_NEAR(norm, golden_.read(name + ".norm").item(), 1e-6) << name;  // stored in f32
    EXPECT_TRUE(is_close(parameters[0].grad(), golden_.read(name + ".a_clipped"), 1e-7)) << name;
    EXPECT_TRUE(is_close(parameters[1].grad(), golden_.read(name + ".b_clipped"), 1e-7)) << name;
  }
}

TEST_F(Golden, SchedulesGivePyTorchsRates) {
  for (auto [name, decay] : {std::pair("lr.cosine", Decay::cosine), std::pair("lr.linear", Decay::linear),
                             std::pair("lr.constant", Decay::constant)}) {
    double base = number(std::string(name) + ".base");
    Schedule schedule{.lr = base,
                      .min_lr = number(std::string(name) + ".min", 0.1 * base),
                      .steps = int64_t(number(std::string(name) + ".steps", 20)),
                      .decay = decay};
    Tensor rates = golden_.read(std::string(name) + ".rates");
    for (int64_t step = 0; step < rates.numel(); ++step)
      EXPECT_NEAR(schedule(step), rates.select(0, step).item(), 1e-8)
          << name << ", step " << step;  // stored in f32
  }
}

}  // namespace
}  // namespace reprise::optim
