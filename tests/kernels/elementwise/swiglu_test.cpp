// SwiGLU against loops in f64.
#include "reprise/kernels/elementwise/swiglu.h"

#include "reprise/tests/kernels/row_views.h"

namespace reprise::kernels {
namespace {

using namespace testing;

struct Case {
  Array gate, up, dy, y, dgate, dup;

  Case(const Shape& shape, DType dtype, Layout layout)
      : gate(shape, dtype, layout),
        up(shape, dtype, Layout::offset),
        dy(shape, dtype, layout),
        y(shape, dtype, layout),
        dgate(shape, dtype, layout),
        dup(shape, dtype, Layout::reversed) {
    gate.randomize(1, -9, 9);
    up.randomize(2);
    dy.randomize(3);
  }
  void run() {
    run_kernel(swiglu, gate.view(), up.view(), y.view());
    run_kernel(
        swiglu_backward,
        {.dy = dy.view(), .gate = gate.view(), .up = up.view(), .dgate = dgate.view(), .dup = dup.view()});
  }
};

TEST(Swiglu, MatchesF64LoopsOnEveryDtypeAndLayout) {
  for (const Shape& shape : small_shapes())
    for (DType dtype : floating_dtypes)
      for (Layout layout : layouts) {
        Case c(shape, dtype, layout);
        c.run();
        std::vector<double> gate = c.gate.values(), up = c.up.values(), dy = c.dy.values(), y, dgate, dup;
        for (size_t i = 0; i < gate.size(); ++i) {
          double s = 1 / (1 + std::exp(-gate[i]));
          y.push_back(gate[i] * s * up[i]);
          dgate.push_back(dy[i] * up[i] * s * (1 + gate[i] * (1 - s)));
          dup.push_back(dy[i] * gate[i] * s);
        }
        // A few ulp from exp and the products; 1 - s cancels where s is near 1, times gate and dy up < 16.
        std::string what = describe(shape, dtype, layout);
        expect_near(c.y.values(), y, 4 * epsilon_of(dtype), "y " + what);
        expect_near(c.dgate.values(), dgate, 64 * epsilon_of(dtype), "dgate " + what);
        expect_near(c.dup.values(), dup, 4 * epsilon_of(dtype), "dup " + what);
        EXPECT_TRUE(c.y.surroundings_untouched() && c.dgate.surroundings_untouched() &&
                    c.dup.surroundings_untouched());
      }
}

TEST(Swiglu, TakesTheHalvesOfOneMatrix) {
  // (N, 2 H) is gate and up side by side; the gradient goes back into such a matrix. 48 is whole packs.
  for (DType dtype : floating_dtypes)
    for (int64_t width : {48, 37}) {
      Array both({67, 2 * width}, dtype), y({67, width}, dtype), gate({67, width}, dtype),
          up({67, width}, dtype), want({67, width}, dtype), dboth({67, 2 * width}, dtype),
          dgate({67, width}, dtype), dup({67, width}, dtype);
      both.randomize(1);
      auto left = [&](const Array& x) { return slice(x.view(), 1, 0, width); };
      auto right = [&](const Array& x) { return slice(x.view(), 1, width, 2 * width); };
      std::vector<double> gates = values_of(left(both)), ups = values_of(right(both));
      gate.fill_with([&](int64_t i) { return gates[size_t(i)]; });
      up.fill_with([&](int64_t i) { return ups[size_t(i)]; });
      run_kernel(swiglu, left(both), right(both), y.view());
      run_kernel(swiglu, gate.view(), up.view(), want.view());
      EXPECT_EQ(y.values(), want.values());
      run_kernel(
          swiglu_backward,
          {.dy = y.view(), .gate = left(both), .up = right(both), .dgate = left(dboth), .dup = right(dboth)});
      run_kernel(
          swiglu_backward,
          {.dy = y.view(), .gate = gate.view(), .up = up.view(), .dgate = dgate.view(), .dup = dup.view()});
      EXPECT_EQ(values_of(left(dboth)), dgate.values());
      EXPECT_EQ(values_of(right(dboth)), dup.values());
    }
}

TEST(Swiglu, StaysFiniteForLargeGates) {
  Array gate({2}, DType::f32), up({2}, DType::f32), y({2}, DType::f32), dgate({2}, DType::f32),
      dup({2}, DType::f32);
  gate.fill_with([](int64_t i) { return i == 0 ? -1000.0 : 1000.0; });
  up.fill_with([](int64_t) { return 1.0; });
  run_kernel(swiglu, gate.view(), up.view(), y.view());
  run_kernel(
      swiglu_backward,
      {.dy = up.view(), .gate = gate.view(), .up = up.view(), .dgate = dgate.view(), .dup = dup.view()});
  expect_near(y.values(), {0, 1000}, 0, "y");
  expect_near(dgate.values(), {0, 1}, 0, "dgate");
}

TEST(Swiglu, IsExactAcrossThreadCounts) {
  expect_same_at_any_thread_count([] {
    Case c({257, 129}, DType::f32, Layout::contiguous);
    c.run();
    return joined(c.y.values(), joined(c.dgate.values(), c.dup.values()));
  });
}

TEST(Swiglu, RefusesViewsThatDoNotFit) {
  Array a({3, 5}, DType::f32), b({5, 3}, DType::f32), half({3, 5}, DType::bf16), whole({3, 5}, DType::i64);
  expect_error([&] { run_kernel(swiglu, a.view(), b.view(), a.view()); },
               "swiglu: shapes differ: (3, 5) and (5, 3)");
  expect_error([&] { run_kernel(swiglu, a.view(), half.view(), a.view()); },
               "swiglu: dtypes differ: f32 and bf16");
  expect_error([&] { run_kernel(swiglu, whole.view(), whole.view(), whole.view()); }, "floating");
}

}  // namespace
}  // namespace reprise::kernels
