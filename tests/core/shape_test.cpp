// Shape arithmetic.
#include "reprise/core/shape.h"

#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "reprise/tests/support/errors.h"

namespace reprise {
namespace {

using testing::error_of;
using testing::expect_error;

TEST(Shape, PrintsAsATuple) {
  auto text = [](const Shape& shape) { return (std::ostringstream() << shape).str(); };
  EXPECT_EQ(text({}), "()");
  EXPECT_EQ(text({3}), "(3,)");
  EXPECT_EQ(text({3, 5, 7}), "(3, 5, 7)");
}

TEST(Shape, HoldsEightDimensionsAndNoMore) {
  EXPECT_EQ(Dims::filled(8, 2).size(), 8);
  expect_error([&] { Dims::filled(9, 2); }, "shape: more than 8 dimensions");
}

TEST(Shape, ComparesSizesAndRank) {
  EXPECT_EQ((Shape{3, 5}), (Shape{3, 5}));
  EXPECT_NE((Shape{3, 5}), (Shape{3, 5, 1}));
  EXPECT_NE((Shape{3, 5}), (Shape{5, 3}));
}

TEST(Numel, MultipliesTheDimensions) {
  EXPECT_EQ(numel_of({}), 1);
  EXPECT_EQ(numel_of({3, 5, 7}), 105);
  EXPECT_EQ(numel_of({3, 0, 7}), 0);
  EXPECT_EQ(numel_of({65536, 65536}), int64_t(1) << 32);
}

TEST(Numel, RefusesNegativeSizesAndOverflow) {
  int64_t large = int64_t(1) << 32;
  EXPECT_EQ(error_of([&] { numel_of({3, -1}); }), "shape: negative size in (3, -1)");
  EXPECT_EQ(error_of([&] {
              numel_of({large, large});
            }),
            "shape: too many elements in (4294967296, 4294967296)");
  EXPECT_EQ(numel_of({large, 0, 3}), 0);
  expect_error(
      [&] {
        numel_of({large, large, 0});
      },
      "shape: too many elements in (4294967296, 4294967296, 0)");
  EXPECT_EQ(numel_of({max_elements}), max_elements);
  EXPECT_EQ(error_of([] {
              numel_of({max_elements, 2}, "expand");
            }).substr(0, 27),
            "expand: too many elements i");
}

TEST(ContiguousStrides, AreRowMajor) {
  EXPECT_EQ(contiguous_strides({}), Strides{});
  EXPECT_EQ(contiguous_strides({3, 5, 7}), (Strides{35, 7, 1}));
  EXPECT_EQ(contiguous_strides({3, 0, 7}), (Strides{7, 7, 1}));
}

TEST(BroadcastShapes, FollowsNumPy) {
  EXPECT_EQ(broadcast_shapes({3, 1}, {5}, "add"), (Shape{3, 5}));
  EXPECT_EQ(broadcast_shapes({}, {3, 5}, "add"), (Shape{3, 5}));
  EXPECT_EQ(broadcast_shapes({2, 1, 7}, {5, 1}, "add"), (Shape{2, 5, 7}));
  EXPECT_EQ(broadcast_shapes({1, 3}, {0, 1}, "add"), (Shape{0, 3}));
  EXPECT_EQ(error_of([] {
              broadcast_shapes({3, 5}, {5, 3}, "add");
            }),
            "add: shapes (3, 5) and (5, 3) do not broadcast");
  expect_error([&] { broadcast_shapes({0}, {3}, "add"); }, "add: shapes (0,) and (3,) do not broadcast");
}

TEST(NormalizeDim, CountsFromTheEndToo) {
  EXPECT_EQ(normalize_dim(0, 3, "sum"), 0);
  EXPECT_EQ(normalize_dim(-1, 3, "sum"), 2);
  EXPECT_EQ(normalize_dim(-3, 3, "sum"), 0);
  EXPECT_EQ(error_of([] { normalize_dim(3, 3, "sum"); }), "sum: dimension 3 is outside a tensor of rank 3");
  expect_error([&] { normalize_dim(-4, 3, "sum"); }, "sum: dimension -4 is outside a tensor of rank 3");
  expect_error([&] { normalize_dim(0, 0, "sum"); }, "sum: dimension 0 is outside a tensor of rank 0");
}

TEST(NormalizeDim, DoesNotCutADimensionToThirtyTwoBits) {
  const int64_t wrapped = (int64_t(1) << 32) + 1;
  EXPECT_EQ(error_of([&] { normalize_dim(wrapped, 2, "sum"); }),
            "sum: dimension 4294967297 is outside a tensor of rank 2");
  expect_error([&] { normalize_dim(std::numeric_limits<int64_t>::min(), 2, "sum"); },
               "sum: dimension -9223372036854775808 is outside a tensor of rank 2");
}

TEST(DimsMask, RefusesADimensionListedTwice) {
  EXPECT_EQ(dims_mask({}, 3, "sum"), 0u);
  EXPECT_EQ(dims_mask({0, -1}, 3, "sum"), 5u);
  EXPECT_EQ(error_of([] { dims_mask({1, -2}, 3, "sum"); }), "sum: dimension 1 twice in (1, -2)");
}

TEST(ResolveShape, FillsInOneSize) {
  EXPECT_EQ(resolve_shape({4, 6}, {-1, 3}, "reshape"), (Shape{8, 3}));
  EXPECT_EQ(resolve_shape({0, 6}, {-1, 3}, "reshape"), (Shape{0, 3}));
  const int64_t large = int64_t(1) << 40;
  EXPECT_EQ(error_of([&] {
              resolve_shape({4, 6}, {large, large, -1}, "reshape");
            }),
            "reshape: too many elements in (1099511627776, 1099511627776, 1)");
  expect_error([&] { resolve_shape({6}, {-2, -3, -1}, "reshape"); }, "reshape: negative size in (-2, -3, 1)");
  expect_error([&] { resolve_shape({0, 6}, {-1, 0}, "reshape"); }, "reshape: (0, 6) does not fit (-1, 0)");
}

}  // namespace
}  // namespace reprise
