// Batches of pictures against loops in f64 that erase and mix whole pictures one after the other.
#include "reprise/kernels/image/image_batch.h"

#include <numbers>
#include <optional>

#include "reprise/tests/kernels/row_views.h"

namespace reprise::kernels {
namespace {

using namespace testing;

/// The views of one call; `shape` is (B, H, W, C).
struct Case {
  Shape shape;
  std::vector<double> boxes{}, lambdas{}, mix_boxes{};
  bool noise = false;

  Shape planes() const { return {shape[0], shape[3], shape[1], shape[2]}; }
};
constexpr uint64_t kSeed = 77;
double noise_offset(int64_t b) { return double(1000 * b + 3); }

bool covers(const std::vector<double>& boxes, int64_t i, int64_t row, int64_t column) {
  if (boxes.empty()) return false;
  const double* box = boxes.data() + 4 * i;
  return double(row) >= box[0] && double(row) < box[0] + box[2] && double(column) >= box[1] &&
         double(column) < box[1] + box[3];
}

double normal(int64_t b, int64_t i) {
  const auto words = philox_block(kSeed, uint64_t(noise_offset(b)), uint64_t(i / 4));
  const size_t pair = size_t(i % 4 / 2);
  // As Note [Draws of element i] in random_fill.cpp has them, in f32: near 1 the logarithm magnifies the rounding.
  const float unit = (float(words[2 * pair]) + 0.5f) * 0x1p-32f,
              turn = float(words[2 * pair + 1] >> 8) * 0x1p-24f;
  const float angle = float(2 * std::numbers::pi) * turn;
  const double radius = std::sqrt(-2 * std::log(double(unit)));
  return radius * (i % 2 == 0 ? std::cos(double(angle)) : std::sin(double(angle)));
}

/// (B, C, H, W).
std::vector<double> expected(const Case& k, const std::vector<double>& bytes,
                             const std::vector<double>& table) {
  const int64_t samples = k.shape[0], height = k.shape[1], width = k.shape[2], channels = k.shape[3];
  auto value = [&](int64_t b, int64_t c, int64_t i, int64_t j) {
    if (covers(k.boxes, b, i, j)) return k.noise ? normal(b, (c * height + i) * width + j) : 0.0;
    const size_t byte = size_t(bytes[size_t(((b * height + i) * width + j) * channels + c)]);
    return table[size_t(c) * 256 + byte];
  };
  std::vector<double> y;
  for (int64_t b = 0; b < samples; ++b)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t i = 0; i < height; ++i)
        for (int64_t j = 0; j < width; ++j) {
          const int64_t partner = b % 2 == 0 ? b + 1 : b - 1;
          double lambda = k.lambdas.empty() ? 1 : k.lambdas[size_t(b / 2)];
          if (covers(k.mix_boxes, b / 2, i, j)) lambda = 0;
          double sum = lambda * value(b, c, i, j);
          if (lambda != 1) sum += (1 - lambda) * value(partner, c, i, j);
          y.push_back(sum);
        }
  return y;
}

/// An array of the numbers, or none.
std::optional<Array> array_of(const std::vector<double>& numbers, const Shape& shape, DType dtype) {
  if (numbers.empty()) return {};
  std::optional<Array> array(std::in_place, shape, dtype);
  array->fill_with([&](int64_t i) { return numbers[size_t(i)]; });
  return array;
}
TensorView view_of(const std::optional<Array>& array) { return array ? array->view() : TensorView(); }

/// Runs the kernel and compares; returns what it wrote.
std::vector<double> check_case(const Case& k, DType dtype) {
  const int64_t samples = k.shape[0];
  Array images(k.shape, DType::u8), table({k.shape[3], 256}, DType::f32), noise({samples}, DType::i64);
  Array y(k.planes(), dtype);
  images.fill_with([](int64_t i) { return double(philox_block(5, 0, uint64_t(i))[0] % 256); });
  table.randomize(1, -2, 2);
  noise.fill_with(noise_offset);
  const auto boxes = array_of(k.boxes, {samples, 4}, DType::i32);
  const auto lambdas = array_of(k.lambdas, {samples / 2}, DType::f32);
  const auto mix_boxes = array_of(k.mix_boxes, {samples / 2, 4}, DType::i32);
  run_kernel(image_batch, {.images = images.view(),
                           .table = table.view(),
                           .boxes = view_of(boxes),
                           .noise = k.noise ? noise.view() : TensorView(),
                           .noise_seed = kSeed,
                           .lambdas = view_of(lambdas),
                           .mix_boxes = view_of(mix_boxes),
                           .y = y.view()});
  // A few roundings of f32, or the one of a half type.
  const double tolerance = std::max(epsilon_of(dtype), 8 * epsilon_of(DType::f32));
  expect_near(y.values(), expected(k, images.values(), table.values()), tolerance,
              describe(k.shape, dtype, {}));
  EXPECT_TRUE(y.surroundings_untouched());
  return y.values();
}

void check_everywhere(const Case& k) {
  for (DType dtype : floating_dtypes) check_case(k, dtype);
}

TEST(ImageBatch, PutsWhatTheTableSaysIntoPlanes) {
  for (const Shape& shape : {Shape{2, 3, 5, 3}, Shape{1, 7, 3, 1}, Shape{2, 3, 16, 4}, Shape{0, 3, 5, 3}})
    check_everywhere({.shape = shape});
}

// A box inside, one over two edges, an empty one; (2, 3, 16, 3) is written by packs.
TEST(ImageBatch, ErasesBoxesWithZerosOrNormalNumbers) {
  for (int64_t width : {7, 16})
    for (bool noise : {false, true})
      check_everywhere({.shape = {4, 5, width, 3},
                        .boxes = {1, 2, 3, 3, 3, 4, 90, 90, 2, 2, 0, 4, -1, -2, 3, 5},
                        .noise = noise});
}

TEST(ImageBatch, MixesTheRowsOfAPairByLambdaAndByBox) {
  check_everywhere({.shape = {4, 5, 7, 3}, .lambdas = {0.25, 1}});
  check_everywhere({.shape = {4, 5, 7, 3}, .mix_boxes = {1, 2, 3, 3, 0, 0, 0, 0}});
  check_everywhere({.shape = {4, 5, 16, 3},
                    .boxes = {0, 0, 3, 3, 2, 2, 2, 4, 1, 1, 1, 1, 4, 0, 1, 16},
                    .lambdas = {0.625, 1},
                    .mix_boxes = {0, 0, 0, 0, 1, 2, 9, 3},
                    .noise = true});
}

TEST(ImageBatch, IsTheSameAtAnyThreadCount) {
  expect_same_at_any_thread_count([] {
    return check_case(
        {.shape = {2, 97, 160, 3}, .boxes = {10, 20, 60, 90, 1, 1, 80, 80}, .lambdas = {0.3}, .noise = true},
        DType::f32);
  });
}

TEST(ImageTable, RefusesMeansWithoutDeviations) {
  const double one[] = {0.5}, two[] = {0.5, 0.25}, zero[] = {0};
  expect_error([&] { image_table(one, two); }, "image_table: 1 means and 2 deviations");
  expect_error([&] { image_table(one, zero); }, "image_table: deviation 0 is 0, should be positive");
}

TEST(ImageBatch, RefusesWhatDoesNotFit) {
  Array images({3, 4, 5, 2}, DType::u8), table({2, 256}, DType::f32), y({3, 2, 4, 5}, DType::f32);
  auto error = [&](auto change) {
    ImageBatchArguments v{.images = images.view(), .table = table.view(), .y = y.view()};
    change(v);
    return error_of(image_batch, v);
  };
  auto view = [](const Shape& shape, DType dtype, Layout layout = Layout::contiguous) {
    static std::vector<std::unique_ptr<Array>> arrays;
    arrays.push_back(std::make_unique<Array>(shape, dtype, layout));
    return arrays.back()->view();
  };
  EXPECT_EQ(error([&](auto& v) {
              v.images = view({4, 5, 2}, DType::u8);
            }),
            "image_batch: images need shape (B, H, W, C), have (4, 5, 2)");
  EXPECT_NE(error([&](auto& v) {
              v.images = view({3, 4, 5, 2}, DType::f32);
            }).find("images"),
            std::string::npos);
  EXPECT_NE(error([&](auto& v) {
              v.images = view({3, 4, 5, 2}, DType::u8, Layout::reversed);
            }).find("images must be contiguous"),
            std::string::npos);
  EXPECT_NE(error([&](auto& v) { v.table = view({3, 256}, DType::f32); }).find("table"), std::string::npos);
  EXPECT_NE(error([&](auto& v) { v.y = view({3, 4, 5, 2}, DType::f32); }).find("y has"), std::string::npos);
  EXPECT_EQ(error([&](auto& v) {
              v.y = view({3, 2, 4, 5}, DType::i32);
            }),
            "image_batch: y needs a floating dtype, is i32");
  EXPECT_NE(error([&](auto& v) { v.boxes = view({3, 3}, DType::i32); }).find("boxes"), std::string::npos);
  EXPECT_EQ(error([&](auto& v) { v.noise = view({3}, DType::i64); }),
            "image_batch: noise needs boxes to fill");
  EXPECT_EQ(error([&](auto& v) { v.lambdas = view({1}, DType::f32); }),
            "image_batch: 3 samples do not make pairs to mix");
  EXPECT_EQ(error([&](auto& v) {
              v.mix_boxes = view({1, 4}, DType::i32);
            }),
            "image_batch: 3 samples do not make pairs to mix");
}

}  // namespace
}  // namespace reprise::kernels
