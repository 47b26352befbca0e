// Averages of weights against the recurrence in f64.
#include "reprise/nn/optim/ema.h"

#include <cmath>
#include <map>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/nn/batch_norm.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/tests/nn/optim/parameters.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::optim {
namespace {

using namespace testing;

void set_weights(nn::Module& module, uint64_t step) {
  NoGrad guard;
  for (auto& [name, p] : module.named_parameters())
    p.copy_(tensor_of(numbers(size_t(p.numel()), name.size(), step), p.shape()));
}

Doubles values(const Tensor& x) { return x.detach().to_vector<double>(); }

TEST(Ema, FollowsTheRecurrence) {
  nn::Linear net(3, 5);
  set_weights(net, 0);
  Ema ema(net, 0.7);
  Doubles want = values(net.weight);
  for (uint64_t step = 1; step < 6; ++step) {
    set_weights(net, step);
    ema.update();
    Doubles now = values(net.weight);
    for (size_t i = 0; i < want.size(); ++i) want[i] = 0.7 * want[i] + 0.3 * now[i];
    EXPECT_EQ(ema.state_dict()[0].first, "weight");
    EXPECT_TRUE(is_close(values(ema.state_dict()[0].second), want, 1e-6))
        << step;  // two f32 roundings a step
  }
}

// A thousandth of the way from 1 to 2 is below half of bf16's last bit.
TEST(Ema, OfWeightsOf16BitsIsF32AndEvaluatesItRounded) {
  nn::Linear net(3, 5);
  nn::to_precision(net, DType::bf16);
  {
    NoGrad guard;
    net.weight.fill_(1);
  }
  Ema ema(net, 0.999);
  EXPECT_EQ(ema.state_dict()[0].second.dtype(), DType::f32);
  {
    NoGrad guard;
    net.weight.fill_(2);
  }
  for (int update = 0; update < 10; ++update) ema.update();
  const double want = 2 - std::pow(0.999, 10);
  EXPECT_TRUE(is_close(values(ema.state_dict()[0].second), Doubles(15, want), 1e-6));
  {
    Ema::Scope scope(ema);
    EXPECT_EQ(net.weight.dtype(), DType::bf16);
    EXPECT_EQ(values(net.weight), Doubles(15, double(BFloat16(float(want)))));
  }
  EXPECT_EQ(values(net.weight), Doubles(15, 2.0));
  nn::Linear target(3, 5);  // whose weights are the f32 averages of the others
  Ema beside(net.named_parameters(), target.named_parameters(), [](int64_t) { return 0.75; });
  const Doubles before = values(target.weight);
  beside.update();
  Doubles mixed = before;
  for (double& x : mixed) x = 0.75 * x + 0.25 * 2;
  EXPECT_TRUE(is_close(values(target.weight), mixed, 1e-6));
}

// Steps of a thousandth move no bf16 weight of 1; its master moves, and the average follows that.
TEST(Ema, FollowsMasters) {
  for (Master master : {Master::f32, Master::split, Master::stochastic}) {
    nn::Linear net(3, 5);
    {
      NoGrad guard;
      net.weight.fill_(1);
    }
    nn::to_precision(net, DType::bf16);
    net.to(test_device());
    AdamW optimizer({net.weight}, {.lr = 0.001, .beta1 = 0, .weight_decay = 0, .master = master});
    Ema rounded(net, 0.5), ema(net, 0.5);
    ema.follow_masters(optimizer);
    double weight = 1, want = 1;  // Adam moves each weight by lr, as the gradient is always 1
    for (int step = 0; step < 2; ++step) {
      net.weight.set_grad(ones({5, 3}, DType::bf16, test_device()));
      optimizer.step();
      ema.update(), rounded.update();
      weight -= 0.001, want = 0.5 * want + 0.5 * weight;
    }
    const bool kept = master != Master::stochastic;
    EXPECT_EQ(is_close(values(ema.state_dict()[0].second), Doubles(15, want), 1e-6), kept) << int(master);
    EXPECT_FALSE(is_close(values(rounded.state_dict()[0].second), Doubles(15, want), 1e-6));
    EXPECT_FALSE(is_close(values(net.weight), Doubles(15, weight), 1e-4)) << "bf16 has no such digits";
  }
}

TEST(Ema, IsNotUpdatedWhereItIsFoundWanting) {
  nn::Linear net(3, 5), same(3, 5);
  set_weights(net, 0), set_weights(same, 0);
  Ema ema(net, 0.7), by_update(net, [](int64_t update) { return update < 1 ? 0.1 : 0.7; });
  Ema want(same, 0.7), by_update_want(same, [](int64_t update) { return update < 1 ? 0.1 : 0.7; });
  for (uint64_t step = 1; step < 6; ++step) {
    set_weights(net, step), set_weights(same, step);
    const Tensor found = scalar(step % 2 == 0 ? 4 : 0, DType::i32);
    ema.update_if_finite(found), by_update.update_if_finite(found);
    if (step % 2 == 1) want.update(), by_update_want.update();
    EXPECT_EQ(values(ema.state_dict()[0].second), values(want.state_dict()[0].second)) << step;
    EXPECT_EQ(values(by_update.state_dict()[0].second), values(by_update_want.state_dict()[0].second));
  }
  EXPECT_EQ(ema.updates(), 3);
  EXPECT_EQ(by_update.updates(), 3);
}

// The trainer's, which is told of what is not finite after the next update has begun.
TEST(Ema, MovesNoMoreOnceSomethingIsFoundWanting) {
  nn::Linear net(3, 5), same(3, 5);
  set_weights(net, 0), set_weights(same, 0);
  auto by_update = [](int64_t update) { return update < 1 ? 0.1 : 0.7; };
  Ema ema(net, by_update), want(same, by_update);
  const Tensor found = scalar(0, DType::i32);
  for (uint64_t step = 1; step < 6; ++step) {
    set_weights(net, step), set_weights(same, step);
    if (step == 3) found.fill_(2);
    ema.update_while_finite(found);
    if (step < 3) want.update();
    EXPECT_EQ(values(ema.state_dict()[0].second), values(want.state_dict()[0].second)) << step;
  }
}

// A target encoder's weights: they start as they are and lie in the other module.
TEST(Ema, KeepsAveragesInAnotherModule) {
  nn::Linear net(3, 5), target(3, 5), other(3, 4);
  set_weights(net, 0), set_weights(target, 1);
  Doubles before = values(target.weight);
  Ema ema(net.named_parameters(), target.named_parameters(),
          [](int64_t update) { return update ? 1 - 1e-9 : 0.25; });
  ema.update();
  Doubles want = values(net.weight);
  for (size_t i = 0; i < want.size(); ++i) want[i] = 0.25 * before[i] + 0.75 * want[i];
  EXPECT_TRUE(is_close(values(target.weight), want, 1e-6));
  auto keep = [](int64_t) { return 0.5; };
  expect_error([&] { Ema(net.named_parameters(), other.named_parameters(), keep); },
               "Ema: weight f32(4, 3) cannot be the average of weight f32(5, 3)");
  expect_error([&] { Ema(net.named_parameters(), {}, keep); }, "Ema: 0 averages for 2 tensors");
}

TEST(Ema, RefusesToAverageAModuleThatWasMovedAway) {
  Device device = test_device();
  if (device.is_cpu()) GTEST_SKIP() << "there is no other device";
  nn::Linear net(3, 5);
  Ema ema(net, 0.7);
  net.to(device);
  expect_error([&] { ema.update(); }, {"cpu", to_string(device)});
}

TEST(Ema, PutsTheAveragesIntoTheModuleForAScopeOnly) {
  nn::Linear net(3, 5);
  set_weights(net, 0);
  Ema ema(net, 0.5);
  set_weights(net, 1);
  ema.update();
  nn::NamedTensors weights = copy_of(net.state_dict()), averages = copy_of(ema.state_dict());
  {
    Ema::Scope scope(ema);
    for (size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(same_bits(net.state_dict()[i].second.detach(), averages[i].second));
    EXPECT_TRUE(net.weight.requires_grad());
    for (size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(same_bits(ema.state_dict()[i].second, averages[i].second)) << "what a save would write";
  }
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(same_bits(net.state_dict()[i].second.detach(), weights[i].second));
    EXPECT_TRUE(same_bits(ema.state_dict()[i].second, averages[i].second));
  }
}

TEST(Ema, ResumesFromItsStateInAnyOrder) {
  nn::Linear net(3, 5), other(3, 5);
  Ema ema(net, 0.9);
  set_weights(net, 1);
  ema.update();
  nn::NamedTensors state = copy_of(ema.state_dict());
  std::reverse(state.begin(), state.end());  // files are sorted by name
  Ema resumed(other, 0.9);
  resumed.load_state_dict(state);
  set_weights(net, 2);
  set_weights(other, 2);
  ema.update();
  resumed.update();
  for (size_t i = 0; i < 2; ++i)
    EXPECT_TRUE(same_bits(resumed.state_dict()[i].second, ema.state_dict()[i].second));
}

// One float and one integer buffer beside a parameter.
struct Counted : nn::Module {
  Tensor weight = register_parameter("weight", zeros({2}));
  Tensor mean = register_buffer("mean", zeros({2}));
  Tensor count = register_buffer("count", Tensor::from<int64_t>({0}, {1}));
};

TEST(Ema, AveragesFloatingBuffersAndCopiesIntegers) {
  Counted net;
  Ema ema(net, 0.75);
  ASSERT_EQ(ema.state_dict().size(), 3u);
  double want = 0;
  for (int step = 1; step <= 4; ++step) {
    net.mean.fill_(step);
    net.count.fill_(step);
    ema.update();
    want = 0.75 * want + 0.25 * step;
  }
  EXPECT_EQ(ema.state_dict()[1].first, "mean");
  EXPECT_TRUE(is_close(values(ema.state_dict()[1].second), Doubles(2, want), 1e-6));
  EXPECT_EQ(ema.state_dict()[2].second.dtype(), DType::i64);
  EXPECT_EQ(ema.state_dict()[2].second.item(), 4);
  net.count.fill_(9);
  {
    Ema::Scope scope(ema);
    EXPECT_TRUE(is_close(values(net.mean), Doubles(2, want), 1e-6));
    EXPECT_EQ(net.count.item(), 4);
  }
  EXPECT_EQ(values(net.mean), Doubles(2, 4));
  EXPECT_EQ(net.count.item(), 9);
  EXPECT_EQ(ema.state_dict()[2].second.item(), 4);
}

TEST(Ema, RefusesAStateThatDoesNotFitAndKeepsItsOwn) {
  nn::Linear net(3, 5);
  Ema ema(net, 0.9);
  nn::NamedTensors before = copy_of(ema.state_dict());
  using State = nn::NamedTensors;
  expect_error([&] { ema.load_state_dict(State{{"weight", zeros({5, 3})}}); }, {"Ema", "1", "2"});
  expect_error(
      [&] {
        ema.load_state_dict(State{{"weight", zeros({5, 3})}, {"b", zeros({5})}});
      },
      {"Ema", "bias"});
  expect_error(
      [&] {
        ema.load_state_dict(State{{"weight", zeros({5, 3})}, {"bias", zeros({4})}});
      },
      {"Ema", "bias", "(4,)", "(5,)"});
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(ema.state_dict()[i].second, before[i].second));
  expect_error([&] { Ema wrong(net, 1); }, {"Ema", "[0, 1)"});
}

TEST(Ema, HasRunningStatistics) {
  nn::BatchNorm1d norm(2, {.momentum = 0.5});
  Ema ema(norm, 0.75);
  double mean = 0, variance = 1, average_mean = 0, average_variance = 1;
  for (int step = 1; step <= 3; ++step) {
    norm(Tensor::from<float>({0, 0, float(2 * step), 4}, {2, 2}));  // channel 0: mean step, variance 2 step^2
    ema.update();
    mean = 0.5 * mean + 0.5 * step;
    variance = 0.5 * variance + 0.5 * 2 * step * step;
    average_mean = 0.75 * average_mean + 0.25 * mean;
    average_variance = 0.75 * average_variance + 0.25 * variance;
  }
  std::map<std::string, double> first;
  for (const auto& [name, average] : ema.state_dict()) first[name] = values(average)[0];
  EXPECT_NEAR(first.at("running_mean"), average_mean, 1e-6);
  EXPECT_NEAR(first.at("running_var"), average_variance, 1e-6);
  EXPECT_EQ(first.at("num_batches_tracked"), 3);
}

TEST(Ema, WarmsUpByTheUpdate) {
  EmaDecay decay = ema_warmup(0.9);
  EXPECT_EQ(decay(0), 0);
  EXPECT_NEAR(decay(1), 1 - std::pow(2.0, -2.0 / 3), 1e-15);
  EXPECT_NEAR(decay(7), 0.75, 1e-15);  // 8^(-2/3) = 1 / 4
  EXPECT_EQ(decay(1000), 0.9);
  nn::Linear net(3, 5);
  set_weights(net, 0);
  Ema ema(net, decay);
  Doubles want(15);
  for (uint64_t step = 0; step < 4; ++step) {
    set_weights(net, step + 1);
    ema.update();
    const double d = 1 - std::pow(1 + double(step), -2.0 / 3);
    for (size_t i = 0; i < 15; ++i) want[i] = d * want[i] + (1 - d) * values(net.weight)[i];
    EXPECT_TRUE(is_close(values(ema.state_dict()[0].second), want, 1e-6)) << step;
  }
  EXPECT_EQ(ema.updates(), 4);
}

TEST(Ema, GoesOnAtTheUpdateItIsTold) {
  nn::Linear net(3, 5);
  std::vector<int64_t> asked;
  Ema ema(net, [&](int64_t update) {
    asked.push_back(update);
    return update < 9 ? 0.5 : 1.0;
  });
  ema.update();
  ema.set_updates(7);
  ema.update();
  ema.update();
  EXPECT_EQ(asked, (std::vector<int64_t>{0, 7, 8}));
  expect_error([&] { ema.update(); }, {"Ema", "[0, 1)", "1"});
  expect_error([&] { ema.set_updates(-1); }, {"Ema", "-1"});
  expect_error([] { ema_warmup(1); }, {"Ema", "[0, 1)"});
}

}  // namespace
}  // namespace reprise::optim
