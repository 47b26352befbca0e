// Statistics of 16 bits, which are made of several operations, and comparisons beside f32 read their arguments where they lie.
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/engine.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/reduce/similarity.h"
#include "reprise/autograd/ops/reduce/var.h"
#include "reprise/autograd/recompute/checkpoint.h"
#include "reprise/tests/nn/autocast/casts.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::CountCasts;
using testing::same_bits;
using testing::test_device;

constexpr DType f32 = DType::f32, bf16 = DType::bf16, f16 = DType::f16;
constexpr DType kHalves[] = {bf16, f16};

enum class Layout { contiguous, permuted, every_second };
constexpr Layout kLayouts[] = {Layout::contiguous, Layout::permuted, Layout::every_second};

// Numbers uniform in [-2, 2), a leaf that requires grad.
Tensor numbers(Shape shape, DType dtype, Layout layout) {
  NoGrad guard;
  Generator generator(1);
  if (layout == Layout::every_second) shape[shape.size() - 1] *= 2;
  Tensor x = (rand(shape, f32, Device::cpu(), &generator) * 4.0 - 2.0).to(dtype).to(test_device());
  if (layout == Layout::permuted) x = x.transpose(0, 1).contiguous().transpose(0, 1);
  if (layout == Layout::every_second) x = x.slice(-1, 0, shape.back(), 2);
  return x.detach().set_requires_grad();
}

TEST(SixteenBitComparisons, ReadF32AndSixteenBitsAsTheyLie) {
  const std::vector<Tensor (*)(const Tensor&, const Tensor&)> comparisons = {
      equal, not_equal, less, less_equal, greater, greater_equal};
  for (DType half : kHalves)
    for (auto* compare : comparisons)
      for (bool in_a_scope : {false, true}) {
        const Tensor x = Tensor::from<float>({1, 2, 3, NAN, 5}, {5}, test_device()).to(half),
                     y = Tensor::from<float>({1, 2.0001f, 2.9999f, 4, NAN}, {5}, test_device());
        const Tensor want = compare(x.to(f32), y), turned = compare(y, x.to(f32));
        CountCasts count;
        amp::Autocast scope(test_device(), half, {.enabled = in_a_scope});
        EXPECT_TRUE(same_bits(compare(x, y), want)) << half;
        EXPECT_TRUE(same_bits(compare(y, x), turned)) << half;
        EXPECT_EQ(count.casts, 0);
      }
}

struct Statistic {
  const char* name;
  Tensor (*f)(const Tensor&);
  double made, kept;  ///< f32 tensors of the size of x, beside 16-bit results
  bool widens = false;
};
const Statistic kStatistics[] = {
    {"mean", [](const Tensor& x) { return mean(x, {-1}); }, 0, 0},
    {"mean of all", [](const Tensor& x) { return mean(x); }, 0, 0},
    {"variance", [](const Tensor& x) { return variance(x, {0}); }, 2, 1},
    {"var", [](const Tensor& x) { return var(x, {-1}); }, 2, 1},
    {"stddev", [](const Tensor& x) { return stddev(x, {-1}); }, 2, 1},
    {"normalize", [](const Tensor& x) { return normalize(x, -1); }, 1, 0, true},
    {"normalize of order 1", [](const Tensor& x) { return normalize(x, -1, 1); }, 4, 3, true},
};

Tensor beside_repeated(const Tensor& x) {
  const Tensor others = numbers({3, 5, 13, 37}, f32, Layout::contiguous).detach();
  return cosine_similarity(x, others, -1);
}

