// Averages of many tensors against their formula in f64, and against the two operations that they stand for.
#include "reprise/kernels/optimizer/lerp.h"

#include <bit>
#include <deque>

#include "reprise/kernels/elementwise/elementwise.h"
#include "reprise/kernels/optimizer/rounding.h"
#include "reprise/tests/kernels/row_views.h"

namespace reprise::kernels {
namespace {

using namespace testing;

const std::vector<Shape> kShapes = {{}, {7}, {3, 5}, {0}, {2, 3, 5, 7}, {129}, {5, kOptimizerPiece - 705}};

struct Pair {
  Array average, value;

  Pair(const Shape& shape, DType dtype, Layout layout, uint64_t seed)
      : average(shape, dtype, layout), value(shape, dtype) {
    average.randomize(seed);
    value.randomize(seed + 100);
  }
};

std::deque<Pair> pairs(DType dtype) {
  std::deque<Pair> all;
  for (const Shape& shape : kShapes)
    for (Layout layout : {Layout::offset, Layout::contiguous})
      all.emplace_back(shape, dtype, layout, all.size());
  return all;
}

std::vector<LerpTensor> tensors_of(const std::deque<Pair>& all) {
  std::vector<LerpTensor> tensors;
  for (const Pair& pair : all) tensors.push_back({pair.average.view(), pair.value.view()});
  return tensors;
}

TEST(Lerp, MatchesItsFormulaForEveryFloatingDtypeInOneCall) {
  constexpr double decay = 0.7;
  constexpr DType dtypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16};
  std::deque<Pair> all;
  for (DType dtype : dtypes)
    for (const Shape& shape : kShapes)
      for (Layout layout : {Layout::offset, Layout::contiguous})
        all.emplace_back(shape, dtype, layout, all.size());
  std::vector<std::vector<double>> want;
  for (Pair& pair : all) {
    std::vector<double> average = pair.average.values(), value = pair.value.values();
    for (size_t i = 0; i < average.size(); ++i) average[i] = decay * average[i] + (1 - decay) * value[i];
    want.push_back(average);
  }
  run_kernel(lerp, tensors_of(all), LerpOptions{.decay = decay});
  for (size_t i = 0; i < all.size(); ++i) {
    // Numbers below 4: a product and a sum are rounded, and halves have few digits.
    const DType dtype = all[i].average.view().dtype;
    expect_near(all[i].average.values(), want[i], 4 * epsilon_of(dtype), "average " + std::to_string(i));
    EXPECT_TRUE(all[i].average.surroundings_untouched()) << i;
  }
}

// mul_ and add_ of Tensor, one after the other. In f64 those round the second product too.
TEST(Lerp, HasTheBitsOfAProductAndASum) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    std::deque<Pair> fused = pairs(dtype), apart = pairs(dtype);
    run_kernel(lerp, tensors_of(fused), LerpOptions{.decay = 0.999});
    for (size_t i = 0; i < apart.size(); ++i) {
      if (apart[i].average.view().numel() == 0) continue;
      run_kernel(affine, apart[i].average.view(), 0.999, -0.0, apart[i].average.view());
      run_kernel(add_scaled, apart[i].value.view(), 1 - 0.999, apart[i].average.view());
      if (reprise::testing::test_device().is_cpu())
        EXPECT_EQ(fused[i].average.values(), apart[i].average.values()) << i;
      else  // there the compiler chooses whether add_scaled rounds its product
        expect_near(fused[i].average.values(), apart[i].average.values(), 4 * epsilon_of(dtype), "average");
    }
  }
}

