// Rounding to bf16 at random: what it gives for each draw, and that AdamW's draws are those of the element, the parameter
// and the update, on each device.
#include <bit>
#include <cmath>
#include <deque>
#include <limits>

#include "reprise/kernels/optimizer/optimizer_step.h"
#include "reprise/kernels/optimizer/rounding.h"
#include "reprise/tests/kernels/row_views.h"

namespace reprise::kernels {
namespace {

using namespace testing;

float value_of(uint16_t bf16) { return std::bit_cast<float>(uint32_t(bf16) << 16); }
uint32_t bits_of(double x) { return std::bit_cast<uint32_t>(float(x)); }

TEST(StochasticRounding, HasTheNumberAsItsMeanOverAllDraws) {
  for (uint32_t i = 0; i < 64; ++i) {
    uint32_t bits = philox_block(7, 0, i)[0];
    if (i < 8) bits &= 0x807fffff;                           // subnormal
    if ((bits & 0x7f800000) >= 0x7f000000) bits ^= 1 << 30;  // its neighbour above may be infinite
    double sum = 0;
    for (uint32_t u = 0; u < 0x10000; ++u) sum += value_of(rounded_at_random(bits, u));
    EXPECT_EQ(sum / 0x10000, double(std::bit_cast<float>(bits))) << std::hex << bits;
  }
}

TEST(StochasticRounding, KeepsWhatIsExactAndMakesNothingInfinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (uint32_t u : {0u, 1u, 0x8000u, 0xffffu}) {
    for (float x : {0.0f, -0.0f, 1.0f, -3.5f, 0x1p-126f, value_of(0x7f7f), infinity, -infinity})
      EXPECT_EQ(rounded_at_random(std::bit_cast<uint32_t>(x), u), std::bit_cast<uint32_t>(x) >> 16) << x;
    const float largest = std::numeric_limits<float>::max();
    EXPECT_EQ(value_of(rounded_at_random(std::bit_cast<uint32_t>(largest), u)), value_of(0x7f7f));
    EXPECT_EQ(value_of(rounded_at_random(std::bit_cast<uint32_t>(-largest), u)), value_of(0xff7f));
    for (uint32_t nan : {0x7f800001u, 0x7fffffffu, 0xffffffffu, 0x7fc00000u})
      EXPECT_TRUE(std::isnan(value_of(rounded_at_random(nan, u)))) << std::hex << nan;
  }
}

constexpr uint64_t kSeed = 0x123456789abcdef;
constexpr double kRate = 0.001;

// Draw of an element, from Philox and the words of Note [Draws of an optimizer].
uint32_t expected_draw(uint64_t stream, uint64_t offset, uint64_t element) {
  const auto words = philox_block(kSeed, offset, (stream << 61) + element / 8);
  const uint32_t word = words[(element % 8) / 2];
  return element % 2 ? word >> 16 : word & 0xffff;
}

// A parameter whose update is p - rate, which f32 rounds alike everywhere: both betas are 0, so that the direction of the
// update is the sign of the gradient, 1. With `given` gradients the rate is 0, and the moments are g and g g.
struct Case {
  Array parameter, gradient, first, second;
  std::vector<double> before;

