// A parameter in two halves of 16 bits is the f32 master copy, bit for bit.
// slow in tsan
#include <bit>
#include <cmath>
#include <cstring>

#include "reprise/kernels/optimizer/optimizer_step.h"
#include "reprise/kernels/optimizer/rounding.h"
#include "reprise/tests/kernels/row_views.h"

namespace reprise::kernels {
namespace {

using namespace testing;

TEST(Split, BringsEveryRestBack) {
  for (uint32_t upper : {0x3f80u, 0xc000u, 0x0001u, 0x8001u, 0x7f7fu, 0x42f7u})
    for (int rest = -0x8000; rest <= 0x7fff; ++rest) {
      const uint32_t bits = joined({uint16_t(upper), int16_t(rest)});
      ASSERT_EQ(bits, (upper << 16) + uint32_t(rest));
      const SplitFloat halves = split(bits);
      ASSERT_EQ(halves.upper, upper) << rest;
      ASSERT_EQ(halves.rest, rest) << upper;
    }
}

TEST(Split, RoundsHalfUpAndKeepsZerosInfinitiesAndNans) {
  EXPECT_EQ(split(0x3f808000).upper, 0x3f81) << "a tie, whose rest is the least";
  EXPECT_EQ(split(0x3f808000).rest, -0x8000);
  EXPECT_EQ(split(0x3f807fff).upper, 0x3f80);
  for (uint32_t bits : {0u, 0x80000000u, 0x7f800000u, 0xff800000u, 0x7f7fffffu, 0x00000001u, 0x80008000u})
    EXPECT_EQ(joined(split(bits)), bits) << std::hex << bits;
  for (uint32_t nan : {0x7fffffffu, 0xffffffffu, 0x7f800001u}) {
    EXPECT_TRUE(std::isnan(std::bit_cast<float>(joined(split(nan))))) << std::hex << nan;
    EXPECT_TRUE(std::isnan(std::bit_cast<float>(uint32_t(split(nan).upper) << 16)));
  }
  EXPECT_EQ(joined({0x8000, -1}), 0x80000000u) << "a zero that was written over another number";
}

template <class T>
T bits_at(const Array& array, int64_t i) {
  T bits;
  std::memcpy(&bits, static_cast<const T*>(array.view().data) + i, sizeof(T));
  return bits;
}

// The same parameter as an f32, and in two halves.
struct Twins {
  Array master, gradient, first, second, upper, remainder, first_of_split, second_of_split;

