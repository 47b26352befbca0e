// Optimizer steps against loops in f64.
// not in tsan: OptimizerStep.TakesMoreTensorsThanATableHolds
#include "reprise/kernels/optimizer/optimizer_step.h"

#include <deque>

#include "reprise/tests/kernels/row_views.h"

namespace reprise::kernels {
namespace {

using namespace testing;

const std::vector<Shape> kShapes = {{}, {7}, {3, 5}, {0}, {2, 3, 5, 7}, {129}, {5, kOptimizerPiece - 705}};

/// A parameter with its gradient and two states; `layout` may put the first two one element off any
/// alignment.
struct State {
  Array parameter, gradient, first, second;

  State(const Shape& shape, DType dtype, DType gradient_dtype, uint64_t seed, Layout layout = Layout::offset)
      : parameter(shape, dtype, layout),
        gradient(shape, gradient_dtype, layout),
        first(shape, dtype),
        second(shape, dtype) {
    parameter.randomize(seed);
    gradient.randomize(seed + 100);
    first.fill_with([](int64_t) { return 0.0; });
    second.fill_with([](int64_t) { return 0.0; });
  }
};

std::deque<State> states(DType dtype, DType gradient_dtype) {
  std::deque<State> all;
  for (const Shape& shape : kShapes)
    for (Layout layout : {Layout::offset, Layout::contiguous})
      all.emplace_back(shape, dtype, gradient_dtype, all.size(), layout);
  return all;
}

// f32 rounds each of a few steps; weights stay below 10.
double tolerance_for(DType dtype) { return 16 * epsilon_of(dtype); }

constexpr std::pair<DType, DType> kDTypes[] = {
    {DType::f64, DType::f64}, {DType::f32, DType::f32}, {DType::f32, DType::bf16}, {DType::f32, DType::f16}};

TEST(AdamW, MatchesThePapersUpdateOverSeveralSteps) {
  for (auto [dtype, gradient_dtype] : kDTypes) {
    std::deque<State> all = states(dtype, gradient_dtype);
    std::vector<AdamWTensor> tensors;
    for (State& s : all)
      tensors.push_back({s.parameter.view(), s.gradient.view(), s.first.view(), s.second.view(),
                         0.01 * double(tensors.size() + 1), tensors.size() % 2 ? 0.1 : 0.0});
    std::vector<std::vector<double>> p, m, v;
    for (State& s : all) p.push_back(s.parameter.values());
    for (State& s : all) m.push_back(s.first.values());
    v = m;
    AdamWOptions options = {.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .gradient_scale = 0.5};
    for (options.step = 1; options.step <= 3; ++options.step) {
      run_kernel(adamw, tensors, options);
      for (size_t t = 0; t < all.size(); ++t) {
        std::vector<double> g = all[t].gradient.values();
        for (size_t i = 0; i < g.size(); ++i) {
          double scaled = g[i] * 0.5, lr = tensors[t].lr;
          m[t][i] = 0.8 * m[t][i] + 0.2 * scaled;
          v[t][i] = 0.95 * v[t][i] + 0.05 * scaled * scaled;
          double m_hat = m[t][i] / (1 - std::pow(0.8, options.step));
          double v_hat = v[t][i] / (1 - std::pow(0.95, options.step));
          p[t][i] = p[t][i] * (1 - lr * tensors[t].weight_decay) - lr * m_hat / (std::sqrt(v_hat) + 1e-3);
        }
      }
    }
    for (size_t t = 0; t < all.size(); ++t) {
      expect_near(all[t].parameter.values(), p[t], tolerance_for(dtype), "parameter");
      expect_near(all[t].first.values(), m[t], tolerance_for(dtype), "first moment");
      expect_near(all[t].second.values(), v[t], tolerance_for(dtype), "second moment");
      EXPECT_TRUE(all[t].parameter.surroundings_untouched() && all[t].first.surroundings_untouched());
    }
  }
}

TEST(AdamW, WritesTheParameterRoundedAsWell) {
  using enum DType;
  for (auto [half, gradient] : {std::pair(bf16, bf16), {f16, f16}, {bf16, f32}, {f16, f32}}) {
    std::deque<State> all = states(f32, gradient), alone = states(f32, gradient);
    std::deque<Array> rounded;
    std::vector<AdamWTensor> with, without;
    for (size_t t = 0; t < all.size(); ++t) {
      State &s = all[t], &o = alone[t];
      Layout layout = t % 3 == 1 ? Layout::offset : Layout::contiguous;
      Array& low = rounded.emplace_back(s.parameter.view().shape, half, layout);
      with.push_back({s.parameter.view(), s.gradient.view(), s.first.view(), s.second.view(), 0.01, 0.1});
      without.push_back({o.parameter.view(), o.gradient.view(), o.first.view(), o.second.view(), 0.01, 0.1});
      if (t % 4 != 3) with.back().rounded = low.view();
    }
    run_kernel(adamw, with, AdamWOptions{.step = 3});
    run_kernel(adamw, without, AdamWOptions{.step = 3});
    for (size_t t = 0; t < all.size(); ++t) {
      std::vector<double> want = alone[t].parameter.values();
      EXPECT_EQ(all[t].parameter.values(), want) << "the master copy does not depend on it";
      for (double& x : want) x = half == DType::bf16 ? float(BFloat16(float(x))) : float(Float16(float(x)));
      EXPECT_TRUE(rounded[t].surroundings_untouched());
      if (with[t].rounded) { EXPECT_EQ(rounded[t].values(), want) << half << " tensor " << t; }
    }
  }
}

// In f64, of a parameter and moments that are stored in 16 bits.
TEST(AdamW, IsThePapersUpdateHoweverItIsStored) {
  enum class As { split, random };
  for (As as : {As::split, As::random})
    for (DType moments : {DType::f32, DType::bf16})
      for (DType of_gradient : {DType::f32, DType::bf16}) {
        State s({257}, DType::bf16, of_gradient, 5);
        Array first({257}, moments), second({257}, moments), rest({257, 2}, DType::u8);
        for (Array* zero : {&first, &second, &rest}) zero->fill_with([](int64_t) { return 0.0; });
        std::vector<double> p = s.parameter.values(), m(p.size()), v(p.size());
        for (int64_t step = 1; step <= 3; ++step) {
          std::vector<AdamWTensor> tensors = {
              {s.parameter.view(), s.gradient.view(), first.view(), second.view(), 0.01, 0.1}};
          if (as == As::split) tensors[0].remainder = rest.view();
          run_kernel(adamw, tensors, AdamWOptions{.beta1 = 0.8, .beta2 = 0.95, .step = step, .seed = 9});
          const std::vector<double> g = s.gradient.values();
          for (size_t i = 0; i < g.size(); ++i) {
            m[i] = 0.8 * m[i] + 0.2 * g[i];
            v[i] = 0.95 * v[i] + 0.05 * g[i] * g[i];
            const double m_hat = m[i] / (1 - std::pow(0.8, step)), v_hat = v[i] / (1 - std::pow(0.95, step));
            p[i] = p[i] * 0.999 - 0.01 * m_hat / (std::sqrt(v_hat) + 1e-8);
          }
        }
        // Three roundings, each by less than a last bit; of a split parameter the last, by half of one.
        const double of_parameter = as == As::split && moments == DType::f32 ? 0.5 : 3;
        expect_near(s.parameter.values(), p, of_parameter * epsilon_of(DType::bf16), "parameter");
        const double of_moments = moments == DType::f32 ? tolerance_for(DType::f32) : 3 * epsilon_of(moments);
        expect_near(first.values(), m, of_moments, "first moment");
        expect_near(second.values(), v, of_moments, "second moment");
      }
}

TEST(AdamW, RefusesARoundedParameterThatDoesNotFit) {
  State s({3, 5}, DType::f32, DType::bf16, 1);
  auto error = [&](const Array& rounded) {
    std::vector<AdamWTensor> tensors = {
        {s.parameter.view(), s.gradient.view(), s.first.view(), s.second.view(), 0, 0, rounded.view()}};
    return error_of(adamw, tensors, AdamWOptions{});
  };
  EXPECT_NE(error(Array({3, 5}, DType::f16)).find("rounded parameter 0 is f16"), std::string::npos);
  EXPECT_NE(error(Array({5, 3}, DType::bf16)).find("rounded parameter 0 has shape"), std::string::npos);
}

TEST(Sgd, MatchesTheTextbookWithMomentumNesterovAndDecay) {
  for (auto [dtype, gradient_dtype] : kDTypes)
    for (double momentum : {0.0, 0.9})
      for (bool nesterov : {false, true}) {
        std::deque<State> all = states(dtype, gradient_dtype);
        std::vector<SgdTensor> tensors;
        std::vector<std::vector<double>> p, v;
        for (State& s : all) {
          s.first.fill_with([](int64_t) { return 5.0; });  // what the first step must not read
          tensors.push_back(
              {s.parameter.view(), s.gradient.view(), momentum ? s.first.view() : TensorView{}, 0.05, 0.1});
          p.push_back(s.parameter.values());
          v.push_back(s.first.values());
        }
        for (bool first : {true, false}) {
          run_kernel(
              sgd, tensors,
              {.momentum = momentum, .nesterov = nesterov, .first_step = first, .gradient_scale = 0.5});
          for (size_t t = 0; t < all.size(); ++t) {
            std::vector<double> gradient = all[t].gradient.values();
            for (size_t i = 0; i < gradient.size(); ++i) {
              double g = gradient[i] * 0.5 + 0.1 * p[t][i], step = g;
              if (momentum > 0) {
                v[t][i] = first ? g : momentum * v[t][i] + g;
                step = nesterov ? g + momentum * v[t][i] : v[t][i];
              }
              p[t][i] -= 0.05 * step;
            }
          }
        }
        for (size_t t = 0; t < all.size(); ++t) {
          expect_near(all[t].parameter.values(), p[t], tolerance_for(dtype), "parameter");
          expect_near(all[t].first.values(), v[t], tolerance_for(dtype), "velocity");
        }
      }
}

TEST(Sgd, WritesTheParameterRoundedAsWell) {
  using enum DType;
  for (auto [half, gradient] : {std::pair(bf16, bf16), {f16, f16}, {bf16, f32}, {f16, f32}})
    for (double momentum : {0.0, 0.9}) {
      State s({129}, f32, gradient, 1), alone({129}, f32, gradient, 1);
      Array rounded({129}, half, Layout::offset);
      std::vector<SgdTensor> with = {{s.parameter.view(), s.gradient.view(), s.first.view(), 0.05, 0.1}};
      std::vector<SgdTensor> without = {
          {alone.parameter.view(), alone.gradient.view(), alone.first.view(), 0.05, 0.1}};
      if (momentum == 0) with[0].velocity = without[0].velocity = {};
      with[0].rounded = rounded.view();
      run_kernel(sgd, with, {.momentum = momentum});
      run_kernel(sgd, without, {.momentum = momentum});
      std::vector<double> want = alone.parameter.values();
      EXPECT_EQ(s.parameter.values(), want);
      for (double& x : want) x = half == bf16 ? float(BFloat16(float(x))) : float(Float16(float(x)));
      EXPECT_EQ(rounded.values(), want);
      EXPECT_TRUE(rounded.surroundings_untouched());
    }
}

TEST(OptimizerStep, TakesMoreTensorsThanATableHolds) {
  std::deque<State> all;
  std::vector<AdamWTensor> tensors;
  std::vector<SgdTensor> plain;
  for (int t = 0; t < kMostTableEntries; ++t) {
    State& s = all.emplace_back(Shape{t % 7}, DType::f32, DType::f32, t);
    tensors.push_back({s.parameter.view(), s.gradient.view(), s.first.view(), s.second.view(), 0.5, 0});
    plain.push_back({s.parameter.view(), s.gradient.view(), {}, 0.5, 0});
  }
  // The first step of AdamW without decay moves each parameter by lr against the sign of its gradient.
  std::vector<std::vector<double>> before;
  for (State& s : all) before.push_back(s.parameter.values());
  run_kernel(adamw, tensors, AdamWOptions{.eps = 0});
  for (size_t t = 0; t < all.size(); ++t) {
    std::vector<double> g = all[t].gradient.values();
    for (size_t i = 0; i < g.size(); ++i) before[t][i] -= std::copysign(0.5, g[i]);
    expect_near(all[t].parameter.values(), before[t], tolerance_for(DType::f32), "adamw");
  }
  run_kernel(sgd, plain, SgdOptions{});
  for (size_t t = 0; t < all.size(); ++t) {
    std::vector<double> g = all[t].gradient.values();
    for (size_t i = 0; i < g.size(); ++i) before[t][i] -= 0.5 * g[i];
    expect_near(all[t].parameter.values(), before[t], tolerance_for(DType::f32), "sgd");
  }
}

TEST(OptimizerStep, ReadsItsNumbersFromMemory) {
  Array factor({}, DType::f64), scale({}, DType::f64), count({}, DType::i64), go({}, DType::i32),
      stop({}, DType::i32);
  set_element(factor.view(), 0, 0.25), set_element(scale.view(), 0, 0.5), set_element(count.view(), 0, 3);
  set_element(go.view(), 0, 0), set_element(stop.view(), 0, 1);
  // Once with the numbers given, once with other ones given and those in memory.
  auto updated = [&](bool in_memory, bool with_adamw, const Array* skip) {
    State s({129}, DType::f32, DType::f32, 1);
    s.first.randomize(5, 0, 1), s.second.randomize(6, 0, 1);
    StepNumbers numbers;
    if (in_memory) numbers = {factor.view(), scale.view(), with_adamw ? count.view() : TensorView{}, {}};
    if (skip) numbers.skip = skip->view();
    double lr = in_memory ? 0.4 : 0.1, given_scale = in_memory ? 7 : 0.5;
    if (with_adamw) {
      std::vector<AdamWTensor> tensors = {
          {s.parameter.view(), s.gradient.view(), s.first.view(), s.second.view(), lr, 0.1}};
      run_kernel(
          adamw, tensors,
          AdamWOptions{.step = in_memory ? 9 : 3, .gradient_scale = given_scale, .in_memory = numbers});
    } else {
      std::vector<SgdTensor> tensors = {{s.parameter.view(), s.gradient.view(), s.first.view(), lr, 0.1}};
      run_kernel(sgd, tensors,
                 SgdOptions{.momentum = 0.9, .gradient_scale = given_scale, .in_memory = numbers});
    }
    return joined(joined(s.parameter.values(), s.first.values()), s.second.values());
  };
  State untouched({129}, DType::f32, DType::f32, 1);
  untouched.first.randomize(5, 0, 1), untouched.second.randomize(6, 0, 1);
  for (bool with_adamw : {true, false}) {
    std::vector<double> want = updated(false, with_adamw, nullptr);
    expect_near(updated(true, with_adamw, nullptr), want, tolerance_for(DType::f32), "numbers in memory");
    expect_near(updated(true, with_adamw, &go), want, tolerance_for(DType::f32), "not skipped");
    EXPECT_EQ(
        updated(true, with_adamw, &stop),
        joined(joined(untouched.parameter.values(), untouched.first.values()), untouched.second.values()));
  }
}

// A tensor that has had n updates takes the bits of a launch whose step is n + 1.
TEST(AdamW, CountsTheUpdatesOfEachTensorInMemory) {
  for (auto [dtype, gradient_dtype] : kDTypes) {
    State a({129}, dtype, gradient_dtype, 1), b({3, 5}, dtype, gradient_dtype, 2);
    State a_alone({129}, dtype, gradient_dtype, 1), b_alone({3, 5}, dtype, gradient_dtype, 2);
    auto tensor = [](State& s) {
      return AdamWTensor{s.parameter.view(), s.gradient.view(), s.first.view(), s.second.view(), 0.01, 0.1};
    };
    Array updates({2}, DType::i64), skip({}, DType::i32);
    updates.fill_with([](int64_t i) { return i == 0 ? 0.0 : 6.0; });
    std::vector<AdamWTensor> both = {tensor(a), tensor(b)};
    for (size_t t = 0; t < 2; ++t) {
      both[t].updates = updates.view();
      both[t].updates.data = updates.view().as<int64_t>() + t;
      both[t].updates.shape = Shape{1};
    }
    skip.fill_with([](int64_t) { return 0.0; });
    run_kernel(adamw, both, {.step = 40, .in_memory = {.skip = skip.view()}});
    run_kernel(adamw, std::vector<AdamWTensor>{tensor(a_alone)}, {.step = 1});
    run_kernel(adamw, std::vector<AdamWTensor>{tensor(b_alone)}, {.step = 7});
    EXPECT_EQ(a.parameter.values(), a_alone.parameter.values()) << dtype;
    EXPECT_EQ(b.parameter.values(), b_alone.parameter.values()) << dtype;
    EXPECT_EQ(updates.values(), (std::vector<double>{0, 6})) << "a kernel that reads them does not count";
  }
}

TEST(OptimizerStep, IsExactAcrossThreadCounts) {
  expect_same_at_any_thread_count([] {
    State a({257, 129}, DType::f32, DType::f32, 1), b({65}, DType::f32, DType::bf16, 2);
    std::vector<AdamWTensor> tensors;
    for (State* s : {&a, &b})
      tensors.push_back(
          {s->parameter.view(), s->gradient.view(), s->first.view(), s->second.view(), 0.01, 0.1});
    run_kernel(adamw, tensors, {});
    std::vector<SgdTensor> plain = {{a.parameter.view(), a.gradient.view(), a.first.view(), 0.01, 0.1}};
    run_kernel(sgd, plain, {.momentum = 0.9});
    return joined(a.parameter.values(), b.parameter.values());
  });
}

TEST(OptimizerStep, RefusesStatesThatDoNotFit) {
  State s({3, 5}, DType::f32, DType::f32, 1), other({5, 3}, DType::f32, DType::f32, 1);
  State wide({3, 5}, DType::f64, DType::f64, 1), half({3, 5}, DType::f16, DType::f16, 1);
  Array turned({3, 5}, DType::f32, Layout::reversed), number({}, DType::f32);
  auto step = [](const TensorView& p, const TensorView& g, const TensorView& m, const TensorView& v) {
    std::vector<AdamWTensor> tensors = {{p, g, m, v, 0.1, 0}};
    run_kernel(adamw, tensors, {});
  };
  TensorView p = s.parameter.view(), g = s.gradient.view(), m = s.first.view();
  expect_error([&] { step(p, other.gradient.view(), m, m); }, "adamw: gradient 0 has shape (5, 3)");
  expect_error([&] { step(p, wide.gradient.view(), m, m); }, "adamw: gradient 0 is f64");
  expect_error([&] { step(p, g, wide.first.view(), m); }, "adamw: first moment 0 is f64");
  expect_error([&] { step(p, g, m, turned.view()); }, "adamw: second moment 0 is not contiguous");
  expect_error([&] { step(half.parameter.view(), half.gradient.view(), m, m); },
               "parameter 0 needs f32, f64 or bf16, is f16");
  expect_error([&] { run_kernel(adamw, {}, {.step = 0}); }, "adamw: step is 0");
  std::vector<SgdTensor> plain = {{p, g, {}, 0.1, 0}};
  expect_error([&] { run_kernel(sgd, plain, {.momentum = 0.9}); },
               "sgd: momentum is 0.9, but tensor 0 has no velocity");
  expect_error([&] { run_kernel(adamw, {}, AdamWOptions{.in_memory = {.step = number.view()}}); },
               "adamw: step needs one i64, has () f32");
}

}  // namespace
}  // namespace reprise::kernels
