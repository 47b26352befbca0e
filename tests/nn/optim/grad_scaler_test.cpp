// GradScaler: an update with a scale has the bits of one without, an update that cannot be made changes nothing, and the
// scale follows. On the device under test.
#include "reprise/nn/optim/grad_scaler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <thread>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/lamb.h"
#include "reprise/nn/optim/optimizer_list.h"
#include "reprise/nn/optim/sgd.h"
#include "reprise/tests/nn/optim/parameters.h"
#include "reprise/tests/support/errors.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::optim {
namespace {

using namespace testing;

constexpr double inf = std::numeric_limits<double>::infinity();

TensorList device_parameters() {
  TensorList parameters;
  for (const Tensor& p : odd_parameters())
    parameters.push_back(p.detach().to(test_device()).set_requires_grad());
  return parameters;
}

/// An optimizer over some parameters, and what it stands on.
struct Made {
  std::vector<std::unique_ptr<Optimizer>> parts;
  Optimizer& optimizer() const { return *parts.back(); }
};

const std::vector<std::function<Made(const TensorList&)>>& makers() {
  auto one = [](auto made) {
    Made all;
    all.parts.push_back(std::move(made));
    return all;
  };
  static const std::vector<std::function<Made(const TensorList&)>> all = {
      [=](const TensorList& p) { return one(std::make_unique<AdamW>(p, AdamWOptions{.lr = 0.05})); },
      [=](const TensorList& p) {
        return one(std::make_unique<Sgd>(p, SgdOptions{.lr = 0.05, .momentum = 0.9}));
      },
      [=](const TensorList& p) { return one(std::make_unique<Lamb>(p, LambOptions{.lr = 0.05})); },
      [](const TensorList& p) {
        Made made;
        made.parts.push_back(std::make_unique<AdamW>(TensorList{p[0], p[1]}, AdamWOptions{.lr = 0.05}));
        made.parts.push_back(std::make_unique<Sgd>(TensorList{p[2], p[3]}, SgdOptions{.lr = 0.05}));
        made.parts.push_back(std::make_unique<OptimizerList>(
            std::vector<std::reference_wrapper<Optimizer>>{*made.parts[0], *made.parts[1]}));
        return made;
      }};
  return all;
}

/// A loss whose gradient of parameter p is g_p in each element: sum of g_p . p. Of step `step`, p of `without` left out.
Tensor loss_of(const TensorList& parameters, uint64_t step, size_t without = 99) {
  Tensor loss;
  for (size_t p = 0; p < parameters.size(); ++p) {
    if (p == without) continue;
    const Tensor g = tensor_of(numbers(size_t(parameters[p].numel()), 100 + p, step), parameters[p].shape());
    const Tensor term = (parameters[p] * g.to(test_device())).sum();
    loss = loss.defined() ? loss + term : term;
  }
  return loss;
}

TensorList copies_of(const TensorList& parameters) {
  TensorList copies;
  for (const Tensor& p : parameters) copies.push_back(p.detach().clone());
  return copies;
}

TEST(GradScaler, PowersOfTwoChangeNoBit) {
  for (size_t m = 0; m < makers().size(); ++m)
    for (double scale : {1.0, 0x1p-10, 65536.0, 0x1p24})
      for (double clip : {0.0, 0.5}) {
        const TensorList plain = device_parameters(), scaled = device_parameters();
        const Made without = makers()[m](plain), with = makers()[m](scaled);
        GradScaler scaler(test_device(), {.init_scale = scale, .interval = 4, .min_scale = 0x1p-20});
        for (uint64_t step = 0; step < 10; ++step) {
          const size_t left_out = step < 4 ? 2 : 99;  // one starts late
          for (const TensorList& parameters : {plain, scaled})
            for (const Tensor& p : parameters) p.set_grad({});
          loss_of(plain, step, left_out).backward();
          const double norm = grad_norm(plain);
          without.optimizer().step(clip > 0 ? clip_scale(norm, clip) : 1);
          scaler.scale(loss_of(scaled, step, left_out)).backward();
          scaler.step(with.optimizer(), {.clip = clip});
          scaler.update();
          EXPECT_NEAR(scaler.read().norm, norm, 1e-12 * norm);
        }
        const std::string what = "optimizer " + std::to_string(m) + ", scale " + std::to_string(scale);
        EXPECT_TRUE(same_bits(scaled, plain)) << what;
        EXPECT_TRUE(same_bits(with.optimizer().state_dict(), without.optimizer().state_dict())) << what;
        EXPECT_EQ(with.optimizer().steps(), 10);
        EXPECT_EQ(scaler.read().scale, 4 * scale) << "it has grown after the 4th and the 8th update";
      }
}

// At step k one number of one gradient is not finite: the update is not made, and what comes is as if there had been no
// step k.
TEST(GradScaler, AnOverflowChangesNothingAndHalvesTheScale) {
  for (size_t m = 0; m < makers().size(); ++m)
    for (uint64_t bad : {0, 1, 4})
      for (double number : {inf, -inf, double(NAN)}) {
        const TensorList parameters = device_parameters(), want = device_parameters();
        const Made made = makers()[m](parameters), wanted = makers()[m](want);
        GradScaler scaler(test_device());
        for (uint64_t step = 0; step < 6; ++step) {
          const std::string what = "optimizer " + std::to_string(m) + ", bad step " + std::to_string(bad);
          const TensorList before = copies_of(parameters);
          for (const Tensor& p : parameters) p.set_grad({});
          scaler.scale(loss_of(parameters, step)).backward();
          if (step == bad) {
            const Tensor gradient = parameters[3].grad();
            gradient.slice(0, 128, 129).fill_(number);
          }
          scaler.step(made.optimizer(), {.clip = 1});
          scaler.update();
          if (step == bad) {
            EXPECT_TRUE(same_bits(parameters, before)) << what;
            const GradScaler::Stats stats = scaler.read();
            EXPECT_EQ(stats.scale, 32768) << what;
            EXPECT_EQ(stats.skipped, 1) << what;
            EXPECT_EQ(stats.in_a_row, 1) << what;
            EXPECT_EQ(stats.found, 4) << what;
            continue;
          }
          for (const Tensor& p : want) p.set_grad({});
          loss_of(want, step).backward();
          wanted.optimizer().step(clip_scale(grad_norm(want), 1));
          EXPECT_TRUE(same_bits(parameters, want)) << what;
          EXPECT_EQ(scaler.read().in_a_row, 0) << what;
        }
        EXPECT_EQ(made.optimizer().steps(), 5) << "a skipped update is not counted";
        if (bad != 0) {  // state that a skipped first step has made is there, as zeros
          EXPECT_TRUE(same_bits(made.optimizer().state_dict(), wanted.optimizer().state_dict()))
              << "at the end";
        }
      }
}

TEST(GradScaler, StepAndStepIfFiniteCountTogether) {
  for (size_t m = 0; m < makers().size(); ++m) {
    const TensorList plain = device_parameters(), mixed = device_parameters();
    const Made without = makers()[m](plain), with = makers()[m](mixed);
    GradScaler scaler(test_device());
    for (uint64_t step = 0; step < 8; ++step) {
      for (const TensorList& parameters : {plain, mixed})
        for (const Tensor& p : parameters) p.set_grad({});
      loss_of(plain, step, step % 3).backward();
      without.optimizer().step();
      if (step % 4 < 2) {
        loss_of(mixed, step, step % 3).backward();
        with.optimizer().step();
      } else {
        scaler.scale(loss_of(mixed, step, step % 3)).backward();
        scaler.step(with.optimizer());
        scaler.update();
      }
      EXPECT_EQ(with.optimizer().steps(), int64_t(step) + 1);
    }
    EXPECT_TRUE(same_bits(mixed, plain)) << "optimizer " + std::to_string(m);
    EXPECT_TRUE(same_bits(with.optimizer().state_dict(), without.optimizer().state_dict())) << "state";
  }
}

TEST(GradScaler, SkipsEachOptimizerByItsOwnGradients) {
  for (bool first_is_bad : {true, false}) {  // clean gradients hide no others, in either order
    const TensorList parameters = device_parameters();
    AdamW first({parameters[0], parameters[1]});
    Sgd second({parameters[2], parameters[3]});
    GradScaler scaler(test_device());
    scaler.scale(loss_of(parameters, 0)).backward();
    parameters[first_is_bad ? 1 : 3].grad().fill_(NAN);
    const TensorList before = copies_of(parameters);
    scaler.step(first);
    scaler.step(second);
    scaler.update();
    EXPECT_EQ(same_bits(parameters[0].detach(), before[0]), first_is_bad);
    EXPECT_EQ(same_bits(parameters[2].detach(), before[2]), !first_is_bad);
    EXPECT_EQ(scaler.read().scale, 32768);
    EXPECT_EQ(scaler.read().found, 2) << "of the optimizer that was not clean";
    EXPECT_EQ(first.steps(), first_is_bad ? 0 : 1);
    EXPECT_EQ(second.steps(), first_is_bad ? 1 : 0);
  }
}

TEST(GradScaler, UnscaledGradientsMayBeLookedAtAndChanged) {
  const TensorList plain = device_parameters(), scaled = device_parameters();
  AdamW without(plain), with(scaled);
  GradScaler scaler(test_device());
  for (uint64_t step = 0; step < 4; ++step) {
    for (const TensorList& parameters : {plain, scaled})
      for (const Tensor& p : parameters) p.set_grad({});
    loss_of(plain, step).backward();
    TensorList gradients;
    for (const Tensor& p : plain) gradients.push_back(p.grad().clone());
    const double norm = clip_grad_norm(plain, 0.5);
    scaler.scale(loss_of(scaled, step)).backward();
    expect_error([&] { clip_grad_norm(scaled, 1); },
                 {"clip_grad_norm: the gradient of parameter 0 is that of a scaled loss"});
    scaler.unscale(with);
    for (size_t p = 0; p < plain.size(); ++p)
      EXPECT_TRUE(same_bits(scaled[p].grad(), gradients[p])) << "parameter " << p;
    EXPECT_EQ(clip_grad_norm(scaled, 0.5), norm);
    without.step();
    scaler.step(with);
    scaler.update();
  }
  EXPECT_TRUE(same_bits(scaled, plain)) << "after clipping by hand";

  // What unscale found is not forgotten, though the bad number is gone.
  scaler.scale(loss_of(scaled, 9)).backward();
  scaled[0].grad().fill_(inf);
  const TensorList before = copies_of(scaled);
  scaler.unscale(with);
  scaled[0].set_grad(Tensor::zeros(scaled[0].shape(), DType::f32, test_device()));
  scaler.step(with);
  scaler.update();
  EXPECT_TRUE(same_bits(scaled, before)) << "unscale found an infinity";
}

// Without the scale, f16 gradients of 2^-26 are lost: the least number of f16 is 2^-24.
TEST(GradScaler, KeepsWhatF16WouldLose) {
  const Tensor weight = tensor_of(numbers(12, 1), {3, 4}).to(test_device()).set_requires_grad();
  const Tensor x = tensor_of(numbers(20, 2), {5, 4}).to(test_device());
  auto gradient = [&](const std::function<Tensor(const Tensor&)>& of_loss) {
    weight.set_grad({});
    Tensor loss;
    {
      amp::Autocast f16(test_device(), DType::f16);
      loss = linear(x, weight).to(DType::f32).sum() * 0x1p-26;
    }
    of_loss(loss).backward();
    return weight.grad();
  };
  EXPECT_EQ(gradient([](const Tensor& loss) { return loss; }).to(DType::f64).to_vector<double>(),
            Doubles(12, 0.0));
  GradScaler scaler(test_device());
  Doubles got =
      gradient([&](const Tensor& loss) { return scaler.scale(loss); }).to(DType::f64).to_vector<double>();
  const Doubles numbers_of_x = x.to(DType::f64).to_vector<double>();
  for (size_t i = 0; i < 12; ++i) {
    double want = 0;
    for (size_t row = 0; row < 5; ++row) want += numbers_of_x[row * 4 + i % 4] * 0x1p-26;
    EXPECT_NEAR(got[i] / 65536, want, 0x1p-26 * 0x1p-8) << i;  // x is rounded to 11 bits
  }
}

TEST(GradScaler, GoesOnFromItsState) {
  const TensorList first = device_parameters();
  AdamW optimizer(first);
  GradScaler scaler(test_device(), {.growth = 4, .interval = 3, .hysteresis = 2}),
      resumed(test_device(), {.init_scale = 8, .growth = 4, .interval = 3, .hysteresis = 2});
  auto step = [&](GradScaler& with, bool bad) {
    with.scale(loss_of(first, 1)).backward();
    if (bad) first[0].grad().fill_(inf);
    with.step(optimizer);
    with.update();
    for (const Tensor& p : first) p.set_grad({});
  };
  for (bool bad : {false, true, false, false, true, true}) step(scaler, bad);
  resumed.load_state_dict(scaler.state_dict());
  EXPECT_TRUE(same_bits(resumed.state_dict(), scaler.state_dict())) << "after loading";
  for (bool bad : {true, false, false, false, true}) step(scaler, bad), step(resumed, bad);
  EXPECT_TRUE(same_bits(resumed.state_dict(), scaler.state_dict())) << "five updates later";

  nn::NamedTensors state = scaler.state_dict(), short_of = state;
  short_of.pop_back();
  expect_error([&] { resumed.load_state_dict(short_of); }, {"holds 4 tensors, should hold 5"});
  state[0].second = Tensor::from<float>({3}, {1});
  expect_error([&] { resumed.load_state_dict(state); }, {"the state's scale must be a power of two", "3"});
  state[0].second = Tensor::from<double>({4}, {1});
  expect_error([&] { resumed.load_state_dict(state); }, {"no \"scale\", one f32"});
  EXPECT_TRUE(same_bits(resumed.state_dict(), scaler.state_dict()))
      << "a state that is refused changes nothing";
}

TEST(GradScaler, GivesUpAloud) {
  const TensorList parameters = device_parameters();
  Sgd optimizer(parameters);
  auto skip = [&](GradScaler& scaler) {
    scaler.scale(loss_of(parameters, 0)).backward();
    parameters[2].set_grad(scalar(NAN, DType::f32, test_device()));
    scaler.step(optimizer);
    scaler.update();
  };
  GradScaler low(test_device(), {.init_scale = 4, .min_scale = 2});
  skip(low);
  EXPECT_EQ(low.read().scale, 2);
  skip(low);
  expect_error([&] { low.read(); },
               {"2 updates in a row", "the scale is 1", "min_scale 2", "the first bad gradient is number 3"});
  GradScaler often(test_device(), {.max_skips = 3});
  skip(often), skip(often);
  EXPECT_EQ(often.read().in_a_row, 2);
  skip(often);
  auto reads = [&] { expect_error([&] { often.read(); }, {"3 updates in a row", "max_skips 3"}); };
  reads();
  expect_error([&] { often.stats(), reads(), often.stats(); }, {"3 updates in a row"});
  often.load_state_dict(GradScaler(test_device()).state_dict());
  EXPECT_EQ(often.stats().in_a_row, 0) << "another state is no Error any more";
}

TEST(GradScaler, NamesTheFirstBadGradient) {
  const TensorList parameters = device_parameters();
  Sgd all(parameters), first({parameters[0]}), last({parameters[2]});
  auto message_after = [&](const std::vector<Sgd*>& optimizers, size_t without) {
    GradScaler scaler(test_device(), {.max_skips = 1});
    scaler.name_parameters({{"table", parameters[0]}, {"bias", parameters[2]}});
    for (const Tensor& p : parameters) p.set_grad({});
    scaler.scale(loss_of(parameters, 0, without)).backward();
    for (size_t p : {1, 2})
      if (p != without) parameters[p].grad().fill_(NAN);
    for (Sgd* optimizer : optimizers) scaler.step(*optimizer);
    scaler.update();
    return error_of([&] { scaler.read(); });
  };
  auto expect_said = [](const std::string& message, const std::string& said) {
    EXPECT_NE(message.find("the first bad gradient is " + said + "; anomaly"), std::string::npos) << message;
  };
  expect_said(message_after({&all}, 1), "that of bias");  // the second one that there is
  expect_said(message_after({&all}, 99), "that of a parameter of no name");
  expect_said(message_after({&first, &last}, 99), "number 1 of its optimizer's");
}

TEST(GradScaler, RefusesCallsOutOfOrder) {
  const TensorList parameters = device_parameters();
  Sgd optimizer({parameters[0]}), other({parameters[1]});
  GradScaler scaler(test_device());
  const Tensor loss = loss_of(parameters, 0);
  expect_error([&] { scaler.step(optimizer); }, {"step without scale"});
  expect_error([&] { scaler.unscale(optimizer); }, {"unscale without scale"});
  expect_error([&] { scaler.update(); }, {"update without step"});
  expect_error([&] { scaler.scale(loss.to(DType::f16)); }, {"a loss in f32 or f64"});
  expect_error([&] { scaler.scale({}); }, {"a loss in f32 or f64"});
  scaler.scale(loss).backward();
  expect_error([&] { scaler.update(); }, {"update without step"});
  expect_error([&] { scaler.step(optimizer, {.clip = -1}); }, {"clip must be at least 0, got -1"});
  scaler.unscale(optimizer);
  expect_error([&] { scaler.unscale(optimizer); }, {"unscale after unscale"});
  scaler.step(other);
  Sgd both({parameters[1], parameters[2]});
  expect_error([&] { scaler.step(both); }, {"a parameter of shape (7", "in two optimizers",
                                            "and an optimizer of 2 parameters, the first f32"});
  expect_error([&] { scaler.load_state_dict(scaler.state_dict()); }, {"load_state_dict after scale"});
  expect_error([&] { scaler.update(); }, {"update before the step of an optimizer that has unscaled"});
  scaler.step(optimizer);
  expect_error([&] { scaler.step(optimizer); }, {"step after step", "an optimizer of "});
  expect_error([&] { scaler.unscale(optimizer); }, {"unscale after step"});
  expect_error([&] { scaler.scale(loss); }, {"scale after step or unscale"});
  scaler.update();
  expect_error([&] { scaler.update(); }, {"update without step"});
  EXPECT_NO_THROW(grad_norm(parameters));

  const Tensor half = parameters[3].detach().to(DType::f16).set_requires_grad();
  AdamW low({half});
  scaler.scale(half.to(DType::f32).sum()).backward();
  expect_error([&] { scaler.unscale(low); }, {"the gradient of parameter 0 is f16"});
  EXPECT_NO_THROW(scaler.step(low));
}

// What one optimizer has unscaled says nothing of the gradients of another one.
TEST(GradScaler, RefusesNormsOfEachOptimizersScaledGradients) {
  const TensorList parameters = device_parameters();
  const TensorList of_first = {parameters[0], parameters[1]}, of_second = {parameters[2], parameters[3]};
  Sgd first(of_first), second(of_second);
  GradScaler scaler(test_device());
  auto refuses = [](const TensorList& of) {
    expect_error([&] { grad_norm(of); }, {"grad_norm: ", "a scaled loss", "unscale its optimizer"});
    expect_error([&] { clip_grad_norm(of, 1); }, {"clip_grad_norm: ", "a scaled loss"});
    expect_error([&] { clip_grad_value(of, 1); }, {"clip_grad_value: ", "a scaled loss"});
  };
  scaler.scale(loss_of(parameters, 0)).backward();
  refuses(of_first), refuses(of_second);
  scaler.unscale(first);
  EXPECT_NO_THROW(clip_grad_norm(of_first, 1));
  refuses(of_second);
  expect_error([&] { grad_norm(parameters); }, {"the gradient of parameter 2"});
  scaler.step(first);
  scaler.step(second);
  refuses(of_second);  // they are still multiplied by the scale
  scaler.update();
  EXPECT_NO_THROW(grad_norm(parameters));
}

// On the CPU they are those of this update; elsewhere they may be older, but never of another one.
TEST(GradScaler, StatsAreTheNewestThatHaveArrived) {
  const TensorList parameters = device_parameters();
  Sgd optimizer(parameters);
  GradScaler scaler(test_device(), {.interval = 2});
  EXPECT_EQ(scaler.stats().scale, 65536);
  std::vector<GradScaler::Stats> told = {scaler.read()};
  int64_t newest = 0;
  for (uint64_t step = 0; step < 8; ++step) {
    scaler.scale(loss_of(parameters, step)).backward();
    if (step == 3) parameters[1].set_grad(full(parameters[1].shape(), inf, DType::f32, test_device()));
    scaler.step(optimizer);
    scaler.update();
    const GradScaler::Stats now = scaler.stats();
    told.push_back(scaler.read());
    const auto same = std::find_if(told.begin() + newest, told.end(), [&](const GradScaler::Stats& stats) {
      return stats.norm == now.norm && stats.good == now.good && stats.scale == now.scale;
    });
    ASSERT_TRUE(same != told.end() || now.found != 0) << "step " << step;
    if (same != told.end()) newest = same - told.begin();
    if (test_device().is_cpu()) { EXPECT_EQ(now.skipped, step < 3 ? 0 : 1); }
    for (const Tensor& p : parameters) p.set_grad({});
  }
  scaler.stats(), scaler.read();
  EXPECT_EQ(scaler.stats().skipped, 1) << "what was asked for before a wait has arrived";
}

// A reading has the numbers of its own update, whatever came since.
TEST(GradScaler, ReadsEachUpdateLate) {
  const TensorList parameters = device_parameters();
  Sgd optimizer(parameters);
  GradScaler scaler(test_device(), {.max_skips = 2});
  std::vector<std::unique_ptr<GradScaler::Reading>> readings;
  for (uint64_t step = 0; step < 3; ++step) {
    scaler.scale(loss_of(parameters, step)).backward();
    if (step > 0) parameters[0].grad().fill_(NAN);
    scaler.step(optimizer);
    scaler.update();
    readings.push_back(std::make_unique<GradScaler::Reading>(scaler));
    readings.back()->start();
    for (const Tensor& p : parameters) p.set_grad({});
  }
  EXPECT_EQ(readings[0]->finish().scale, 65536);
  EXPECT_EQ(readings[1]->finish().scale, 32768);
  EXPECT_EQ(readings[1]->finish().found, 1);
  expect_error([&] { readings[2]->finish(); }, {"2 updates in a row", "the scale is 16384"});
}

// grad_norm is refused on the thread that scales, and there alone; a scaler may outlive that thread.
TEST(GradScaler, SpeaksOfTheThreadThatHasScaled) {
  const TensorList parameters = device_parameters();
  Sgd optimizer(parameters);
  GradScaler scaler(test_device());
  std::thread([&] {
    scaler.scale(loss_of(parameters, 0)).backward();
    expect_error([&] { grad_norm(parameters); }, {"a scaled loss"});
  }).join();
  EXPECT_NO_THROW(grad_norm(parameters));
  scaler.step(optimizer);
  scaler.update();
  EXPECT_NO_THROW(grad_norm(parameters));
  scaler.scale(loss_of(parameters, 1));
  expect_error([&] { grad_norm(parameters); }, {"a scaled loss"});
}

TEST(GradScaler, RefusesOptionsThatWouldRound) {
  auto refuses = [](const GradScalerOptions& options, const char* message) {
    expect_error([&] { GradScaler scaler(test_device(), options); }, {message});
  };
  refuses({.init_scale = 1000},
          "init_scale must be a power of two that f32 holds, so that it rounds nothing; got 1000");
  refuses({.init_scale = 0x1p200}, "init_scale must be a power of two");
  refuses({.init_scale = 0}, "init_scale must be a power of two");
  refuses({.init_scale = double(NAN)}, "init_scale must be a power of two");
  refuses({.growth = 3}, "growth must be a power of two");
  refuses({.growth = 1}, "growth must be above 1, got 1");
  refuses({.backoff = 2}, "backoff must be below 1, got 2");
  refuses({.interval = 0}, "interval must be 1 to 2^30, got 0");
  refuses({.hysteresis = 0}, "hysteresis must be 1 to 2^30, got 0");
  refuses({.min_scale = 0}, "min_scale must be above 0");
  refuses({.max_skips = 0}, "max_skips must be at least 1, got 0");
}

}  // namespace
}  // namespace reprise::optim
