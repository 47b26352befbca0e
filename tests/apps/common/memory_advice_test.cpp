// What would have fitted: what an Error says of it is true.
#include "reprise/apps/common/memory_advice.h"

#include <gtest/gtest.h>

#include "reprise/autograd/ops.h"
#include "reprise/nn/eval_scope.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/tests/support/errors.h"

namespace reprise::apps {
namespace {

constexpr int64_t mib = 1 << 20;

Allocator& memory() { return allocator(Device::cpu()); }

struct Limit {
  explicit Limit(size_t bytes) {
    memory().empty_cache();
    memory().set_limit(bytes);
  }
  ~Limit() { memory().set_limit(0); }
};

// A step that holds 1 MiB, and so many more per row.
MeasuredStrategy measured(const char* strategy, int64_t per_row) {
  const auto step = [&](int64_t rows) {
    return nn::MeasuredStep{rows, 0, {{.bytes = mib}, {.bytes = rows * per_row * mib}}};
  };
  return {strategy, nn::StepMemory(step(1), step(2), memory())};
}

TEST(WhatFits, NamesOtherStrategiesAndOtherBatches) {
  std::vector<MeasuredStrategy> all = {measured("none", 8), measured("selective", 6), measured("full", 2)};
  const size_t limit = size_t(64) << 20;  // of which 57.6 MiB are used: 7, 9 and 28 rows
  const auto says = [&](const char* own, int64_t batch, int64_t smallest = 1) {
    return what_fits(all, own, batch, smallest, limit);
  };
  EXPECT_EQ(says("none", 8), "; --recompute selective, full would fit; so would --batch 7");
  EXPECT_EQ(says("none", 8, 2), "; --recompute selective, full would fit; so would --batch 6");
  EXPECT_EQ(says("none", 20), "; --recompute full would fit; so would --batch 7");
  EXPECT_EQ(says("none", 40), "; --batch 7 would fit, and --batch 28 with --recompute full");
  EXPECT_EQ(says("full", 40), "; --batch 28 would fit");
  EXPECT_EQ(says("none", 5), "; --recompute selective, full would fit")
      << "the prediction for none was wrong";
  EXPECT_EQ(says("full", 5), unknown_fit) << "the others take more";
  EXPECT_EQ(says("auto:1GiB", 20), "; --recompute full would fit");
  all[0].memory.reset();
  EXPECT_EQ(says("none", 40), "; --batch 28 with --recompute full would fit");
  EXPECT_EQ(what_fits(all, "none", 4, 2, 2 * mib), "; not even --batch 2 fits, with any --recompute");
  EXPECT_EQ(what_fits(all, "none", 4, 2, 2 * mib, 3), "; not even --batch 6 fits, with any --recompute")
      << "on 3 ranks";
}

struct Trained {
  nn::Gpt model{(manual_seed(5),
                 nn::GptOptions{.vocab_size = 19, .context = 32, .layers = 4, .heads = 2, .width = 32})};
  optim::AdamW optimizer{model.parameters()};