// What is made of several operations, which give x several gradients: they are added in f32.
TEST(SixteenBitStatistics, HaveTheBitsOfCastAndOp) {
  std::vector<Statistic> all(std::begin(kStatistics), std::end(kStatistics));
  all.push_back({"cosine_similarity of one that is repeated", beside_repeated, 0, 0, true});
  for (const Statistic& op : all)
    for (DType half : kHalves)
      for (Layout layout : kLayouts)
        for (bool in_a_scope : {false, true}) {
          SCOPED_TRACE(detail::join(op.name, " of ", half, ", layout ", int(layout)));
          auto run_from = [&](const Tensor& x, auto&& f) {
            amp::Autocast scope(test_device(), half, {.enabled = in_a_scope});
            const Tensor y = f(x);
            Generator generator(7);
            const Tensor dy =
                randn(y.shape(), f32, Device::cpu(), &generator).to(test_device()).to(y.dtype());
            return std::pair(y.detach(), grad({y}, {x}, {dy})[0]);
          };
          const Tensor x = numbers({5, 13, 37}, half, layout);
          const auto [y, dx] = run_from(x, op.f);
          const auto [want, want_dx] =
              run_from(x, [&](const Tensor& given) { return op.f(given.to(f32)).to(y.dtype()); });
          EXPECT_EQ(y.dtype(), op.widens && (in_a_scope || op.f == beside_repeated) ? f32 : half);
          EXPECT_TRUE(same_bits(y, want));
          EXPECT_EQ(dx.dtype(), half);
          EXPECT_TRUE(same_bits(dx.contiguous(), want_dx.contiguous()));
        }
}

TEST(SixteenBitStatistics, RecomputeKeepsEveryBit) {
  for (const Statistic& op : kStatistics)
    for (DType half : kHalves)
      for (bool in_a_scope : {false, true}) {
        auto run_in = [&](std::optional<CheckpointMode> mode) {
          const Tensor x = numbers({5, 13, 37}, half, Layout::contiguous);
          amp::Autocast scope(test_device(), half, {.enabled = in_a_scope});
          auto body = [&](const Tensor& in) { return op.f(in * 1.5); };
          const Tensor y = mode ? checkpoint(body, x, {.mode = *mode}) : body(x);
          y.backward(full(y.shape(), 0.3, y.dtype(), test_device()));
          return std::pair(y.detach(), x.grad());
        };
        const auto [want, want_dx] = run_in({});
        for (CheckpointMode mode : {CheckpointMode::non_reentrant, CheckpointMode::reentrant}) {
          SCOPED_TRACE(detail::join(op.name, " of ", half, ", mode ", int(mode)));
          const auto [y, dx] = run_in(mode);
          EXPECT_TRUE(same_bits(y, want));
          EXPECT_TRUE(same_bits(dx, want_dx));
        }
      }
}

TEST(SixteenBitStatistics, MakeNoCopy) {
  Allocator& memory = allocator(test_device());
  const Tensor x = numbers({301, 136}, bf16, Layout::contiguous);
  for (const Statistic& op : kStatistics) {
    const double copy = double(x.numel()) * 4, little = 16384;
    const size_t before = memory.stats().held;
    memory.reset_peaks();
    const Tensor y = op.f(x);
    const double result = double(y.numel()) * 2;
    EXPECT_LT(double(memory.stats().peak_held - before), op.made * copy + result + little) << op.name;
    EXPECT_LT(double(memory.stats().held - before), op.kept * copy + result + little) << op.name;
  }
}

// One that stands beside many: no copy of it in f32 is made, however it is repeated.
TEST(SixteenBitStatistics, CosineSimilarityCopiesNothingThatItRepeats) {
  const Tensor x = numbers({1, 136, 301}, bf16, Layout::contiguous),
               others = numbers({3, 136, 1}, bf16, Layout::contiguous);
  for (bool in_a_scope : {false, true}) {
    amp::Autocast scope(test_device(), bf16, {.enabled = in_a_scope});
    CountCasts count;
    const Tensor y = cosine_similarity(x, others, 1);
    EXPECT_EQ(count.casts, in_a_scope ? 0 : 1) << "of the result alone";
  }
}

}  // namespace
}  // namespace reprise
