// Tensor: creation, host copies, sharing, versions.
#include "reprise/core/tensor.h"

#include <gtest/gtest.h>

#include <limits>

#include "reprise/tests/support/errors.h"

namespace reprise {
namespace {

using testing::expect_error;

TEST(Tensor, IsUndefinedByDefaultAndSaysSo) {
  Tensor x;
  EXPECT_FALSE(x.defined());
  expect_error([&] { (void)bool(x); }, "bool: the tensor was never given a value");
  expect_error([&] { x.view(); }, "tensor: used before it was given a value");
  expect_error([&] { x.storage(); }, "tensor: used before it was given a value");
  expect_error([&] { x.numel(); }, "tensor: used before it was given a value");
}

TEST(Tensor, IsTrueOrFalseAsItsOneElementIs) {
  for (DType dtype :
       {DType::boolean, DType::u8, DType::i32, DType::i64, DType::bf16, DType::f32, DType::f64}) {
    Tensor x = Tensor::zeros({1, 1}, dtype);
    EXPECT_FALSE(bool(x)) << dtype;
    static_cast<unsigned char*>(x.view().data)[size_of(dtype) - 1] = 1;  // a tiny number, not zero
    EXPECT_TRUE(bool(x)) << dtype;
  }
  EXPECT_TRUE(bool(Tensor::from<double>({std::numeric_limits<double>::quiet_NaN()}, {})));
  EXPECT_FALSE(bool(Tensor::from<double>({-0.0}, {})));
}

TEST(Tensor, HasNoTruthValueUnlessItHasOneElement) {
  for (const Shape& shape : {Shape{2}, Shape{3, 1}, Shape{0}, Shape{0, 4}}) {
    try {
      (void)bool(Tensor::zeros(shape));
      FAIL() << "no Error for " << shape;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("ambiguous"), std::string::npos) << error.what();
    }
  }
}

// A view of a temporary outlives its memory wherever it is kept.
static_assert(std::is_convertible_v<Tensor&, TensorView>);
static_assert(std::is_convertible_v<const Tensor&, const TensorView&>);
static_assert(!std::is_constructible_v<TensorView, Tensor>);
static_assert(!std::is_constructible_v<TensorView, const Tensor>);
static_assert(!std::is_convertible_v<Tensor, const TensorView&>);
static_assert(!std::is_constructible_v<std::pair<std::string, TensorView>, std::string, Tensor>);

TEST(Tensor, KnowsItsShapeStridesDtypeAndDevice) {
  Tensor x = Tensor::empty({2, 3, 4}, DType::bf16);
  EXPECT_EQ(x.shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(x.strides(), (Strides{12, 4, 1}));
  EXPECT_EQ(x.rank(), 3);
  EXPECT_EQ(x.numel(), 24);
  EXPECT_EQ(x.size(0), 2);
  EXPECT_EQ(x.size(-1), 4);
  expect_error([&] { x.size(3); }, "dimension 3 is outside a tensor of rank 3");
  EXPECT_EQ(x.dtype(), DType::bf16);
  EXPECT_EQ(x.device(), Device::cpu());
  EXPECT_TRUE(x.is_contiguous());
  EXPECT_EQ(x.storage()->bytes(), 48u);
}

TEST(Tensor, StartsOnACacheLine) {
  for (int64_t count : {1, 3, 1000, 3'000'000})
    EXPECT_EQ(uintptr_t(Tensor::empty({count}).view().data) % 64, 0u) << count;
}

TEST(Tensor, CopiesVectorsInAndOutInRowMajorOrder) {
  Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  Tensor column = x.alias(transpose(x.view(), 0, 1));
  EXPECT_EQ(column.to_vector<float>(), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(column.to_vector<int32_t>(), (std::vector<int32_t>{1, 4, 2, 5, 3, 6}));
  Tensor last = x.alias(slice(x.view(), 1, 0, 3, 2));
  EXPECT_EQ(last.to_vector<double>(), (std::vector<double>{1, 3, 4, 6}));
  expect_error([&] { Tensor::from<float>({1, 2}, {3}); }, "tensor: 2 values for shape (3,)");
  EXPECT_EQ(Tensor::from<uint8_t>({1, 2}, {2}).dtype(), DType::u8);
  EXPECT_EQ(Tensor::from<int64_t>({}, {0}).to_vector<int64_t>().size(), 0u);
}

TEST(Tensor, ZerosHoldsZeros) {
  Tensor::from(std::vector<float>(999, 7.0f), {999});  // leaves its block in the cache
  EXPECT_EQ(Tensor::zeros({999}).to_vector<float>(), std::vector<float>(999, 0.0f));
}

TEST(Tensor, ItemNeedsOneElement) {
  EXPECT_EQ(Tensor::from<int64_t>({41}, {1, 1}).item(), 41);
  expect_error([&] { Tensor::zeros({2}).item(); }, "item: needs one element, got shape (2,)");
  expect_error([&] { Tensor::zeros({0}).item(); }, "item: needs one element, got shape (0,)");
}

TEST(Tensor, DataIsRefusedAsAnotherType) {
  Tensor x = Tensor::from<float>({1.5f}, {1});
  EXPECT_EQ(*x.data<float>(), 1.5f);
  expect_error([&] { x.data<double>(); }, "view: holds f32, read as f64");
}

TEST(Tensor, RefusesSizesThatCannotBe) {
  expect_error([&] { Tensor::empty({-1}); }, "negative size in (-1,)");
  constexpr int64_t huge = std::numeric_limits<int64_t>::max();
  expect_error([&] { Tensor::empty({huge, 2}); }, "too many elements in (9223372036854775807, 2)");
  expect_error([&] { Tensor::empty({huge / 2}, DType::f64); }, "too many elements in (4611686018427387903,)");
}

TEST(Tensor, HandlesAndAliasesShareStorageAndVersion) {
  Tensor x = Tensor::zeros({2, 3});
  Tensor handle = x;
  Tensor alias = x.alias(select(x.view(), 0, 1));
  EXPECT_TRUE(handle.is_same(x));
  EXPECT_FALSE(alias.is_same(x));
  EXPECT_EQ(alias.storage(), x.storage());
  alias.data<float>()[2] = 9;
  alias.storage()->bump_version();
  EXPECT_EQ(x.to_vector<float>()[5], 9);
  EXPECT_EQ(x.version(), 1u);
  EXPECT_EQ(handle.version(), 1u);
}

TEST(Tensor, IsReadHollowUnseenByWhatCatchesErrors) {
  Tensor x = Tensor::hollow(Tensor::zeros({2}).view());
  expect_error([&] { x.view(); }, "tensor: the data of a hollow tensor of shape (2,) was read");
  HollowRead::Awaited awaited;
  uint64_t before = HollowRead::count();
  try {
    try {
      x.view();
    } catch (const std::exception&) { FAIL() << "an exception that programs catch"; }
  } catch (const HollowRead&) {}
  EXPECT_EQ(HollowRead::count(), before + 1);
}

TEST(Tensor, IsSoleOwnerUntilItsHandleOrMemoryIsShared) {
  Tensor x = Tensor::zeros({2});
  EXPECT_TRUE(x.is_sole_owner());
  {
    Tensor handle = x;
    EXPECT_FALSE(x.is_sole_owner());
  }
  {
    Tensor alias = x.alias(x.view());
    EXPECT_FALSE(x.is_sole_owner());
    EXPECT_FALSE(alias.is_sole_owner());
  }
  EXPECT_TRUE(x.is_sole_owner());
}

TEST(Tensor, KeepsItsMemoryAsLongAsAnyViewLives) {
  int64_t before = allocator({}).stats().live_blocks;
  Tensor view;
  {
    Tensor x = Tensor::from<float>({1, 2, 3}, {3});
    view = x.alias(slice(x.view(), 0, 1, 3));
  }
  EXPECT_EQ(allocator({}).stats().live_blocks, before + 1);
  EXPECT_EQ(view.to_vector<float>(), (std::vector<float>{2, 3}));
  view = {};
  EXPECT_EQ(allocator({}).stats().live_blocks, before);
}

}  // namespace
}  // namespace reprise
