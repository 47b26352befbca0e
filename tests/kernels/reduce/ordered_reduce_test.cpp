// Sums of several ranges in the order of a binary tree, to the bit, against the tree's definition; and what is refused.
#include "reprise/kernels/reduce/ordered_reduce.h"

#include <cstring>
#include <deque>

#include "reprise/core/hash.h"
#include "reprise/tests/kernels/views.h"

namespace reprise::kernels {
namespace {

using namespace testing;

// A binary counter of `leaves` pushes; what is left over is folded from the right.
std::vector<TreeStep> steps_of(int leaves) {
  std::vector<TreeStep> steps;
  int depth = 0;
  auto add = [&] {
    steps.push_back({TreeStep::Kind::add});
    --depth;
  };
  for (int leaf = 0; leaf < leaves; ++leaf) {
    steps.push_back({TreeStep::Kind::push, leaf});
    ++depth;
    for (int bits = leaf; bits & 1; bits /= 2) add();
  }
  while (depth > 1) add();
  return steps;
}

// Of any sign and of sizes far apart, so that each other order rounds otherwise.
template <class T>
T element(int leaf, int64_t i) {
  const uint64_t random = mix(uint64_t(leaf) + 77, uint64_t(i));
  if constexpr (std::is_integral_v<T>)
    return T(random);
  else
    return T((float(random % 2048) - 1024) * (1.0f / 1024) * float(1 << (random >> 32) % 9));
}

template <class T>
T pair_of(T a, T b, ReduceOp op) {
  if constexpr (!std::is_integral_v<T>) {
    if (float(a) != float(a)) return a;
    if (float(b) != float(b)) return b;
  }
  if (op == ReduceOp::min) return b < a ? b : a;
  if (op == ReduceOp::max) return a < b ? b : a;
  if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, int32_t>)
    return T(uint64_t(a) + uint64_t(b));
  else if constexpr (std::is_same_v<T, double> || std::is_same_v<T, uint8_t>)
    return T(a + b);
  else
    return T(float(a) + float(b));
}

// The left child has the largest power of two of leaves that leaves some to the right.
template <class T>
T tree(const std::vector<T>& leaves, size_t begin, size_t end, ReduceOp op) {
  if (end - begin == 1) return leaves[begin];
  size_t left = 1;
  while (2 * left < end - begin) left *= 2;
  return pair_of(tree(leaves, begin, begin + left, op), tree(leaves, begin + left, end, op), op);
}

template <class T>
void expect_tree(int leaves, int64_t count, ReduceOp op, int64_t divisor = 1) {
  std::deque<Array> arrays;
  std::vector<TensorView> views;
  for (int leaf = 0; leaf < leaves; ++leaf) {
    arrays.emplace_back(Shape{count}, dtype_of<T>, leaf % 2 ? Layout::offset : Layout::contiguous);
    views.push_back(arrays.back().view());
    for (int64_t i = 0; i < count; ++i) views.back().template as<T>()[i] = element<T>(leaf, i);
  }
  Array out({count}, dtype_of<T>);
  run_kernel(ordered_reduce, views, steps_of(leaves), op, divisor, out.view());
  for (int64_t i = 0; i < count; ++i) {
    std::vector<T> numbers;
    for (int leaf = 0; leaf < leaves; ++leaf) numbers.push_back(element<T>(leaf, i));
    T want = tree(numbers, 0, numbers.size(), op);
    if constexpr (std::is_same_v<T, double>)
      want = T(double(want) / double(divisor));
    else if constexpr (!std::is_integral_v<T>)
      want = T(float(want) / float(divisor));
    const T got = out.view().template as<T>()[i];
    ASSERT_EQ(std::memcmp(&got, &want, sizeof(T)), 0)
        << name_of(dtype_of<T>) << " of " << leaves << ", element " << i << ": got " << double(got)
        << ", want " << double(want);
  }
}

TEST(OrderedReduce, AddsInTheOrderOfTheTree) {
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8})
    dispatch_all(dtype, [&]<class T>() {
      if constexpr (!std::is_same_v<T, bool>)
        for (int leaves : {1, 2, 3, 5, 8, 13})
          for (ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max}) expect_tree<T>(leaves, 67, op);
    });
}

