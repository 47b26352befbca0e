// View arithmetic, by reading the elements: memory holds its own index, so a view's elements tell where it
// looks.
#include "reprise/core/view.h"
#include "reprise/core/tensor.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <vector>

#include "reprise/tests/support/errors.h"

namespace reprise {
namespace {

using testing::expect_error;

class Views : public ::testing::Test {
 protected:
  Views() : memory_(4096) { std::iota(memory_.begin(), memory_.end(), 0); }

  TensorView view(const Shape& shape) {
    TensorView out;
    out.data = memory_.data();
    out.shape = shape;
    out.strides = contiguous_strides(shape);
    out.dtype = DType::i32;
    return out;
  }

  std::vector<int32_t> memory_;
};

/// The elements in row-major order.
std::vector<int32_t> read(const TensorView& x) {
  std::vector<int32_t> out;
  for (int64_t i = 0; i < x.numel(); ++i) {
    int64_t rest = i, offset = 0;
    for (int dim = x.rank() - 1; dim >= 0; --dim) {
      offset += rest % x.shape[dim] * x.strides[dim];
      rest /= x.shape[dim];
    }
    out.push_back(x.as<int32_t>()[offset]);
  }
  return out;
}

TEST_F(Views, TransposeSwapsTwoDimensions) {
  TensorView y = transpose(view({2, 3}), 0, -1);
  EXPECT_EQ(y.shape, (Shape{3, 2}));
  EXPECT_EQ(read(y), (std::vector<int32_t>{0, 3, 1, 4, 2, 5}));
  EXPECT_FALSE(y.is_contiguous());
  expect_error([&] { transpose(y, 0, 2); }, "transpose: dimension 2 is outside a tensor of rank 2");
}

TEST_F(Views, SliceTakesARangeWithAStep) {
  EXPECT_EQ(read(slice(view({7}), 0, 1, 6, 2)), (std::vector<int32_t>{1, 3, 5}));
  EXPECT_EQ(read(slice(view({7}), 0, 1, 7, 3)), (std::vector<int32_t>{1, 4}));
  EXPECT_EQ(read(slice(view({2, 3}), -1, -2, 3)), (std::vector<int32_t>{1, 2, 4, 5}));
  EXPECT_EQ(slice(view({7}), 0, 7, 7).shape, (Shape{0}));
  expect_error([&] { slice(view({7}), 0, 2, 8); }, "slice: [2, 8) step 1 is outside dimension 0 of (7,)");
  expect_error([&] { slice(view({7}), 0, 4, 2); }, "slice: [4, 2) step 1");
  expect_error([&] { slice(view({7}), 0, 0, 7, 0); }, "slice: [0, 7) step 0");
}

TEST_F(Views, SliceCountsANegativeBoundFromTheEndOnceAndRefusesOneBeforeTheBeginning) {
  EXPECT_EQ(read(slice(view({7}), 0, -7, -5)), (std::vector<int32_t>{0, 1}));
  expect_error([&] { slice(view({7}), 0, -8, 7); }, "slice: [-8, 7) step 1");
  expect_error([&] { slice(view({7}), 0, -12, 7); }, "slice: [-12, 7) step 1");
  const int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  expect_error([&] { slice(view({7}), 0, least, 7); }, "slice: [-9223372036854775808, 7) step 1");
  expect_error([&] { slice(view({7}), 0, 0, most); }, "slice: [0, 9223372036854775807) step 1");
  EXPECT_EQ(read(slice(view({7}), 0, 0, 7, most)), (std::vector<int32_t>{0}));
}

TEST_F(Views, SelectDropsADimension) {
  EXPECT_EQ(read(select(view({2, 3, 2}), 1, -1)), (std::vector<int32_t>{4, 5, 10, 11}));
  EXPECT_EQ(select(view({7}), 0, 3).shape, Shape{});
  EXPECT_EQ(read(select(view({7}), 0, 3)), (std::vector<int32_t>{3}));
  expect_error([&] { select(view({7}), 0, 7); }, "select: index 7 is outside dimension 0 of (7,)");
  expect_error([&] { select(view({7}), 0, -8); }, "select: index -8 is outside dimension 0");
}

TEST_F(Views, ExpandRepeatsWithoutMemory) {
  TensorView y = expand(view({3, 1}), {2, 3, 2});
  EXPECT_EQ(y.strides, (Strides{0, 1, 0}));
  EXPECT_EQ(read(y), (std::vector<int32_t>{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}));
  expect_error([&] { expand(view({3}), {2}); }, "(3,) does not broadcast to (2,)");
  expect_error([&] { expand(view({3, 1}), {3}); }, "(3, 1) has more dimensions than (3,)");
}

TEST_F(Views, PermuteReordersDimensions) {
  TensorView y = permute(view({2, 3, 2}), {2, 0, 1});
  EXPECT_EQ(y.shape, (Shape{2, 2, 3}));
  EXPECT_EQ(read(y), (std::vector<int32_t>{0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11}));
  expect_error([&] { permute(view({2, 3}), {0, 0}); }, "permute: dimension 0 twice in (0, 0)");
  expect_error([&] { permute(view({2, 3}), {0}); }, "permute: order (0,) for a tensor of rank 2");
}

TEST_F(Views, ContiguityIgnoresDimensionsOfSizeOne) {
  TensorView x = view({3, 1, 5});
  x.strides[1] = 77;
  EXPECT_TRUE(x.is_contiguous());
  x.strides[2] = 2;
  EXPECT_FALSE(x.is_contiguous());
  EXPECT_TRUE(view({}).is_contiguous());
  EXPECT_TRUE(transpose(view({3, 0}), 0, 1).is_contiguous());
}

TEST_F(Views, ReadsItsDataOnlyAsItsDtype) {
  EXPECT_EQ(view({3}).as<int32_t>(), memory_.data());
  expect_error([&] { view({3}).as<float>(); }, "view: holds i32, read as f32");
}

/// All shapes of `numel` elements with up to `rank` dimensions, sizes of 1 among them.
std::vector<Shape> shapes_of(int64_t numel, int rank) {
  std::vector<Shape> shapes;
  if (numel == 1) shapes.push_back({});
  if (rank == 0) return shapes;
  for (int64_t first = 1; first <= numel; ++first) {
    if (numel % first != 0) continue;
    for (const Shape& rest : shapes_of(numel / first, rank - 1)) {
      Shape shape = {first};
      for (int64_t size : rest) shape.push_back(size);
      shapes.push_back(shape);
    }
  }
  return shapes;
}

/// Whether some strides let `shape` read x's elements in x's order: found by trying, for each dimension, the
/// distance between the elements that the first step along it must reach.
bool can_reshape(const TensorView& x, const Shape& shape, const std::vector<int32_t>& elements) {
  Strides strides = contiguous_strides(shape);
  TensorView candidate = x;
  candidate.shape = shape;
  candidate.strides = Dims::filled(shape.size(), 0);
  for (int dim = 0; dim < shape.size(); ++dim)
    if (shape[dim] > 1) candidate.strides[dim] = elements[size_t(strides[dim])] - elements[0];
  return read(candidate) == elements;
}

TEST_F(Views, TryReshapeSucceedsExactlyWhereStridesAllow) {
  std::vector<TensorView> sources = {view({24}),
                                     view({2, 3, 4}),
                                     transpose(view({2, 3, 4}), 0, 1),
                                     transpose(view({2, 3, 4}), 1, 2),
                                     transpose(view({2, 3, 4}), 0, 2),
                                     permute(view({2, 3, 4}), {1, 2, 0}),
                                     slice(view({4, 3, 4}), 0, 0, 4, 2),
                                     slice(view({2, 3, 8}), 2, 0, 8, 2),
                                     slice(view({2, 6, 4}), 1, 1, 4),
                                     slice(view({2, 3, 6}), 2, 1, 5),
                                     expand(view({3, 1}), {2, 3, 4}),
                                     expand(view({4}), {2, 3, 4}),
                                     expand(view({}), {2, 3, 4}),
                                     transpose(view({4, 1, 6}), 0, 2)};
  int reshaped = 0, refused = 0;
  for (const TensorView& x : sources) {
    std::vector<int32_t> elements = read(x);
    for (const Shape& shape : shapes_of(24, 4)) {
      TensorView y;
      bool done = try_reshape(x, shape, y);
      ASSERT_EQ(done, can_reshape(x, shape, elements)) << x.shape << " " << x.strides << " to " << shape;
      (done ? reshaped : refused) += 1;
      if (!done) continue;
      EXPECT_EQ(y.shape, shape);
      EXPECT_EQ(read(y), elements) << x.shape << " " << x.strides << " to " << shape;
    }
  }
  EXPECT_GT(reshaped, 100);
  EXPECT_GT(refused, 100);
}

TEST_F(Views, TryReshapeHandlesEmptyAndScalarViews) {
  TensorView y;
  EXPECT_TRUE(try_reshape(transpose(view({3, 0}), 0, 1), {0, 7}, y));
  EXPECT_EQ(y.shape, (Shape{0, 7}));
  EXPECT_TRUE(try_reshape(view({}), {1, 1}, y));
  EXPECT_EQ(read(y), (std::vector<int32_t>{0}));
  EXPECT_TRUE(try_reshape(slice(view({7, 2}), 0, 3, 4), {2}, y));
  EXPECT_EQ(read(y), (std::vector<int32_t>{6, 7}));
}

TEST(Expand, RefusesNegativeSizes) {
  Tensor x = Tensor::zeros({1, 3});
  expect_error([&] { expand(x.view(), {-1, 3}); }, "negative size in (-1, 3)");
  expect_error([&] { numel_of({0, -3}); }, "shape: negative size in (0, -3)");
}

TEST(Tensor, TooLargeForTheAddressSpaceIsAnError) {
  expect_error([&] { Tensor::empty({(int64_t(1) << 61) - 1}, DType::f64); },
               "too many elements in (2305843009213693951,)");
}

}  // namespace
}  // namespace reprise
