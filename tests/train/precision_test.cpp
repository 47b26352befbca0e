// Runs that go on in another precision: weights and state are converted from what is known most exactly.
// not in asan: Precision.RoundTripKeepsEveryBit
#include "reprise/train/precision.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <memory>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/random.h"
#include "reprise/io/run_log.h"
#include "reprise/nn/layers.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/named_state.h"
#include "reprise/nn/optim/optimizer_list.h"
#include "reprise/nn/optim/sgd.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/errors.h"
#include "reprise/train/precision/convert.h"
#include "reprise/train/trainer.h"

namespace reprise::train {
namespace {

using optim::Master;
using testing::expect_error;
using testing::same_bits;
using testing::TempFolder;

struct Mode {
  const char* name;
  Precision precision = Precision::f32;
  Master master = Master::f32;
  DType moments = DType::f32;
  std::optional<double> momentum{};  ///< of Sgd, which is in AdamW's place then

  /// Digits of a weight that it knows, stored or beside.
  bool knows_f32() const { return !is_pure(precision) || master != Master::stochastic; }
};

const Mode modes[] = {{"f32"},
                      {"bf16", Precision::bf16},
                      {"f16", Precision::f16},
                      {"bf16-pure", Precision::bf16_pure},
                      {"split", Precision::bf16_pure, Master::split},
                      {"stochastic", Precision::bf16_pure, Master::stochastic},
                      {"bf16 moments", Precision::bf16_pure, Master::f32, DType::bf16},
                      {"small", Precision::bf16_pure, Master::stochastic, DType::bf16},
                      {"least", Precision::bf16_pure, Master::stochastic, DType::u8},
                      {"f16-pure", Precision::f16_pure}};

const Mode modes_of_sgd[] = {{"f32"},
                             {"bf16-pure", Precision::bf16_pure},
                             {"split", Precision::bf16_pure, Master::split},
                             {"stochastic", Precision::bf16_pure, Master::stochastic},
                             {"f16-pure", Precision::f16_pure}};

struct Net : nn::Module {
  nn::Linear first{6, 700};
  nn::LayerNorm norm{700};
  nn::Linear last{700, 3};
  Net() {
    register_module("first", first);
    register_module("norm", norm);
    register_module("last", last);
  }
  Tensor operator()(const Tensor& x) { return last.forward(norm.forward(gelu(first.forward(x)))); }
};

struct Seeded {
  Seeded() { manual_seed(5); }
};

struct Prepared {
  Prepared(Net& net, const Mode& mode) {
    to_precision(net, mode.precision);
    use_main_gradients(net);
  }
};

/// A model and its optimizer in a mode.
struct ModeRun {
  explicit ModeRun(const Mode& mode_) : mode(mode_) {}