  Case(const Shape& shape, DType dtype, DType moments, uint64_t seed, Layout layout, bool given)
      : parameter(shape, dtype, layout),
        gradient(shape, DType::f32, layout),
        first(shape, moments, layout),
        second(shape, moments) {
    parameter.randomize(seed);
    given ? gradient.randomize(seed + 1) : gradient.fill_with([](int64_t) { return 1.0; });
    for (Array* moment : {&first, &second}) moment->fill_with([](int64_t) { return 0.0; });
    before = parameter.values();
  }
  AdamWTensor tensor(DrawPlace place, bool given) const {
    AdamWTensor t{parameter.view(), gradient.view(), first.view(), second.view(), given ? 0 : kRate, 0};
    t.place = place;
    return t;
  }
};

const std::pair<Shape, Layout> kCases[] = {{{7}, Layout::contiguous},
                                           {{3, 5}, Layout::offset},
                                           {{0}, Layout::contiguous},
                                           {{5, kOptimizerPiece - 705}, Layout::contiguous}};

AdamWOptions options_of(int64_t step, int64_t parameters) {
  return {.beta1 = 0, .beta2 = 0, .eps = 0, .step = step, .seed = kSeed, .parameters = parameters};
}

TEST(StochasticRounding, OfParametersTakesTheDrawsOfElementParameterAndUpdate) {
  for (int64_t step : {1, 4}) {
    std::deque<Case> cases;
    std::vector<AdamWTensor> tensors;
    for (const auto& [shape, layout] : kCases) {
      const int64_t place = int64_t(cases.size()) + 2;
      tensors.push_back(cases.emplace_back(shape, DType::bf16, DType::f32, cases.size(), layout, false)
                            .tensor({place, 256 * place}, false));
    }
    run_kernel(adamw, tensors, options_of(step, 10));
    for (size_t c = 0; c < cases.size(); ++c) {
      const std::vector<double> got = cases[c].parameter.values();
      const uint64_t offset = uint64_t(step - 1) * 10 + c + 2;
      for (size_t i = 0; i < got.size(); ++i) {
        const uint32_t bits = bits_of(float(cases[c].before[i]) - float(kRate));
        ASSERT_EQ(got[i], value_of(rounded_at_random(bits, expected_draw(0, offset, i + 256 * (c + 2)))))
            << c << ' ' << i;
      }
      EXPECT_TRUE(cases[c].parameter.surroundings_untouched());
    }
  }
}

// The update is p - rate g, with a gradient of 1.
TEST(StochasticRounding, OfSgdTakesTheSameDraws) {
  for (int64_t step : {1, 4})
    for (const bool in_memory : {false, true})
      for (const bool has_velocity : {false, true}) {
        Array number({1}, DType::i64);
        number.fill_with([&](int64_t) { return double(step); });
        std::deque<Case> cases;
        std::vector<SgdTensor> tensors;
        for (const auto& [shape, layout] : kCases) {
          const int64_t place = int64_t(cases.size()) + 2;
          const Case& c = cases.emplace_back(shape, DType::bf16, DType::f32, cases.size(), layout, false);
          tensors.push_back({c.parameter.view(), c.gradient.view(),
                             has_velocity ? c.second.view() : TensorView(), kRate, 0});
          tensors.back().place = {place, 256 * place};
        }
        SgdOptions options{.momentum = has_velocity ? 0.5 : 0, .seed = kSeed, .parameters = 10};
        in_memory ? void(options.in_memory.step = number.view()) : void(options.step = step);
        run_kernel(sgd, tensors, options);
        for (size_t c = 0; c < cases.size(); ++c) {
          const std::vector<double> got = cases[c].parameter.values();
          const uint64_t offset = uint64_t(step - 1) * 10 + c + 2;
          for (size_t i = 0; i < got.size(); ++i) {
            const uint32_t bits = bits_of(float(cases[c].before[i]) - float(kRate));
            ASSERT_EQ(got[i], value_of(rounded_at_random(bits, expected_draw(0, offset, i + 256 * (c + 2)))))
                << c << ' ' << i;
          }
          EXPECT_TRUE(cases[c].parameter.surroundings_untouched());
        }
      }
}

TEST(StochasticRounding, OfMomentsTakesDrawsOfTheirOwn) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    Array updates({1}, DType::i64);
    updates.fill_with([](int64_t) { return 6.0; });
    std::deque<Case> cases;
    std::vector<AdamWTensor> tensors;
    for (const auto& [shape, layout] : kCases) {
      tensors.push_back(cases.emplace_back(shape, dtype, DType::bf16, cases.size(), layout, true)
                            .tensor({int64_t(cases.size()) - 1, 512}, true));
      tensors.back().updates = updates.view();
    }
    run_kernel(adamw, tensors, options_of(1, 4));  // the tensor's own updates count
    for (size_t c = 0; c < cases.size(); ++c) {
      const std::vector<double> first = cases[c].first.values(), second = cases[c].second.values(),
                                gradient = cases[c].gradient.values();
      EXPECT_EQ(cases[c].parameter.values(), cases[c].before) << "a rate of 0";
      for (size_t i = 0; i < first.size(); ++i) {
        const uint64_t offset = 6 * 4 + c;
        const float g = float(gradient[i]), square = g * g;
        ASSERT_EQ(first[i], value_of(rounded_at_random(bits_of(g), expected_draw(1, offset, i + 512))));
        ASSERT_EQ(second[i], value_of(rounded_at_random(bits_of(square), expected_draw(2, offset, i + 512))));
      }
      EXPECT_TRUE(cases[c].first.surroundings_untouched());
    }
  }
}

TEST(StochasticRounding, IsExactAcrossThreadCounts) {
  expect_same_at_any_thread_count([] {
    Case c({257, 129}, DType::bf16, DType::bf16, 1, Layout::contiguous, true);
    std::vector<AdamWTensor> tensors = {c.tensor({}, false)};
    run_kernel(adamw, tensors, {.step = 3, .seed = kSeed});
    return testing::joined(testing::joined(c.parameter.values(), c.first.values()), c.second.values());
  });
}

// 50 updates of 2^-10 each, a quarter of the last bit below 1, move a parameter as far as in f32, on average.
TEST(StochasticRounding, LosesNoSmallUpdateOnAverage) {
  Case c({4096}, DType::bf16, DType::f32, 1, Layout::contiguous, false);
  c.parameter.fill_with([](int64_t) { return 1.0; });
  for (int64_t step = 1; step <= 50; ++step) {
    std::vector<AdamWTensor> tensors = {c.tensor({}, false)};
    tensors[0].lr = 0x1p-10;
    run_kernel(adamw, tensors, options_of(step, 1));
  }
  double sum = 0;
  for (double x : c.parameter.values()) sum += x;
  // A walk of 50 steps with the spread of half a last bit (2^-9) each, over 4,096 elements: 0.0002; five times that.
  EXPECT_NEAR(sum / 4096, 1 - 50 * 0x1p-10, 0.001);
}

}  // namespace
}  // namespace reprise::kernels