TEST(OrderedReduce, TakesSizesOnBothSidesOfABlock) {
  for (int64_t count : {0, 1, 255, 256, 257, 1024, 1025, 2049}) expect_tree<float>(3, count, ReduceOp::sum);
}

TEST(OrderedReduce, DividesForAMean) {
  expect_tree<double>(6, 35, ReduceOp::sum, 6);
  expect_tree<float>(6, 35, ReduceOp::sum, 6);
  expect_tree<BFloat16>(6, 35, ReduceOp::sum, 6);
  expect_tree<Float16>(6, 35, ReduceOp::sum, 6);
}

TEST(OrderedReduce, OneRankPerGpuOfALargeMachine) {
  expect_tree<float>(256, 33, ReduceOp::sum);
  expect_tree<float>(513, 3, ReduceOp::sum);
}

TEST(OrderedReduce, NanWinsOverMinAndMax) {
  for (ReduceOp op : {ReduceOp::min, ReduceOp::max})
    for (int place = 0; place < 3; ++place) {
      std::deque<Array> arrays;
      std::vector<TensorView> views;
      for (int leaf = 0; leaf < 3; ++leaf) {
        arrays.emplace_back(Shape{1}, DType::f32, Layout::contiguous);
        views.push_back(arrays.back().view());
        *views.back().as<float>() = leaf == place ? std::nanf("") : float(leaf);
      }
      Array out({1}, DType::f32);
      run_kernel(ordered_reduce, views, steps_of(3), op, 1, out.view());
      EXPECT_TRUE(std::isnan(*out.view().as<float>())) << place;
    }
}

TEST(OrderedReduce, OutMayBeASource) {
  Array a({300}, DType::f32), b({300}, DType::f32);
  std::vector<float> want;
  for (int64_t i = 0; i < 300; ++i) {
    a.view().as<float>()[i] = element<float>(0, i);
    b.view().as<float>()[i] = element<float>(1, i);
    want.push_back(element<float>(0, i) + element<float>(1, i));
  }
  run_kernel(ordered_reduce, std::vector{a.view(), b.view()}, steps_of(2), ReduceOp::sum, 1, b.view());
  for (int64_t i = 0; i < 300; ++i) EXPECT_EQ(b.view().as<float>()[i], want[size_t(i)]) << i;
}

TEST(OrderedReduce, RefusesWhatIsNoTree) {
  Array a({3}, DType::f32), b({3}, DType::f32), other({4}, DType::f32), out({3}, DType::f32);
  Array flags({3}, DType::boolean), ints({3}, DType::i32);
  const std::vector<TensorView> two{a.view(), b.view()};
  auto refused = [&](const std::vector<TensorView>& sources, const std::vector<TreeStep>& steps,
                     const TensorView& to, int64_t divisor = 1) {
    return error_of(ordered_reduce, sources, steps, ReduceOp::sum, divisor, to);
  };
  using Kind = TreeStep::Kind;
  EXPECT_NE(refused(two, {{Kind::push, 1}}, out.view()).find("step 0 of 1 pushes no next source"),
            std::string::npos);
  EXPECT_NE(refused(two, {{Kind::push, 0}, {Kind::add}}, out.view()).find("combines less than two"),
            std::string::npos);
  EXPECT_NE(refused(two, {{Kind::push, 0}, {Kind::push, 1}}, out.view()).find("leave 2 results"),
            std::string::npos);
  EXPECT_NE(refused(two, {{Kind::push, 0}}, out.view()).find("push 1 of 2 sources"), std::string::npos);
  EXPECT_NE(refused({a.view(), other.view()}, steps_of(2), out.view()).find("(4,)"), std::string::npos);
  EXPECT_NE(refused({ints.view()}, steps_of(1), ints.view(), 2).find("the divisor is 2"), std::string::npos);
  EXPECT_NE(refused({flags.view()}, steps_of(1), flags.view()).find("bool has no sums"), std::string::npos);
}

}  // namespace
}  // namespace reprise::kernels
