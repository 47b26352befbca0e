#include "reprise/kernels/image/resample.h"

#include <algorithm>
#include <cstring>

#include "reprise/kernels/cpu/simd.h"

namespace reprise::kernels {
namespace {

/// Rows of the first pass that are resampled together, one to a byte of the widest vector.
constexpr int64_t rows_at_once = 64;
/// Bytes that vectors may read or write behind a row.
constexpr int64_t slack = 64;

constexpr int64_t rounded_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Sums with 22 bits after the point as pixels: rounded, clipped.
template <class Sums>
[[gnu::always_inline]] inline Sums as_pixels(Sums sums) {
  sums = (sums + (1 << (weight_bits - 1))) >> weight_bits;
  sums = sums < 0 ? Sums{} : sums;
  return sums > 255 ? Sums{} + 255 : sums;
}

/// to = the sum of weights[k] from[k pitch], for 4 W bytes side by side. A lane of 32 bits holds four of them, which
/// four sums take apart by shifts: g++ widens no bytes itself.
template <int W>
[[gnu::always_inline]] inline void weighted_sum(const uint8_t* from, int64_t pitch, const int32_t* weights,
                                                int64_t taps, uint8_t* to) {
  using Sums = simd::Vector<int32_t, W>;
  using Bytes = simd::Vector<uint32_t, W>;
  Sums sum0{}, sum1{}, sum2{}, sum3{};
  for (int64_t k = 0; k < taps; ++k) {
    const auto four = simd::load<Bytes>(from + k * pitch);
    sum0 += Sums(four & 255) * weights[k];
    sum1 += Sums(four >> 8 & 255) * weights[k];
    sum2 += Sums(four >> 16 & 255) * weights[k];
    sum3 += Sums(four >> 24) * weights[k];
  }
  simd::store(to,
              Sums(as_pixels(sum0) | as_pixels(sum1) << 8 | as_pixels(sum2) << 16 | as_pixels(sum3) << 24));
}

using Row16 = simd::Vector<uint8_t, 16>;

/// Each pair of rows i, i + 8 interleaved; four times is a transposition of 16 x 16.
[[gnu::always_inline]] inline void interleave(const Row16* from, Row16* to) {
  for (int i = 0; i < 8; ++i) {
    to[2 * i] =
        __builtin_shufflevector(from[i], from[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    to[2 * i + 1] = __builtin_shufflevector(from[i], from[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13,
                                            29, 14, 30, 15, 31);
  }
}

/// to (columns, rows) = from (rows, columns) turned, both sizes rounded up to multiples of 16.
[[gnu::always_inline]] inline void transpose_bytes(const uint8_t* from, int64_t from_pitch, int64_t rows,
                                                   int64_t columns, uint8_t* to, int64_t to_pitch) {
  for (int64_t row = 0; row < rows; row += 16)
    for (int64_t column = 0; column < columns; column += 16) {
      Row16 a[16], b[16];
      for (int i = 0; i < 16; ++i) a[i] = simd::load<Row16>(from + (row + i) * from_pitch + column);
      interleave(a, b), interleave(b, a), interleave(a, b), interleave(b, a);
      for (int i = 0; i < 16; ++i) simd::store(to + (column + i) * to_pitch + row, a[i]);
    }
}

/// Copies row `row` of a view (H, W, C) to consecutive bytes.
void copy_row(const TensorView& x, int64_t row, uint8_t* to) {
  const int64_t width = x.shape[1], channels = x.shape[2];
  const uint8_t* from = static_cast<const uint8_t*>(x.data) + row * x.strides[0];
  if ((x.strides[2] == 1 || channels == 1) && (x.strides[1] == channels || width == 1)) {
    std::memcpy(to, from, size_t(width * channels));
    return;
  }
  for (int64_t i = 0; i < width; ++i)
    for (int64_t c = 0; c < channels; ++c) *to++ = from[i * x.strides[1] + c * x.strides[2]];
}

void write_row(const uint8_t* from, const TensorView& y, int64_t row) {
  const int64_t width = y.shape[1], channels = y.shape[2];
  uint8_t* to = static_cast<uint8_t*>(y.data) + row * y.strides[0];
  if ((y.strides[2] == 1 || channels == 1) && (y.strides[1] == channels || width == 1)) {
    std::memcpy(to, from, size_t(width * channels));
    return;
  }
  for (int64_t i = 0; i < width; ++i)
    for (int64_t c = 0; c < channels; ++c) to[i * y.strides[1] + c * y.strides[2]] = *from++;
}

/// The first pass: rows [begin, begin + rows) of x to `between`, `pitch` bytes apart. Rows are turned into columns, so
/// that a vector holds the same place of many rows, which have the same weights.
void horizontal_pass(const ResampleArguments& v, int64_t begin, int64_t rows, int64_t pitch,
                     ResampleScratch& s) {
  const int64_t channels = v.x.shape[2], bytes = v.x.shape[1] * channels, count = s.horizontal.count();
  const int64_t row_pitch = rounded_up(bytes, 16);
  s.rows.resize(size_t(rows_at_once * row_pitch));
  s.columns.resize(size_t((row_pitch + rounded_up(count * channels, 16)) * rows_at_once));
  uint8_t* const turned = s.columns.data();
  uint8_t* const results = turned + row_pitch * rows_at_once;
  simd::run([&]<int W>() {
    constexpr int64_t block = 4 * W;
    for (int64_t row = 0; row < rows; row += block) {
      for (int64_t i = 0; i < std::min(block, rows - row); ++i)
        copy_row(v.x, begin + row + i, s.rows.data() + i * row_pitch);
      transpose_bytes(s.rows.data(), row_pitch, block, bytes, turned, block);
      for (int64_t i = 0; i < count; ++i) {
        const Window window = s.horizontal.windows[size_t(i)];
        for (int64_t c = 0; c < channels; ++c)
          weighted_sum<W>(turned + (window.begin * channels + c) * block, channels * block,
                          s.horizontal.of(i), window.size(), results + (i * channels + c) * block);
      }
      transpose_bytes(results, block, count * channels, block, s.between.data() + row * pitch, pitch);
    }
  });
}

/// The second pass: row i of the result from rows of `between`, of which the first is row `first` of x.
void vertical_pass(const ResampleArguments& v, int64_t first, int64_t pitch, ResampleScratch& s) {
  const int64_t bytes = v.y.shape[1] * v.y.shape[2];
  s.rows.resize(std::max(s.rows.size(), size_t(bytes + slack)));
  simd::run([&]<int W>() {
    for (int64_t row = 0; row < v.y.shape[0]; ++row) {
      const Window window = s.vertical.windows[size_t(row)];
      const uint8_t* from = s.between.data() + (window.begin - first) * pitch;
      for (int64_t j = 0; j < bytes; j += 4 * W)
        weighted_sum<W>(from + j, pitch, s.vertical.of(row), window.size(), s.rows.data() + j);
      write_row(s.rows.data(), v.y, row);
    }
  });
}

void check_axis(const char* name, const ResampleAxis& axis, int64_t x, int64_t y) {
  check(x > 0 && y > 0, "resample: ", name, ": a size is 0: ", x, " to ", y);
  check(axis.out_begin >= 0 && axis.out_begin + y <= axis.out, "resample: ", name, ": pixels ",
        axis.out_begin, " to ", axis.out_begin + y, " are not of ", axis.out);
}

/// The axis as given, or for whole images of x and y pixels.
ResampleAxis checked_axis(const char* name, const ResampleAxis& given, int64_t x, int64_t y, Filter filter) {
  const ResampleAxis axis = given.in == 0 ? ResampleAxis{.in = x, .out = y} : given;
  check_axis(name, axis, x, y);
  const Window reads = resample_reads(axis.in, axis.out, axis.out_begin, axis.out_begin + y, filter);
  check(axis.in_begin >= 0 && axis.in_begin <= reads.begin && reads.end <= axis.in_begin + x,
        "resample: ", name, ": reads pixels ", reads.begin, " to ", reads.end, ", given ", axis.in_begin,
        " to ", axis.in_begin + x);
  return axis;
}

}  // namespace

void resample(const ResampleArguments& v, ResampleScratch& s) {
  check(v.x.rank() == 3 && v.y.rank() == 3 && v.x.dtype == DType::u8 && v.y.dtype == DType::u8,
        "resample: needs u8 (H, W, C), got ", v.x.dtype, ' ', v.x.shape, " and ", v.y.dtype, ' ', v.y.shape);
  const int64_t channels = v.x.shape[2], height = v.y.shape[0], width = v.y.shape[1];
  check(channels == v.y.shape[2], "resample: the number of channels differs: ", channels, " and ",
        v.y.shape[2]);
  const ResampleAxis rows = checked_axis("vertical", v.vertical, v.x.shape[0], height, v.filter);
  const ResampleAxis columns = checked_axis("horizontal", v.horizontal, v.x.shape[1], width, v.filter);

  const Window reads = resample_reads(rows.in, rows.out, rows.out_begin, rows.out_begin + height, v.filter);
  const int64_t first = reads.begin - rows.in_begin, pitch = width * channels + slack;
  s.between.resize(size_t(rounded_up(reads.size(), rows_at_once) * pitch));
  if (columns.in == columns.out) {
    const int64_t left = columns.out_begin - columns.in_begin;
    const TensorView same = slice(v.x, 1, left, left + width);
    for (int64_t row = 0; row < reads.size(); ++row)
      copy_row(same, first + row, s.between.data() + row * pitch);
  } else {
    s.horizontal.compute(columns, width, v.filter);
    horizontal_pass(v, first, reads.size(), pitch, s);
  }
  if (rows.in == rows.out) {
    for (int64_t row = 0; row < height; ++row) write_row(s.between.data() + row * pitch, v.y, row);
  } else {
    s.vertical.compute(rows, height, v.filter);
    vertical_pass(v, first, pitch, s);
  }
}

}  // namespace reprise::kernels