  Twins(const Shape& shape, DType of_gradient, Layout layout)
      : master(shape, DType::f32),
        gradient(shape, of_gradient, layout),
        first(shape, DType::f32),
        second(shape, DType::f32),
        upper(shape, DType::bf16, layout),
        remainder(bytes_of(shape), DType::u8),
        first_of_split(shape, DType::f32),
        second_of_split(shape, DType::f32) {
    upper.randomize(1);
    const std::vector<double> values = upper.values();
    master.fill_with([&](int64_t i) { return values[size_t(i)]; });
    for (Array* zero : {&first, &second, &first_of_split, &second_of_split, &remainder})
      zero->fill_with([](int64_t) { return 0.0; });
  }
  static Shape bytes_of(Shape shape) {
    shape.push_back(2);
    return shape;
  }
  void step(int64_t count) {
    gradient.randomize(uint64_t(count));
    std::vector<AdamWTensor> whole = {
        {master.view(), gradient.view(), first.view(), second.view(), 1e-4, 0.1}};
    std::vector<AdamWTensor> halves = {
        {upper.view(), gradient.view(), first_of_split.view(), second_of_split.view(), 1e-4, 0.1}};
    halves[0].remainder = remainder.view();
    run_kernel(adamw, whole, AdamWOptions{.step = count, .gradient_scale = 0.5});
    run_kernel(adamw, halves, AdamWOptions{.step = count, .gradient_scale = 0.5});
  }
  void compare(int64_t count) const {
    for (int64_t i = 0; i < master.view().numel(); ++i) {
      const uint32_t want = bits_at<uint32_t>(master, i);
      const uint16_t high = bits_at<uint16_t>(upper, i);
      const uint32_t low = bits_at<uint8_t>(remainder, 2 * i) + 256u * bits_at<uint8_t>(remainder, 2 * i + 1);
      ASSERT_EQ((uint32_t(high) << 16) + uint32_t(int32_t(int16_t(low))), want) << i << " after " << count;
      ASSERT_EQ(high, (want + 0x8000) >> 16) << "rounded half up";
    }
    EXPECT_EQ(first_of_split.values(), first.values());
    EXPECT_EQ(second_of_split.values(), second.values());
    EXPECT_TRUE(upper.surroundings_untouched() && remainder.surroundings_untouched());
  }
};

TEST(Split, IsTheF32Master) {
  for (DType of_gradient : {DType::f32, DType::bf16})
    for (Layout layout : {Layout::contiguous, Layout::offset}) {
      // A thousand once: the emulator takes its time for a launch.
      const bool is_long = of_gradient == DType::bf16 && layout == Layout::contiguous;
      const int64_t updates = is_long ? 1000 : 20;
      Twins twins({3, 7}, of_gradient, layout);
      for (int64_t count = 1; count <= updates; ++count) twins.step(count);
      twins.compare(updates);
    }
  Twins several_pieces({5, kOptimizerPiece - 705}, DType::f32, Layout::contiguous);
  for (int64_t count = 1; count <= 3; ++count) several_pieces.step(count);
  several_pieces.compare(3);
}

// The first moments stand for velocities.
TEST(Split, IsTheF32MasterOfSgd) {
  for (const Shape& shape : {Shape{3, 7}, Shape{5, kOptimizerPiece - 705}})
    for (DType of_gradient : {DType::f32, DType::bf16})
      for (const double momentum : {0.0, 0.9}) {
        Twins twins(shape, of_gradient, Layout::contiguous);
        for (int64_t count = 1; count <= 5; ++count) {
          twins.gradient.randomize(uint64_t(count));
          auto velocity = [&](const Array& of) { return momentum > 0 ? of.view() : TensorView(); };
          std::vector<SgdTensor> whole = {
              {twins.master.view(), twins.gradient.view(), velocity(twins.first), 1e-4, 0.1}};
          std::vector<SgdTensor> halves = {
              {twins.upper.view(), twins.gradient.view(), velocity(twins.first_of_split), 1e-4, 0.1}};
          halves[0].remainder = twins.remainder.view();
          const SgdOptions options{.momentum = momentum, .nesterov = true, .gradient_scale = 0.5};
          run_kernel(sgd, whole, options);
          run_kernel(sgd, halves, options);
        }
        twins.compare(5);
      }
}

TEST(Split, RefusesARemainderThatDoesNotFit) {
  Twins twins({3, 5}, DType::f32, Layout::contiguous);
  Array wide({3, 5, 2}, DType::i32), flat({3, 5}, DType::u8);
  auto error = [&](const TensorView& parameter, const Array& remainder) {
    std::vector<AdamWTensor> tensors = {
        {parameter, twins.gradient.view(), twins.first.view(), twins.second.view(), 0, 0}};
    tensors[0].remainder = remainder.view();
    return error_of(adamw, tensors, AdamWOptions{});
  };
  EXPECT_NE(error(twins.upper.view(), wide).find("remainder 0 is i32"), std::string::npos);
  EXPECT_NE(error(twins.upper.view(), flat).find("needs u8(3, 5, 2)"), std::string::npos);
  EXPECT_NE(error(twins.master.view(), twins.remainder).find("its parameter is f32"), std::string::npos);
  std::vector<SgdTensor> tensors = {{twins.upper.view(), twins.gradient.view(), twins.first.view(), 0, 0}};
  tensors[0].remainder = flat.view();
  EXPECT_NE(error_of(sgd, tensors, SgdOptions{}).find("sgd: remainder 0 is u8(3, 5)"), std::string::npos);
}

}  // namespace
}  // namespace reprise::kernels