// A value of 16 bits, and one whose lower half lies beside it, have the bits of the f32 that they are.
TEST(Lerp, WidensValuesOf16Bits) {
  for (const Shape& shape : kShapes) {
    Array halves(shape, DType::bf16), wide(shape, DType::f32), widened(shape, DType::f32);
    halves.randomize(3), wide.randomize(4);
    const std::vector<double> numbers = wide.values(), rounded = halves.values();
    widened.fill_with([&](int64_t i) { return rounded[size_t(i)]; });
    Shape bytes = shape;
    bytes.push_back(2);
    Array upper(shape, DType::bf16), rest(bytes, DType::u8);
    std::vector<double> uppers, lower;
    for (double number : numbers) {
      const SplitFloat split_number = split(std::bit_cast<uint32_t>(float(number)));
      uppers.push_back(std::bit_cast<float>(uint32_t(split_number.upper) << 16));
      for (int byte = 0; byte < 2; ++byte) lower.push_back(uint16_t(split_number.rest) >> (8 * byte) & 0xff);
    }
    upper.fill_with([&](int64_t i) { return uppers[size_t(i)]; });
    rest.fill_with([&](int64_t i) { return lower[size_t(i)]; });
    std::deque<Array> averages;
    for (int i = 0; i < 4; ++i) averages.emplace_back(shape, DType::f32).randomize(9);
    run_kernel(lerp,
               std::vector<LerpTensor>{{averages[0].view(), halves.view()},
                                       {averages[1].view(), widened.view()},
                                       {averages[2].view(), upper.view(), rest.view()},
                                       {averages[3].view(), wide.view()}},
               LerpOptions{.decay = 0.9});
    EXPECT_EQ(averages[0].values(), averages[1].values());
    EXPECT_EQ(averages[2].values(), averages[3].values());
  }
}

TEST(Lerp, ChangesNothingWhereItIsToSkip) {
  for (int32_t skip : {0, 3}) {
    Array average({300}, DType::f32), value({300}, DType::f32), count({2}, DType::i64), now({2}, DType::i64);
    Array number({}, DType::i32);
    number.fill_with([&](int64_t) { return double(skip); });
    average.randomize(1), value.randomize(2), now.fill_with([](int64_t) { return 7.0; });
    count.fill_with([](int64_t) { return 5.0; });
    const std::vector<double> before = average.values();
    run_kernel(lerp, std::vector<LerpTensor>{{average.view(), value.view()}, {count.view(), now.view()}},
               LerpOptions{.decay = 0.5, .skip = number.view()});
    EXPECT_EQ(average.values() == before, skip != 0);
    EXPECT_EQ(count.values(), std::vector<double>(2, skip ? 5 : 7));
  }
}

TEST(Lerp, CopiesWhatIsNotFloating) {
  Array average({5}, DType::i64), value({5}, DType::i64), mean({3}, DType::f32), now({3}, DType::f32);
  value.fill_with([](int64_t i) { return double(i * i); });
  average.fill_with([](int64_t) { return 1.0; });
  mean.fill_with([](int64_t) { return 1.0; });
  now.fill_with([](int64_t) { return 3.0; });
  run_kernel(lerp, std::vector<LerpTensor>{{average.view(), value.view()}, {mean.view(), now.view()}},
             LerpOptions{.decay = 0.5});
  EXPECT_EQ(average.values(), value.values());
  EXPECT_EQ(mean.values(), std::vector<double>(3, 2));
}

TEST(Lerp, RefusesWhatDoesNotFit) {
  Array a({3}, DType::f32), b({4}, DType::f32), c({3}, DType::f64), columns({3, 4}, DType::f32);
  auto refuses = [](const LerpTensor& tensor, double decay, const char* message) {
    expect_error([&] { run_kernel(lerp, std::vector<LerpTensor>{tensor}, LerpOptions{.decay = decay}); },
                 message);
  };
  refuses({a.view(), b.view()}, 0.5, "lerp: average 0 is f32(3,), its value f32(4,)");
  refuses({a.view(), c.view()}, 0.5, "lerp: average 0 is f32(3,), its value f64(3,)");
  refuses({a.view(), a.view()}, 1.5, "lerp: decay is 1.5");
  Array half({3}, DType::bf16), rest({3, 2}, DType::u8), other({3}, DType::f16);
  refuses({half.view(), a.view()}, 0.5, "lerp: average 0 is bf16(3,), its value f32(3,)");
  refuses({a.view(), other.view(), rest.view()}, 0.5, "lerp: remainder 0 is u8(3, 2), needs u8(3, 2)");
  refuses({a.view(), half.view(), half.view()}, 0.5, "lerp: remainder 0 is bf16(3,), needs u8(3, 2)");
  TensorView turned = transpose(columns.view(), 0, 1);
  refuses({turned, turned}, 0.5, "lerp: average 0 (4, 3) is not contiguous");
}

}  // namespace
}  // namespace reprise::kernels