  Tensor loss(int64_t step) {
    std::vector<float> x(8 * 6);
    for (size_t i = 0; i < x.size(); ++i) x[i] = float(std::sin(double(step * 48) + double(i)));
    const Tensor input = Tensor::from(x, {8, 6});
    PrecisionScope scope(mode.precision, Device::cpu());
    const Tensor given = is_pure(mode.precision) ? input.to(model.first.weight.dtype()) : input;
    return square(model(given).to(DType::f32) - input.slice(1, 0, 3)).mean();
  }
  void update(int64_t step) {
    loss(step).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  Checkpoint checkpoint() {
    return {.parameters = model.state_dict(),
            .optimizer = optim::state_by_name(optimizer.state_dict(), optimizer, model.named_parameters())};
  }
  std::string load(Checkpoint from) {
    const std::string said = convert_precision(from, model, optimizer);
    model.load_state_dict(from.parameters);
    optimizer.load_state_dict(optim::state_by_place(from.optimizer, optimizer, model.named_parameters()));
    return said;
  }

  Mode mode;
  Seeded seeded;
  Net model;
  Prepared prepared{model, mode};
  const std::unique_ptr<optim::Optimizer> owned = made();
  optim::Optimizer& optimizer = *owned;

 private:
  std::unique_ptr<optim::Optimizer> made() const {
    if (mode.momentum)
      return std::make_unique<optim::Sgd>(
          model.parameters(),
          optim::SgdOptions{.lr = 0.01, .momentum = *mode.momentum, .master = mode.master, .seed = 3});
    return std::make_unique<optim::AdamW>(
        model.parameters(),
        optim::AdamWOptions{.lr = 0.01, .master = mode.master, .moments = mode.moments, .seed = 3});
  }
};

using ByName = std::map<std::string, Tensor>;

ByName copies(const nn::NamedTensors& tensors) {
  ByName all;
  for (const auto& [name, tensor] : tensors) all[name] = tensor.detach().clone();
  return all;
}

void expect_same(const ByName& got, const ByName& want, const std::string& what) {
  for (const auto& [name, tensor] : want) {
    ASSERT_TRUE(got.contains(name)) << name << ", " << what;
    EXPECT_TRUE(same_bits(got.at(name), tensor)) << name << ", " << what;
  }
  EXPECT_EQ(got.size(), want.size()) << what;
}

// What a mode with fewer digits leaves of numbers, and what comes back of it.
Tensor nearest_bf16(const Tensor& x) {
  std::vector<float> numbers;
  for (const double value : x.to_vector<double>()) numbers.push_back(float(BFloat16(float(value))));
  return Tensor::from(numbers, x.shape()).to(x.dtype());
}

// Rounded to 8 bits, a moment is off by half of the map's widest step at most: 0.7 % of its block's largest one. Leaves
// out what was compared so.
void take_out_moments_of_8_bits(ByName& got, ByName& want, const Mode& a, const std::string& what) {
  for (const char* moment : {"first.weight:first_moment", "first.weight:second_moment"}) {
    if (a.moments != DType::u8) {
      const std::vector<double> now = got.at(moment).to_vector<double>(),
                                before = want.at(moment).to_vector<double>();
      double largest = 0;
      for (const double x : before) largest = std::max(largest, std::abs(x));
      for (size_t i = 0; i < now.size(); ++i) ASSERT_NEAR(now[i], before[i], 0.011 * largest) << i << what;
    }
    for (ByName* state : {&got, &want}) state->erase(moment), state->erase(std::string(moment) + "_max");
  }
}

void expect_round_trip(const Mode& a, const Mode& b) {
  const std::string what = std::string(a.name) + " to " + b.name + " and back";
  ModeRun from(a), through(b), back(a);
  for (int64_t step = 0; step < 3; ++step) from.update(step);
  const ByName weights = copies(from.checkpoint().parameters), state = copies(from.checkpoint().optimizer);
  const std::string there = through.load(from.checkpoint()), again = back.load(through.checkpoint());
  const bool alike = is_pure(a.precision) == is_pure(b.precision) && a.master == b.master &&
                     a.moments == b.moments && is_f16(a.precision) == is_f16(b.precision);
  if (alike) { EXPECT_EQ(there + again, "") << what; }
  ByName want_weights = weights, want_state = state;
  for (auto& [name, tensor] : want_state)
    if (name.ends_with("_moment") && b.moments == DType::bf16) tensor = nearest_bf16(tensor);
  if (a.knows_f32() && !b.knows_f32())
    for (auto& [name, tensor] : want_weights) {
      if (name.starts_with("norm")) continue;  // f32 in each mode
      Tensor whole = tensor.to(DType::f32);
      if (state.contains(name + ":master")) whole = state.at(name + ":master");
      if (state.contains(name + ":remainder")) continue;  // tested by its own sum below
      tensor = nearest_bf16(whole).to(tensor.dtype());
      if (state.contains(name + ":master")) want_state[name + ":master"] = nearest_bf16(whole);
      // Without velocities nothing tells that there were updates: the next one makes the copy, unless the weight was converted.
      if (a.momentum == 0.0 && a.precision == b.precision) want_state.erase(name + ":master");
    }
  if (a.master == Master::split && !b.knows_f32()) return;
  expect_same(copies(back.checkpoint().parameters), want_weights, what);
  ByName got_state = copies(back.checkpoint().optimizer);
  if ((b.moments == DType::u8) != (a.moments == DType::u8) && b.moments != DType::f32)
    take_out_moments_of_8_bits(got_state, want_state, a, what);
  expect_same(got_state, want_state, what);
}

TEST(Precision, RoundTripKeepsEveryBit) {
  for (const Mode& a : modes)
    for (const Mode& b : modes) expect_round_trip(a, b);
}

TEST(Precision, RoundTripKeepsEveryBitOfSgd) {
  for (const double momentum : {0.0, 0.9})
    for (Mode a : modes_of_sgd)
      for (Mode b : modes_of_sgd) {
        a.momentum = b.momentum = momentum;
        expect_round_trip(a, b);
      }
}

// Both halves are an f32, and that is what other modes take: by the bits.
TEST(Precision, ASplitWeightIsBothOfItsHalves) {
  ModeRun split({"split", Precision::bf16_pure, Master::split}), whole({"f32"});
  for (int64_t step = 0; step < 3; ++step) split.update(step);
  const std::string said = whole.load(split.checkpoint());
  EXPECT_EQ(said, "4 weights from bf16 to f32, from both halves");
  const ByName state = copies(split.checkpoint().optimizer);
  const std::vector<float> upper = split.model.last.weight.detach().to(DType::f32).to_vector<float>(),
                           got = whole.model.last.weight.detach().to_vector<float>();
  const std::vector<double> rest = state.at("last.weight:remainder").to_vector<double>();
  int differ = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const auto low = int16_t(uint16_t(rest[2 * i]) | uint16_t(uint16_t(rest[2 * i + 1]) << 8));
    const uint32_t bits = std::bit_cast<uint32_t>(upper[i]) + uint32_t(int32_t(low));
    EXPECT_EQ(std::bit_cast<uint32_t>(got[i]), bits) << i;
    differ += low != 0;
  }
  EXPECT_GT(differ, int(got.size()) / 2);
}

// A weight that had no update yet has no copy: what f32 knows of it must not be lost.
TEST(Precision, KeepsTheDigitsOfWeightsWithoutUpdates) {
  for (Master master : {Master::f32, Master::split}) {
    ModeRun f32({"f32"}), pure({"pure", Precision::bf16_pure, master}), back({"f32"});
    for (const Tensor& parameter : f32.model.last.parameters()) parameter.set_requires_grad(false);
    for (int64_t step = 0; step < 2; ++step) f32.update(step);
    for (const Tensor& parameter : f32.model.last.parameters()) parameter.set_requires_grad(true);
    const ByName want = copies(f32.checkpoint().parameters);
    pure.load(f32.checkpoint());
    back.load(pure.checkpoint());
    expect_same(copies(back.checkpoint().parameters), want, "master " + std::to_string(int(master)));
  }
}

TEST(Precision, RefusesWeightsThatF16DoesNotReach) {
  ModeRun f32({"f32"}), f16({"f16-pure", Precision::f16_pure});
  {
    NoGrad guard;
    f32.model.last.weight.fill_(70000);
  }
  expect_error([&] { f16.load(f32.checkpoint()); }, {"last.weight holds 70000", "f16 does not reach"});
}

TEST(NamedState, IsByParameterAndLoadsByPlaceToo) {
  ModeRun run({"split", Precision::bf16_pure, Master::split});
  run.update(0);
  const ByName state = copies(run.checkpoint().optimizer);
  for (const char* name : {"first.weight:first_moment", "norm.weight:second_moment", "last.bias:remainder",
                           "first.weight:updates", "steps"})
    EXPECT_TRUE(state.contains(name)) << name;
  EXPECT_EQ(state.at("last.bias:updates").item(), 1);
  EXPECT_FALSE(state.contains("norm.weight:remainder"));
  EXPECT_EQ(state.size(), 6u * 3 + 4 + 1);
  ModeRun by_name(run.mode), by_place(run.mode);
  const nn::NamedTensors parameters = by_name.model.named_parameters();
  by_name.optimizer.load_state_dict(
      optim::state_by_place(run.checkpoint().optimizer, by_name.optimizer, parameters));
  by_place.optimizer.load_state_dict(optim::state_by_place(run.optimizer.state_dict(), by_place.optimizer,
                                                           by_place.model.named_parameters()));
  expect_same(copies(by_name.checkpoint().optimizer), state, "by name");
  expect_same(copies(by_place.checkpoint().optimizer), state, "by place");
  nn::NamedTensors strange = run.checkpoint().optimizer;
  strange.front().first = "middle.weight:first_moment";
  expect_error([&] { optim::state_by_place(strange, by_name.optimizer, parameters); },
               {"optimizer: state middle.weight:first_moment is of none of its parameters"});
  nn::NamedTensors fewer = run.checkpoint().optimizer;
  std::erase_if(fewer, [](const auto& entry) { return entry.first == "last.bias:updates"; });
  expect_error([&] { optim::state_by_place(fewer, by_name.optimizer, parameters); },
               {"of 5 parameters, there are 6"});
}

TEST(NamedState, IsThatOfEachOfAList) {
  Net net;
  optim::AdamW adamw({net.first.weight, net.last.weight});
  optim::Sgd sgd({net.first.bias, net.last.bias}, {.momentum = 0.9});
  optim::OptimizerList both({adamw, sgd});
  both.allocate_state();
  const nn::NamedTensors named = optim::state_by_name(both.state_dict(), both, net.named_parameters());
  const ByName state = copies(named);
  for (const char* name :
       {"last.weight:first_moment", "last.weight:updates", "last.bias:velocity", "0.steps", "1.steps"})
    EXPECT_TRUE(state.contains(name)) << name;
  EXPECT_NO_THROW(both.load_state_dict(optim::state_by_place(named, both, net.named_parameters())));
  expect_same(copies(optim::state_by_name(both.state_dict(), both, net.named_parameters())), state, "list");
  const nn::NamedTensors some = {{"first.weight", net.first.weight}};
  expect_same(copies(optim::state_by_name(both.state_dict(), both, some)), copies(both.state_dict()),
              "parameters without a name");
}

double last_loss(const std::string& folder) {
  double last = NAN;
  for (const io::RunRecord& record : io::read_run_log(folder + "/metrics.jsonl"))
    for (const auto& [key, value] : record.metrics)
      if (key == "loss") last = value;
  return last;
}

TEST(Precision, ResumeInAnotherPrecision) {
  double alone = NAN;  // the loss of f32 all the way
  for (const Mode& a : modes)
    for (const Mode& b : modes) {
      const std::string what = std::string(a.name) + " then " + b.name;
      TempFolder folder;
      auto train_in = [&](const Mode& mode, bool resumes) {
        ModeRun run(mode);
        Task task{.model = run.model,
                  .optimizer = run.optimizer,
                  .units_per_step = 1,
                  .loss = [&](int64_t step, int64_t) { return run.loss(step); },
                  .validation_loss = [](bool) { return 1.0; }};
        const TrainerOptions options{.run_folder = folder.path(),
                                     .resume = resumes,
                                     .may_convert = resumes,
                                     .schedule = {.lr = 0.02, .steps = 24, .decay = optim::Decay::constant},
                                     .loss_scale = is_f16(mode.precision) ? 1024.0 : 0,
                                     .loss_scale_is_given = true,
                                     .eval_every = 0,
                                     .save_every = 0,
                                     .stop_after = 12};
        ::testing::internal::CaptureStdout();
        train(task, options);
        EXPECT_EQ(run.optimizer.steps(), resumes ? 24 : 12) << what;
        return ::testing::internal::GetCapturedStdout();
      };
      train_in(a, false);
      const std::string said = train_in(b, true);
      const bool stored_alike = is_pure(a.precision) == is_pure(b.precision) && a.master == b.master &&
                                a.moments == b.moments &&
                                (!is_pure(a.precision) || is_f16(a.precision) == is_f16(b.precision));
      EXPECT_EQ(said.find("Converted: ") == std::string::npos, stored_alike) << what << ": " << said;
      if (std::isnan(alone)) alone = last_loss(folder.path());
      // 24 steps in as few digits as that move the loss by some percent; from weights or moments that were lost it
      // would be more.
      EXPECT_NEAR(last_loss(folder.path()), alone, 0.1 * alone) << what;
    }
}

}  // namespace
}  // namespace reprise::train
