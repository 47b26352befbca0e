// Embedding against plain loops.
#include "reprise/kernels/index/embedding.h"

#include "reprise/tests/kernels/row_views.h"

namespace reprise::kernels {
namespace {

using namespace testing;

const std::vector<Shape>& index_shapes() {
  static const std::vector<Shape> shapes = {{}, {1}, {7}, {3, 5}, {2, 3, 5}, {0}, {129}};
  return shapes;
}

Shape with_width(Shape shape, int64_t width) {
  shape.push_back(width);
  return shape;
}

Array indices_into(int64_t table_rows, const Shape& shape, Layout layout) {
  Array indices(shape, DType::i64, layout);
  indices.fill_with(
      [=](int64_t i) { return double(philox_block(9, 0, uint64_t(i))[0] % uint32_t(table_rows)); });
  return indices;
}

TEST(Embedding, CopiesTheRowsOfEveryLayout) {
  for (const Shape& shape : index_shapes())
    for (DType dtype : floating_dtypes)
      for (Layout layout : layouts)
        for (int64_t width : {1, 5, 64, 65, 264}) {
          Array weight({11, width}, dtype, layout), indices = indices_into(11, shape, layout);
          Array y(with_width(shape, width), dtype, layout);
          weight.randomize(1);
          run_kernel(embedding, weight.view(), indices.view(), y.view());
          std::vector<double> table = weight.values(), want;
          for (double index : indices.values())
            for (int64_t j = 0; j < width; ++j)
              want.push_back(table[size_t(index) * size_t(width) + size_t(j)]);
          EXPECT_EQ(y.values(), want) << describe(shape, dtype, layout);
          EXPECT_TRUE(y.surroundings_untouched());
        }
}

TEST(Embedding, CastsTheRowsOfEveryLayout) {
  for (DType from : {DType::f32, DType::bf16, DType::f16})
    for (DType to : {DType::f32, DType::bf16, DType::f16})
      for (Layout layout : layouts)
        for (int64_t width : {1, 5, 64, 65, 264}) {
          Array weight({11, width}, from, layout), indices = indices_into(11, {3, 5}, layout);
          Array y({3, 5, width}, to, layout), want({3, 5, width}, to);
          weight.randomize(1);
          run_kernel(embedding, weight.view(), indices.view(), y.view());
          const std::vector<double> table = weight.values(), at = indices.values();
          want.fill_with([&](int64_t i) {
            return table[size_t(at[size_t(i / width)]) * size_t(width) + size_t(i % width)];
          });
          EXPECT_EQ(y.values(), want.values()) << from << " " << describe({3, 5, width}, to, layout);
          EXPECT_TRUE(y.surroundings_untouched());
        }
  Array weight({2, 3}, DType::f64), index({1}, DType::i64), y({1, 3}, DType::f32);
  expect_error([&] { run_kernel(embedding, weight.view(), index.view(), y.view()); },
               "embedding: the table is f64, y f32");
}

TEST(Embedding, BackwardAddsInTheOrderOfPositions) {
  for (const Shape& shape : index_shapes())
    for (DType dtype : {DType::f64, DType::f32})
      for (Layout layout : layouts)
        for (int64_t width :
             {int64_t{1}, int64_t{5}, kEmbeddingBlock, kEmbeddingBlock + 1, 2 * kEmbeddingSlice + 44}) {
          Array dweight({11, width}, dtype, layout), indices = indices_into(11, shape, layout);
          Array dy(with_width(shape, width), dtype, layout);
          dy.randomize(1);
          dweight.randomize(2);
          std::vector<double> want = dweight.values(), gradient = dy.values();
          size_t i = 0;
          for (double index : indices.values())
            for (int64_t j = 0; j < width; ++j) {
              double& sum = want[size_t(index) * size_t(width) + size_t(j)];
              sum = dtype == DType::f32 ? double(float(sum) + float(gradient[i])) : sum + gradient[i];
              ++i;
            }
          run_kernel(embedding_backward, dy.view(), indices.view(), dweight.view());
          EXPECT_EQ(dweight.values(), want) << describe(shape, dtype, layout);
          EXPECT_TRUE(dweight.surroundings_untouched());
        }
}

TEST(Embedding, BackwardSumsHalfTypesInF32) {
  for (DType dtype : {DType::bf16, DType::f16})
    for (DType table_dtype : {dtype, DType::f32}) {
      Array dy({1000, 3}, dtype), indices({1000}, DType::i64), dweight({2, 3}, table_dtype);
      dy.fill_with([](int64_t) { return 0.25; });
      indices.fill_with([](int64_t) { return 1.0; });
      dweight.fill_with([](int64_t) { return 0.0; });
      run_kernel(embedding_backward, dy.view(), indices.view(), dweight.view());
      // 250 is exact in all of them; added up in bf16 it would stick at 64.
      EXPECT_EQ(dweight.values(), (std::vector<double>{0, 0, 0, 250, 250, 250}));
    }
}

TEST(Embedding, BackwardFindsEveryRowOfALargeTable) {
  Array dy({257, 1}, DType::f32), indices({257}, DType::i64), dweight({70001, 1}, DType::f32);
  dy.fill_with([](int64_t i) { return double(i + 1); });
  indices.fill_with([](int64_t i) { return double((256 - i) * 273); });
  dweight.fill_with([](int64_t) { return 0.0; });
  run_kernel(embedding_backward, dy.view(), indices.view(), dweight.view());
  std::vector<double> got = dweight.values();
  for (int64_t i = 0; i < 257; ++i) EXPECT_EQ(got[size_t((256 - i) * 273)], double(i + 1));
}

// More positions than are looked through one by one: they are sorted, by one, two or three bytes of index.
TEST(Embedding, BackwardAddsInTheOrderOfManyPositions) {
  struct Case {
    int64_t positions, table_rows, width;
    DType dtype, table_dtype;
  };
  constexpr int64_t few = kSearchedPositions;
  for (const Case& c :
       {Case{few, 7, 8, DType::f32, DType::f32}, Case{few + 1, 65, 4, DType::f32, DType::f32},
        Case{2 * kSortTile + 3, 1, 3, DType::f32, DType::f32},
        Case{2 * kSortTile + 907, 256, 5, DType::f64, DType::f64},
        Case{2 * kSortTile + 404, 50304, 8, DType::f32, DType::f32},
        Case{few + 452, 70001, 2, DType::f32, DType::f32}, Case{few + 953, 257, 264, DType::bf16, DType::f32},
        Case{few + 452, 50, 8, DType::bf16, DType::bf16}}) {
    Array dy({c.positions, c.width}, c.dtype), dweight({c.table_rows, c.width}, c.table_dtype);
    Array indices({c.positions}, DType::i64);
    dy.randomize(1);
    dweight.randomize(2);
    indices.fill_with(
        [&](int64_t i) {  // half of them at three places, of which two have the same lower bytes
          uint32_t draw = philox_block(9, 0, uint64_t(i))[0];
          return double((i % 2 ? int64_t(draw) : int64_t(draw % 3) * 65536) % c.table_rows);
        });
    bool is_f64 = c.dtype == DType::f64;
    std::vector<double> sums = dweight.values(), gradient = dy.values(), at = indices.values();
    for (size_t i = 0; i < gradient.size(); ++i) {
      double& sum = sums[size_t(at[i / size_t(c.width)]) * size_t(c.width) + i % size_t(c.width)];
      sum = is_f64 ? sum + gradient[i] : double(float(sum) + float(gradient[i]));
    }
    Array want({c.table_rows, c.width}, c.table_dtype);  // rounds the sums once
    want.fill_with([&](int64_t i) { return sums[size_t(i)]; });
    run_kernel(embedding_backward, dy.view(), indices.view(), dweight.view());
    EXPECT_EQ(dweight.values(), want.values()) << c.positions << " positions, " << c.table_rows << " rows";
    EXPECT_TRUE(dweight.surroundings_untouched());
  }
}

TEST(Embedding, IsExactAcrossThreadCounts) {
  expect_same_at_any_thread_count([] {
    constexpr int64_t width = kEmbeddingSlice + 1;
    Array dy({1031, width}, DType::f32), indices = indices_into(37, {1031}, Layout::contiguous);
    Array dweight({37, width}, DType::f32);
    dy.randomize(1);
    dweight.randomize(2);
    run_kernel(embedding_backward, dy.view(), indices.view(), dweight.view());
    return dweight.values();
  });
}

// The CPU names the place and has written nothing; a GPU has made that row zero, and names its number.
TEST(Embedding, RefusesIndicesOutOfRange) {
  bool on_cpu = reprise::testing::test_device() == Device::cpu();
  for (int64_t bad : {int64_t{-1}, int64_t{11}})
    for (int64_t width : {3, 8}) {
      Array weight({11, width}, DType::f32), y({3, 5, width}, DType::f32);
      Array indices = indices_into(11, {3, 5}, Layout::stepped);
      weight.randomize(1, 1, 2);
      y.fill_with([](int64_t) { return 77.0; });
      set_element(indices.view(), offset_of(indices.view(), 7), double(bad));
      std::string place = on_cpu ? " at (1, 2)" : " at position 7";
      EXPECT_EQ(error_of(embedding, weight.view(), indices.view(), y.view()),
                "embedding: index " + std::to_string(bad) + place + " is outside [0, 11)");
      std::vector<double> got = y.values();
      for (int64_t i = 0; i < 15 * width; ++i)
        if (on_cpu)
          EXPECT_EQ(got[size_t(i)], 77.0);
        else
          EXPECT_EQ(got[size_t(i)] == 0, i / width == 7) << "element " << i;
    }
}

TEST(Embedding, BackwardOnAGpuLeavesOutIndicesOutOfRange) {
  if (reprise::testing::test_device() == Device::cpu()) GTEST_SKIP() << "the CPU trusts the forward pass";
  for (int64_t positions : {int64_t{50}, kSearchedPositions + 452})
    for (int64_t bad : {int64_t{-1}, int64_t{11}}) {
      Array dy({positions, 4}, DType::f32), indices({positions}, DType::i64), dweight({11, 4}, DType::f32);
      dy.fill_with([](int64_t) { return 1.0; });
      dweight.fill_with([](int64_t) { return 0.0; });
      indices.fill_with([&](int64_t i) { return double(i == 7 ? bad : 3); });
      EXPECT_EQ(error_of(embedding_backward, dy.view(), indices.view(), dweight.view()),
                "embedding_backward: index " + std::to_string(bad) + " at position 7 is outside [0, 11)");
      std::vector<double> want(44, 0);
      std::fill_n(want.begin() + 12, 4, double(positions - 1));
      EXPECT_EQ(dweight.values(), want);
      EXPECT_TRUE(dweight.surroundings_untouched());
    }
}

TEST(Embedding, RefusesViewsThatDoNotFit) {
  Array weight({11, 3}, DType::f32), indices({5}, DType::i64), y({5, 3}, DType::f32),
      wrong({5, 4}, DType::f32);
  Array floats({5}, DType::f32), half({5, 3}, DType::bf16), wide({5, 3}, DType::f64);
  expect_error([&] { run_kernel(embedding, weight.view(), indices.view(), wrong.view()); },
               "y has shape (5, 4)");
  expect_error([&] { run_kernel(embedding, weight.view(), floats.view(), y.view()); }, "indices are f32");
  expect_error([&] { run_kernel(embedding, weight.view(), indices.view(), wide.view()); },
               "embedding: the table is f32, y f64");
  expect_error([&] { run_kernel(embedding_backward, y.view(), indices.view(), half.view()); },
               "embedding_backward: ");
}

}  // namespace
}  // namespace reprise::kernels