  Tensor loss(int64_t rows) {
    const Tensor tokens = zeros({rows, 32}, DType::i64);
    return cross_entropy(model(tokens), tokens);
  }
  TrainedModel described() {
    return {.model = model,
            .optimizer = optimizer,
            .set_recompute = [this](const RecomputeStrategy& strategy) { model.h.set_recompute(strategy); },
            .row = "row",
            .loss = [this](int64_t rows) { return loss(rows); }};
  }
  void step(const char* strategy, int64_t rows) {
    model.h.set_recompute(parse_strategy(strategy));
    loss(rows).backward();
    optimizer.step();
    model.zero_grad();
  }
  size_t peak(const char* strategy, int64_t rows) {
    memory().reset_peaks();
    step(strategy, rows);
    return memory().stats().peak_held;
  }
};

// Of a run without ranks, which plays its own steps.
AdviceCase played(AdviceCase asked) {
  asked.measure = [own = asked.recompute](const TrainedModel& t) {
    return measure_strategies(t, Device::cpu(), own, 0);
  };
  asked.measure_evaluation = [](const TrainedModel& t) {
    return nn::measure_evaluation(t.model, Device::cpu(), t.loss, t.smallest);
  };
  return asked;
}

std::string told_by(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) { return error.what(); }
  ADD_FAILURE() << "nothing thrown";
  return "";
}

int64_t number_after(const std::string& text, const std::string& words) {
  const size_t at = text.find(words);
  return at == std::string::npos ? -1 : std::atoll(text.c_str() + at + words.size());
}

TEST(MemoryAdvice, OfAStepIsTrue) {
  Trained t;
  t.step("none", 1);
  const size_t limit = (t.peak("none", 16) + t.peak("full", 16)) / 2;
  const Limit scope(limit);
  const auto fails = [&] {
    with_memory_advice(
        played({.recompute = "none", .batch = 16}), [&] { return t.described(); },
        [&] { train::in_phase(train::Phase::step, [&] { t.step("none", 16); }); });
  };
  const std::string told = told_by(fails);
  EXPECT_TRUE(told.starts_with("training step: out of memory on cpu: ")) << told;
  EXPECT_NE(told.find("; a step of 16 rows is predicted to take "), std::string::npos) << told;
  EXPECT_NE(told.find(" (none), "), std::string::npos) << told;
  EXPECT_NE(told.find("full would fit; so would --batch "), std::string::npos) << told;
  const int64_t rows = number_after(told, "so would --batch ");
  EXPECT_GT(rows, 0);
  EXPECT_LT(rows, 16);
  EXPECT_NO_THROW(t.step("none", rows));
  EXPECT_NO_THROW(t.step("full", 16));
  EXPECT_THROW(t.step("none", 16), OutOfMemory);
}

// NCCL's windows, of which the failed step has made none yet: advice that leaves them out is no good.
TEST(MemoryAdvice, OfAStepCountsWindowsThatAreYetToCome) {
  Trained t;
  t.step("none", 1);
  const size_t windows = 4 * gradient_bytes(t.optimizer),
               limit = (t.peak("none", 16) + t.peak("full", 16)) / 2 + windows;
  const Limit scope(limit);
  const auto advice = [&](AdviceCase asked) {
    asked.recompute = "none", asked.batch = 64;
    return step_advice(played(asked), t.described());
  };
  const std::string told = advice({.windows_to_come = [](size_t gradients) { return 4 * gradients; }});
  const int64_t rows = number_after(told, "--batch "), without = number_after(advice({}), "--batch ");
  EXPECT_GT(rows, 0) << told;
  ASSERT_LT(rows, without) << told;
  const Tensor held = Tensor::empty({int64_t(windows)}, DType::u8);
  EXPECT_NO_THROW(t.step("none", rows));
  EXPECT_THROW(t.step("none", without), OutOfMemory);
}

// As ranks that share are, whose steps one of them cannot play.
TEST(MemoryAdvice, OfAStepThatIsMeasuredElsewhere) {
  Trained t;
  t.step("none", 1);
  const Limit scope(size_t(64) << 20);  // of which 57.6 MiB are used: 7 and 28 rows
  const AdviceCase asked{.batch = 20, .measure = [](const TrainedModel&) {
                           return std::vector{measured("none", 8), measured("full", 2)};
                         }};
  const std::string told = step_advice(asked, t.described());
  EXPECT_NE(told.find("; --recompute full would fit; so would --batch 7"), std::string::npos) << told;
}

TEST(MemoryAdvice, OfAStepThatNothingMakesFit) {
  Trained t;
  t.step("none", 1);
  const Limit scope(memory().stats().held + 1000);
  const std::string told = told_by([&] {
    with_memory_advice(
        played({.recompute = "none", .batch = 4}), [&] { return t.described(); },
        [&] { train::in_phase(train::Phase::step, [&] { t.step("none", 4); }); });
  });
  EXPECT_NE(told.find("predicted to take too much (none), too much (selective), too much (full)"),
            std::string::npos)
      << told;
  EXPECT_NE(told.find("; not even --batch 1 fits, with any --recompute"), std::string::npos) << told;
}

TEST(MemoryAdvice, OfEvaluationIsTrue) {
  Trained t;
  const auto evaluate = [&](int64_t rows) {
    const nn::EvalScope scope(t.model);
    return t.loss(rows).item();
  };
  memory().reset_peaks();
  evaluate(40);
  const Limit scope(memory().stats().peak_held);
  EXPECT_NO_THROW(evaluate(40));
  const auto refused = [&](int64_t rows) {
    return told_by([&] {
      with_evaluation_advice(
          t.model, rows, Device::cpu(), [&](int64_t few) { return t.loss(few); },
          [&] { return evaluate(rows); });
    });
  };
  const std::string told = refused(80);
  EXPECT_TRUE(told.starts_with("evaluation: out of memory on cpu: ")) << told;
  EXPECT_NE(told.find("; --batch "), std::string::npos) << told;
  const int64_t rows = number_after(told, "; --batch ");
  EXPECT_GT(rows, 30);
  EXPECT_LE(rows, 40);
  EXPECT_NO_THROW(evaluate(rows));
  EXPECT_EQ(told.find("--recompute"), std::string::npos) << "no option of eval: " << told;
  // The same of a run that trains, on one rank, or on three that share what --batch says.
  for (const int64_t ranks : {1, 3}) {
    const std::string in_training = told_by([&] {
      with_memory_advice(
          played({.batch = 80, .ranks = ranks}), [&] { return t.described(); },
          [&] { train::in_phase(train::Phase::evaluation, [&] { evaluate(80); }); });
    });
    EXPECT_EQ(number_after(in_training, "; --batch "), rows * ranks) << in_training;
  }
}

// As a rank's is, which has not all that it is evaluated with.
TEST(MemoryAdvice, OfAnEvaluationThatIsMeasuredElsewhere) {
  Trained t;
  const Limit scope(size_t(64) << 20);  // of which 57.6 MiB are used: 14 rows
  const AdviceCase asked{.batch = 20, .ranks = 2, .measure_evaluation = [](const TrainedModel&) {
                           return *measured("none", 4).memory;
                         }};
  const std::string told = told_by([&] {
    with_memory_advice(
        asked, [&] { return t.described(); },
        [] { train::in_phase(train::Phase::evaluation, [] { throw OutOfMemory("none left"); }); });
  });
  EXPECT_EQ(told,
            "evaluation: none left; evaluation takes as much with any --recompute; --batch 28 would fit");
}

TEST(MemoryAdvice, SaysWhereItCannotKnow) {
  const auto in = [](train::Phase phase, const AdviceCase& asked) {
    return told_by([&] {
      with_memory_advice(
          asked, []() -> TrainedModel { throw std::logic_error("asked for"); },
          [&] { train::in_phase(phase, [] { throw OutOfMemory("none left"); }); });
    });
  };
  EXPECT_EQ(in(train::Phase::sampling, {}),
            "sampling: none left; sampling takes as much with any --recompute and --batch");
  EXPECT_EQ(in(train::Phase::saving, {}),
            "saving: none left; saving takes as much with any --recompute and --batch");
  const std::string before =
      told_by([] { with_memory_advice_before_steps([]() -> int { throw OutOfMemory("none left"); }); });
  EXPECT_TRUE(before.starts_with("none left; it ran out outside of the steps")) << before;
}

}  // namespace
}  // namespace reprise::apps
