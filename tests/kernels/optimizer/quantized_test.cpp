// Moments of 8 bits: the map, rounding to it, and AdamW's updates against f64.
// slow in tsan
#include "reprise/kernels/optimizer/quantized.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>

#include "reprise/kernels/optimizer/optimizer_step.h"
#include "reprise/kernels/optimizer/rounding.h"
#include "reprise/tests/kernels/row_views.h"

namespace reprise::kernels {
namespace {

using namespace testing;

constexpr DynamicMap kMaps[] = {DynamicMap::with_sign, DynamicMap::positive};

// As Dettmers' bitsandbytes makes it: middles of equal steps of [0.1, 1] in seven decades, sorted, and 0 and 1.
std::vector<double> published_map(bool has_sign) {
  std::vector<double> values = {0, 1};
  for (int decade = 0; decade < 7; ++decade) {
    const int steps = 1 << (has_sign ? decade : decade + 1);
    for (int i = 0; i < steps; ++i) {
      const double low = 0.1 + 0.9 * i / steps, high = 0.1 + 0.9 * (i + 1) / steps;
      const double value = std::pow(10, decade - 6) * (low + high) / 2;
      values.push_back(value);
      if (has_sign) values.push_back(-value);
    }
  }
  std::sort(values.begin(), values.end());
  return values;
}

TEST(DynamicMap, IsThePublishedOne) {
  for (DynamicMap map : kMaps) {
    const std::vector<double> want = published_map(map == DynamicMap::with_sign);
    ASSERT_EQ(want.size(), 256u);
    for (int code = 0; code < 256; ++code)
      EXPECT_NEAR(dynamic_value(map, code), want[size_t(code)], 1e-7 * std::abs(want[size_t(code)])) << code;
  }
  EXPECT_EQ(dynamic_value(DynamicMap::with_sign, kDynamicZero), 0);
}

TEST(DynamicMap, RoundsToTheTwoValuesAroundANumberAndIsRightOnAverage) {
  for (DynamicMap map : kMaps) {
    const DynamicValues values = dynamic_values(map);
    for (int code = 0; code < 256; ++code) {
      for (uint32_t u : {0u, 0x8000u, 0xffffu})
        EXPECT_EQ(code_at_random(map, values.data(), values[size_t(code)], u), code);
      EXPECT_EQ(nearest_code(map, values.data(), values[size_t(code)]), code);
    }
    for (int code = map == DynamicMap::positive ? 1 : 0; code + 1 < 256; code += 3) {
      const double low = values[size_t(code)], high = values[size_t(code) + 1];
      for (double share : {0.1, 0.5, 0.9}) {
        const auto x = float(low + share * (high - low));
        int above = 0;
        for (uint32_t u = 0; u < 0x10000; ++u) {
          const int got = code_at_random(map, values.data(), x, u);
          ASSERT_TRUE(got == code || got == code + 1) << x;
          above += got != code;
        }
        EXPECT_NEAR(above / 65536.0, share, 1e-3) << code;  // f32 rounds x
        if (share != 0.5) { EXPECT_EQ(nearest_code(map, values.data(), x), share < 0.5 ? code : code + 1); }
      }
    }
  }
}

TEST(DynamicMap, KeepsASecondMomentAbove0) {
  constexpr DynamicMap map = DynamicMap::positive;
  const DynamicValues values = dynamic_values(map);
  EXPECT_EQ(code_at_random(map, values.data(), 0, 0xffff), 0);
  for (float x : {1e-30f, 1e-8f, 3e-7f}) EXPECT_EQ(code_at_random(map, values.data(), x, 0xffff), 1) << x;
  EXPECT_EQ(nearest_code(map, values.data(), 1e-9f), 1);
}

TEST(DynamicMap, TakesTheLargestInMagnitudeWithItsSign) {
  EXPECT_EQ(larger(-3, 2), -3);
  EXPECT_EQ(larger(2, -3), -3);
  EXPECT_EQ(larger(-3, 3), 3);
  EXPECT_EQ(larger(3, -3), 3);
  EXPECT_TRUE(std::isnan(larger(NAN, 3)) && std::isnan(larger(3, NAN)));
  EXPECT_EQ(share_of(0, 0), 0);
}

/// A parameter whose moments have 8 bits.
struct Case {
  Array parameter, gradient, first, second, first_largest, second_largest, rest, copy;
  DType stored;

