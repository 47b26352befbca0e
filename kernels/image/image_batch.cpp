// Batches of pictures on the CPU, a line of one channel at a time.
#include "reprise/kernels/image/image_batch.h"

#include <algorithm>

#include "reprise/kernels/cpu/rows.h"
#include "reprise/kernels/elementwise/normal.h"

namespace reprise::kernels {
namespace {

/// The columns [begin, end) of line `row` that lie in a box.
struct Covered {
  int64_t begin = 0, end = 0;
  Covered(const TensorView& boxes, int64_t i, int64_t row, int64_t width) {
    if (!boxes) return;
    const int32_t* box = boxes.as<int32_t>() + 4 * i;
    if (row < box[0] || row - box[0] >= box[2]) return;
    begin = std::clamp<int64_t>(box[1], 0, width);
    end = std::clamp<int64_t>(int64_t(box[1]) + box[3], begin, width);
  }
};

/// Elements [first, first + count) of the noise of sample b.
void write_noise(const ImageBatchArguments& v, int64_t b, int64_t first, int64_t count, float* line) {
  const uint64_t offset = uint64_t(v.noise.as<int64_t>()[b]);
  float numbers[4] = {};
  for (int64_t i = first; i < first + count; ++i) {
    if (i == first || i % 4 == 0)
      standard_normals(philox_block(v.noise_seed, offset, uint64_t(i / 4)), numbers);
    line[i - first] = numbers[i % 4];
  }
}

/// Line `row` of channel c of sample b, not mixed.
void read_line(const ImageBatchArguments& v, int64_t b, int64_t c, int64_t row, float* line) {
  const int64_t height = v.images.size(1), width = v.images.size(2), channels = v.images.size(3);
  const uint8_t* bytes = v.images.as<uint8_t>() + (b * height + row) * width * channels + c;
  const float* becomes = v.table.as<float>() + 256 * c;
  for (int64_t j = 0; j < width; ++j) line[j] = becomes[bytes[j * channels]];
  const Covered erased(v.boxes, b, row, width);
  if (v.noise)
    write_noise(v, b, (c * height + row) * width + erased.begin, erased.end - erased.begin,
                line + erased.begin);
  else
    std::fill(line + erased.begin, line + erased.end, 0.0f);
}

/// Mixes the line with its partner's; `other` is scratch.
void mix_line(const ImageBatchArguments& v, int64_t b, int64_t c, int64_t row, float* line, float* other) {
  const int64_t width = v.images.size(2), pair = b / 2;
  const float lambda = v.lambdas ? v.lambdas.as<float>()[pair] : 1.0f;
  const Covered cut(v.mix_boxes, pair, row, width);
  if (lambda == 1 && cut.begin == cut.end) return;
  read_line(v, b ^ 1, c, row, other);
  for (int64_t j = 0; lambda != 1 && j < width; ++j) line[j] = lambda * line[j] + (1 - lambda) * other[j];
  std::copy(other + cut.begin, other + cut.end, line + cut.begin);
}

void image_batch_cpu(const Stream&, const ImageBatchArguments& v) {
  check_image_batch(v);
  if (v.y.numel() == 0) return;
  const int64_t height = v.y.size(2), width = v.y.size(3), channels = v.y.size(1);
  dispatch_floating(v.y.dtype, "image_batch", [&]<class T>() {
    parallel_for(rows_of(v.y), row_grain(width), [&](int64_t begin, int64_t end) {
      std::vector<float> line(static_cast<size_t>(width)), other(line);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i % height, c = i / height % channels, b = i / height / channels;
        read_line(v, b, c, row, line.data());
        mix_line(v, b, c, row, line.data(), other.data());
        std::transform(line.begin(), line.end(), v.y.as<T>() + i * width,
                       [](float value) { return T(value); });
      }
    });
  });
}

/// Error unless `view` is absent, or a contiguous one of this shape and dtype.
void check_optional(std::string_view name, const TensorView& view, const Shape& shape, DType dtype) {
  if (!view) return;
  check_view("image_batch", name, view, shape, dtype);
  check(view.is_contiguous(), "image_batch: ", name, " must be contiguous, has strides ", view.strides);
}

}  // namespace

void check_image_batch(const ImageBatchArguments& arguments) {
  const auto& [images, table, boxes, noise, seed, lambdas, mix_boxes, y] = arguments;
  constexpr auto op = "image_batch";
  check(images.rank() == 4, op, ": images need shape (B, H, W, C), have ", images.shape);
  const int64_t samples = images.size(0), channels = images.size(3);
  check_optional("images", images, images.shape, DType::u8);
  check_view(op, "table", table, {channels, 256}, DType::f32);
  check_optional("table", table, table.shape, DType::f32);
  check(is_floating(y.dtype), op, ": y needs a floating dtype, is ", y.dtype);
  check_view(op, "y", y, {samples, channels, images.size(1), images.size(2)}, y.dtype);
  check_optional("y", y, y.shape, y.dtype);
  check_optional("boxes", boxes, {samples, 4}, DType::i32);
  check_optional("noise", noise, {samples}, DType::i64);
  check(boxes || !noise, op, ": noise needs boxes to fill");
  check((!lambdas && !mix_boxes) || samples % 2 == 0, op, ": ", samples, " samples do not make pairs to mix");
  check_optional("lambdas", lambdas, {samples / 2}, DType::f32);
  check_optional("mix_boxes", mix_boxes, {samples / 2, 4}, DType::i32);
}

std::vector<float> image_table(std::span<const double> means, std::span<const double> deviations) {
  check(means.size() == deviations.size(), "image_table: ", means.size(), " means and ", deviations.size(),
        " deviations");
  std::vector<float> table;
  for (size_t c = 0; c < means.size(); ++c) {
    check(deviations[c] > 0, "image_table: deviation ", c, " is ", deviations[c], ", should be positive");
    for (int value = 0; value < 256; ++value) {
      const volatile float scaled =
          float(value) * float(1 / 255.0);  // rounded here: not fused with what follows
      table.push_back((scaled - float(means[c])) / float(deviations[c]));
    }
  }
  return table;
}

decltype(image_batch) image_batch{"image_batch", image_batch_cpu};

}  // namespace reprise::kernels
