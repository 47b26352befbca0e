// The rule of a loss scale against PyTorch's, written down from its documentation, at random.
#include "reprise/kernels/optimizer/loss_scale.h"

#include <cmath>
#include <random>

#include "reprise/tests/kernels/row_views.h"

namespace reprise::kernels {
namespace {

using namespace testing;

struct State {
  Array scale, good, hysteresis, skipped, in_a_row;

  State(double first_scale, int32_t first_hysteresis)
      : scale({}, DType::f32),
        good({}, DType::i32),
        hysteresis({}, DType::i32),
        skipped({}, DType::i64),
        in_a_row({}, DType::i32) {
    scale.fill_with([&](int64_t) { return first_scale; });
    hysteresis.fill_with([&](int64_t) { return double(first_hysteresis); });
    for (Array* array : {&good, &skipped, &in_a_row}) array->fill_with([](int64_t) { return 0.0; });
  }
  LossScale views() const {
    return {scale.view(), good.view(), hysteresis.view(), skipped.view(), in_a_row.view()};
  }
};

void update(const State& state, int32_t found, const LossScaleOptions& options) {
  Array flag({}, DType::i32);
  flag.fill_with([&](int64_t) { return double(found); });
  run_kernel(update_loss_scale, flag.view(), state.views(), options);
}

TEST(LossScale, FollowsPyTorchs) {
  std::mt19937 random(5);
  for (const auto& [growth, backoff, interval, likely] : {std::tuple{2.0f, 0.5f, 3, 0.2},
                                                          {4.0f, 0.25f, 1, 0.6},
                                                          {2.0f, 0.5f, 20, 0.01},
                                                          {2.0f, 0.125f, 2, 0.3},
                                                          {1024.0f, 0.5f, 1, 0.05}}) {
    State state(65536, 1);
    float scale = 65536;
    int64_t tracker = 0, skipped = 0, in_a_row = 0;
    const int steps = reprise::testing::test_device().is_cuda() ? 400 : 2000;
    for (int step = 0; step < steps; ++step) {
      const bool bad = std::bernoulli_distribution(likely)(random);
      update(state, bad ? 1 + step % 7 : 0, {growth, backoff, interval, 1});
      // torch.amp.GradScaler.update, in its documentation's words.
      if (bad) {
        if (scale * backoff >= 0x1p-126f) scale *= backoff;  // where PyTorch's goes on to 0
        tracker = 0, ++skipped, ++in_a_row;
      } else {
        in_a_row = 0;
        if (++tracker == interval) {
          if (std::isfinite(scale * growth)) scale *= growth;
          tracker = 0;
        }
      }
      ASSERT_EQ(state.scale.values()[0], scale) << "step " << step << " of growth " << growth;
      ASSERT_EQ(state.good.values()[0], double(tracker));
      ASSERT_EQ(state.skipped.values()[0], double(skipped));
      ASSERT_EQ(state.in_a_row.values()[0], double(in_a_row));
    }
  }
}

// Three bad updates are borne, the third backs off, and so does each one after; a good one starts again.
TEST(LossScale, BearsSomeBadUpdatesWithHysteresis) {
  const LossScaleOptions options{2, 0.5, 100, 3};
  State state(1024, 3);
  const std::pair<int, double> steps[] = {{1, 1024}, {1, 1024}, {0, 1024}, {1, 1024}, {1, 1024},
                                          {1, 512},  {1, 256},  {0, 256},  {1, 256}};
  for (const auto& [found, scale] : steps) {
    update(state, found, options);
    EXPECT_EQ(state.scale.values()[0], scale);
  }
  EXPECT_EQ(state.skipped.values()[0], 7);
}

// PyTorch's would reach 0, whose inverse makes NaN of clean gradients.
TEST(LossScale, StaysAboveZero) {
  State state(0x1p-124, 1);
  for (double scale : {0x1p-125, 0x1p-126, 0x1p-126, 0x1p-126}) {
    update(state, 1, {2, 0.5, 100, 1});
    EXPECT_EQ(state.scale.values()[0], scale);
  }
}

TEST(LossScale, RefusesWhatDoesNotFit) {
  State state(1, 1);
  Array f32({}, DType::f32), found({}, DType::i32);
  LossScale wrong = state.views();
  wrong.good = f32.view();
  expect_error([&] { run_kernel(update_loss_scale, found.view(), wrong, {}); },
               "update_loss_scale: good needs one i32");
  expect_error([&] { run_kernel(update_loss_scale, f32.view(), state.views(), {}); },
               "update_loss_scale: found needs one i32");
  expect_error(
      [&] {
        run_kernel(update_loss_scale, found.view(), state.views(), {2, 0.5, 0, 1});
      },
      "update_loss_scale: interval must be at least 1, got 0");
}

}  // namespace
}  // namespace reprise::kernels