  Case(int64_t size, DType stored_, DType of_gradient, Layout layout, uint64_t seed)
      : parameter({size}, stored_ == DType::f16 ? DType::f32 : stored_, layout),
        gradient({size}, of_gradient, layout),
        first({size}, DType::u8, layout),
        second({size}, DType::u8),
        first_largest({quantized_blocks(size)}, DType::f32),
        second_largest({quantized_blocks(size)}, DType::f32),
        rest({size, 2}, DType::u8),
        copy({size}, DType::f16),
        stored(stored_) {
    parameter.randomize(seed), gradient.randomize(seed + 1);
    first.fill_with([](int64_t) { return double(kDynamicZero); });
    for (Array* zero : {&second, &first_largest, &second_largest, &rest})
      zero->fill_with([](int64_t) { return 0.0; });
  }
  AdamWTensor tensor() const {
    AdamWTensor t{parameter.view(), gradient.view(), first.view(), second.view(), 0.01, 0.1};
    t.first_largest = first_largest.view(), t.second_largest = second_largest.view();
    if (stored == DType::bf16) t.remainder = rest.view();
    if (stored == DType::f16) t.rounded = copy.view();
    return t;
  }
  static std::vector<double> moments(const Array& codes, const Array& largest, DynamicMap map) {
    const std::vector<double> map_values = published_map(map == DynamicMap::with_sign),
                              scales = largest.values();
    std::vector<double> all;
    for (double code : codes.values()) all.push_back(map_values[size_t(code)] * scales[all.size() / 256]);
    return all;
  }
  std::vector<double> first_moments() const { return moments(first, first_largest, DynamicMap::with_sign); }
  std::vector<double> second_moments() const { return moments(second, second_largest, DynamicMap::positive); }
};

// What each of a block's numbers is rounded to lies next to it in the map, and the largest one is exact.
void expect_rounded(const std::vector<double>& got, const std::vector<double>& exact, DynamicMap map) {
  const std::vector<double> values = published_map(map == DynamicMap::with_sign);
  for (size_t begin = 0; begin < exact.size(); begin += 256) {
    const size_t end = std::min(exact.size(), begin + 256);
    double largest = 0;
    for (size_t i = begin; i < end; ++i)
      if (const double more = std::abs(exact[i]) - std::abs(largest), none = 1e-6 * std::abs(largest);
          more > none || (more > -none && exact[i] > 0))  // of two alike, the positive one
        largest = exact[i];
    for (size_t i = begin; i < end; ++i) {
      const double x = exact[i] / largest;
      const auto above = std::upper_bound(values.begin(), values.end(), x);
      const double low = above == values.begin() ? values.front() : *(above - 1);
      const double high = above == values.end() ? values.back() : *above;
      const double share = got[i] / largest, slack = 1e-5 * std::max(std::abs(x), 1e-7);
      // Where x is a value of the map but for an f32's rounding, the one below is next to it too.
      const bool on_low = std::abs(x - low) < 1e-5 * std::abs(low) && above - values.begin() > 1;
      EXPECT_GE(share, (on_low ? *(above - 2) : low) - slack) << i;
      EXPECT_LE(share, high + slack) << i;
      if (exact[i] == largest) { EXPECT_NEAR(got[i], largest, 1e-5 * std::abs(largest)) << i; }
    }
  }
}

TEST(AdamW, OfMomentsIn8BitsIsThePapersUpdate) {
  using enum DType;
  for (const auto& [stored, of_gradient] : {std::pair(f32, f32), {bf16, bf16}, {f16, f32}}) {
    std::deque<Case> cases;
    std::vector<AdamWTensor> tensors;
    for (int64_t size : {int64_t(0), int64_t(7), int64_t(256), int64_t(600), 5 * kOptimizerPiece - 705})
      for (Layout layout : {Layout::contiguous, Layout::offset})
        tensors.push_back(cases.emplace_back(size, stored, of_gradient, layout, cases.size()).tensor());
    for (int64_t step = 1; step <= 3; ++step) {
      std::vector<std::vector<double>> p, m, v;
      for (Case& c : cases) {
        c.gradient.randomize(uint64_t(100 * step) + p.size());
        p.push_back(c.parameter.values()), m.push_back(c.first_moments()), v.push_back(c.second_moments());
        if (stored != bf16) continue;
        const std::vector<double> bytes = c.rest.values();  // both halves: what the step computes with
        for (size_t i = 0; i < p.back().size(); ++i) {
          const auto low = int16_t(uint16_t(bytes[2 * i]) | uint16_t(uint16_t(bytes[2 * i + 1]) << 8));
          p.back()[i] =
              std::bit_cast<float>(std::bit_cast<uint32_t>(float(p.back()[i])) + uint32_t(int32_t(low)));
        }
      }
      run_kernel(adamw, tensors, AdamWOptions{.beta1 = 0.8, .beta2 = 0.95, .step = step, .seed = 9});
      for (size_t t = 0; t < cases.size(); ++t) {
        const std::vector<double> g = cases[t].gradient.values();
        for (size_t i = 0; i < g.size(); ++i) {
          m[t][i] = 0.8 * m[t][i] + 0.2 * g[i];
          v[t][i] = 0.95 * v[t][i] + 0.05 * g[i] * g[i];
          const double m_hat = m[t][i] / (1 - std::pow(0.8, step)),
                       v_hat = v[t][i] / (1 - std::pow(0.95, step));
          p[t][i] = p[t][i] * 0.999 - 0.01 * m_hat / (std::sqrt(v_hat) + 1e-8);
        }
        // The update takes moments before they are rounded; of a split parameter the upper half is looked at.
        const double tolerance = stored == bf16 ? 0.51 * epsilon_of(bf16) : 16 * epsilon_of(f32);
        expect_near(cases[t].parameter.values(), p[t], tolerance, "parameter");
        expect_rounded(cases[t].first_moments(), m[t], DynamicMap::with_sign);
        expect_rounded(cases[t].second_moments(), v[t], DynamicMap::positive);
        EXPECT_TRUE(cases[t].parameter.surroundings_untouched() && cases[t].first.surroundings_untouched());
      }
    }
  }
}

// A hundred updates whose second moments change by a thousandth each: rounded to nearest most would stand still.
TEST(AdamW, OfMomentsIn8BitsIsRightOnAverage) {
  constexpr int64_t size = 64 * 256;
  Case c(size, DType::f32, DType::f32, Layout::contiguous, 3);
  c.gradient.fill_with([](int64_t i) { return 0.01 * double(1 + i % 97); });
  std::vector<double> g = c.gradient.values(), m(g.size()), v(g.size());
  AdamWOptions options{.beta1 = 0.9, .beta2 = 0.999, .seed = 4};
  for (options.step = 1; options.step <= 300; ++options.step) {
    if (options.step == 200) c.gradient.fill_with([](int64_t) { return 0.0; }), g.assign(g.size(), 0);
    run_kernel(adamw, std::vector<AdamWTensor>{c.tensor()}, options);
    for (size_t i = 0; i < g.size(); ++i) {
      m[i] = 0.9 * m[i] + 0.1 * g[i];
      v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
    }
  }
  const std::vector<double> got = c.second_moments();
  for (size_t kind : {8u, 30u, 60u, 95u}) {  // gradients of 0.09 to 0.96
    double sum = 0, want = 0;
    for (size_t i = kind; i < got.size(); i += 97) sum += got[i], want += v[i];
    // 168 elements, each off by some 10 % at random.
    EXPECT_NEAR(sum / want, 1, 0.05) << "gradient " << kind;
  }
}

TEST(AdamW, RefusesMomentsIn8BitsThatDoNotFit) {
  Case c(300, DType::f32, DType::f32, Layout::contiguous, 3);
  auto refuses = [](AdamWTensor tensor, const char* message) {
    expect_error([&] { run_kernel(adamw, std::vector<AdamWTensor>{tensor}, AdamWOptions{}); }, message);
  };
  AdamWTensor none = c.tensor();
  none.second_largest = {};
  refuses(none, "adamw: the largest of the blocks of moments 0 are");
  AdamWTensor fewer = c.tensor();
  fewer.first_largest = slice(c.first_largest.view(), 0, 0, 1);
  refuses(fewer, "need f32(2,)");
  AdamWTensor mixed = c.tensor();
  mixed.second_moment = c.gradient.view();
  refuses(mixed, "adamw: second moment 0 is f32, the first u8");
  Array wide({300}, DType::f64);
  AdamWTensor of_f64 = c.tensor();
  of_f64.parameter = of_f64.gradient = wide.view();
  refuses(of_f64, "adamw: first moment 0 is u8, its parameter f64");
}

}  // namespace
}  // namespace reprise::kernels
