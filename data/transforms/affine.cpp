#include "reprise/data/transforms/affine.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "reprise/data/transforms/flip.h"
#include "reprise/kernels/cpu/simd.h"

namespace reprise::data {
namespace {

using Map = std::array<double, 6>;

using Color = kernels::simd::Vector<double, 4>;

/// Pillow's forms: exact where neighbours are equal.
[[gnu::always_inline]] inline Color linear(Color a, Color b, double d) { return a + (b - a) * d; }
[[gnu::always_inline]] inline Color cubic(const Color (&v)[4], double d) {
  const Color p2 = v[2] - v[0], p3 = 2.0 * (v[0] - v[1]) + v[2] - v[3], p4 = v[1] - v[0] - v[2] + v[3];
  return v[1] + d * (p2 + d * (p3 + d * p4));
}

/// An image as vectors of a color, with its outermost pixels twice more on each side, so that no window ends outside.
class Colors {
 public:
  Colors(const io::Image& image, std::vector<float>& memory) : pitch_((image.width + 2 * border) * 4) {
    memory.resize(size_t((image.height + 2 * border) * pitch_));
    float* to = memory.data();
    for (int64_t y = -border; y < image.height + border; ++y) {
      const uint8_t* row = image.row(std::clamp<int64_t>(y, 0, image.height - 1));
      for (int64_t x = -border; x < image.width + border; ++x, to += 4) {
        const uint8_t* from = row + std::clamp<int64_t>(x, 0, image.width - 1) * image.channels;
        for (int64_t c = 0; c < image.channels; ++c) to[c] = from[c];
      }
    }
    first_ = memory.data() + border * (pitch_ + 4);
  }

  [[gnu::always_inline]] Color at(int64_t y, int64_t x) const {
    const auto color = kernels::simd::load<kernels::simd::Vector<float, 4>>(first_ + y * pitch_ + x * 4);
    return __builtin_convertvector(color, Color);
  }

 private:
  static constexpr int64_t border = 2;
  int64_t pitch_;
  const float* first_;
};

/// The color at (x, y), the pixels' middles at whole numbers.
template <Interpolation interpolation>
[[gnu::always_inline]] inline Color sample(const Colors& colors, double x, double y) {
  const auto left = int64_t(std::floor(x)), top = int64_t(std::floor(y));
  const double dx = x - double(left), dy = y - double(top);
  if constexpr (interpolation == Interpolation::bilinear)
    return linear(linear(colors.at(top, left), colors.at(top, left + 1), dx),
                  linear(colors.at(top + 1, left), colors.at(top + 1, left + 1), dx), dy);
  Color rows[4];
  for (int i = 0; i < 4; ++i)
    rows[i] = cubic({colors.at(top - 1 + i, left - 1), colors.at(top - 1 + i, left),
                     colors.at(top - 1 + i, left + 1), colors.at(top - 1 + i, left + 2)},
                    dx);
  const Color color = cubic(rows, dy);
  return color < 0.0 ? Color{} : color > 255.0 ? Color{} + 255.0 : color;
}

/// Where the pixels of a row of the result lie in the input.
struct Points {
  std::vector<double>&x, &y;

  Points(const Map& map, int64_t row, int64_t width, std::vector<double>& xs, std::vector<double>& ys)
      : x(xs), y(ys) {
    x.resize(size_t(width)), y.resize(size_t(width));
    const double down = double(row) + 0.5;
    for (int64_t i = 0; i < width; ++i) {
      const double right = double(i) + 0.5;
      x[size_t(i)] = map[0] * right + map[1] * down + map[2];
      y[size_t(i)] = map[3] * right + map[4] * down + map[5];
    }
  }
};

[[gnu::always_inline]] inline bool inside(const io::Image& image, double x, double y) {
  return x >= 0 && x < double(image.width) && y >= 0 && y < double(image.height);
}

/// A map by sampling between pixels.
template <Interpolation interpolation>
void map_between(const io::Image& from, const Map& map, io::Image& to, TransformScratch& scratch) {
  const Colors colors(from, scratch.colors);
  for (int64_t row = 0; row < to.height; ++row) {
    const Points points(map, row, to.width, scratch.x, scratch.y);
    kernels::simd::run([&]<int>() {
      uint8_t* pixel = to.row(row);
      for (size_t i = 0; i < points.x.size(); ++i, pixel += to.channels) {
        if (!inside(from, points.x[i], points.y[i])) continue;
        const Color color = sample<interpolation>(colors, points.x[i] - 0.5, points.y[i] - 0.5);
        for (int64_t c = 0; c < to.channels; ++c) pixel[c] = uint8_t(color[size_t(c)]);
      }
    });
  }
}

/// Pixels of one and three bytes are copied by moves, not by calls.
void copy_pixel(const uint8_t* from, int64_t channels, uint8_t* to) {
  to[0] = from[0];
  if (channels == 3) to[1] = from[1], to[2] = from[2];
}

/// Pillow's nearest pixel of a map that only moves.
void map_nearest_moved(const io::Image& from, const Map& map, io::Image& to, TransformScratch& scratch) {
  for (int64_t row = 0; row < to.height; ++row) {
    const Points points(map, row, to.width, scratch.x, scratch.y);
    for (size_t i = 0; i < points.x.size(); ++i)
      if (inside(from, points.x[i], points.y[i]))
        copy_pixel(from.row(int64_t(points.y[i])) + int64_t(points.x[i]) * from.channels, from.channels,
                   to.row(row) + int64_t(i) * to.channels);
  }
}

/// Pillow's nearest pixel of a map that turns or shears: 16 bits after the point, added up along rows and columns.
void map_nearest(const io::Image& from, const Map& map, io::Image& to) {
  auto fixed = [](double value) { return int64_t(std::floor(value * 65536.0 + 0.5)); };
  const int64_t a = fixed(map[0]), b = fixed(map[1]), d = fixed(map[3]), e = fixed(map[4]);
  const int64_t c = fixed(map[2] + map[0] * 0.5 + map[1] * 0.5),
                f = fixed(map[5] + map[3] * 0.5 + map[4] * 0.5);
  const int64_t height = from.height, width = from.width,
                channels = from.channels;  // read once: pixels may alias
  const uint8_t* const pixels = from.pixels.data();
  for (int64_t y = 0; y < height; ++y) {
    uint8_t* pixel = to.row(y);
    for (int64_t x = 0; x < width; ++x, pixel += channels) {
      const int64_t at_x = (a * x + b * y + c) >> 16, at_y = (d * x + e * y + f) >> 16;
      if (at_x >= 0 && at_x < width && at_y >= 0 && at_y < height)
        copy_pixel(pixels + (at_y * width + at_x) * channels, channels, pixel);
    }
  }
}

void map_by(Interpolation interpolation, const io::Image& from, const Map& map, io::Image& to,
            TransformScratch& scratch) {
  switch (interpolation) {
    case Interpolation::nearest:
      return map[1] == 0 && map[3] == 0 ? map_nearest_moved(from, map, to, scratch)
                                        : map_nearest(from, map, to);
    case Interpolation::bilinear:
      return map_between<Interpolation::bilinear>(from, map, to, scratch);
    case Interpolation::bicubic:
      return map_between<Interpolation::bicubic>(from, map, to, scratch);
  }
}

/// The nearest decimal of 15 digits, which Pillow rounds sines to, so that those of right angles are exact.
double tidy(double value) { return std::nearbyint(value * 1e15) / 1e15; }

}  // namespace

std::string_view name_of(Interpolation interpolation) {
  switch (interpolation) {
    case Interpolation::nearest:
      return "nearest";
    case Interpolation::bilinear:
      return "bilinear";
    case Interpolation::bicubic:
      break;
  }
  return "bicubic";
}

void affine(io::Image& image, const Map& map, const AffineOptions& options, TransformScratch& scratch) {
  check(std::max(image.height, image.width) <= 16384, "affine: an image of (", image.height, ", ",
        image.width, "): more than 16,384 pixels on a side");
  io::Image& to = scratch.other;
  to.resize(image.height, image.width, image.channels);
  for (size_t i = 0; i < to.pixels.size(); ++i) to.pixels[i] = options.fill[i % size_t(image.channels)];
  map_by(options.interpolation, image, map, to, scratch);
  std::swap(image, to);
}

void rotate(io::Image& image, double degrees, const AffineOptions& options, TransformScratch& scratch) {
  degrees = std::fmod(degrees, 360.0);
  if (degrees < 0) degrees += 360;
  if (degrees == 0) return;
  if (degrees == 180) {
    flip_horizontally(image);
    return flip_vertically(image);
  }
  const double angle = -degrees * std::numbers::pi / 180;
  const double cosine = tidy(std::cos(angle)), sine = tidy(std::sin(angle));
  const double x = double(image.width) / 2, y = double(image.height) / 2;
  affine(image, {cosine, sine, cosine * -x + sine * -y + x, -sine, cosine, -sine * -x + cosine * -y + y},
         options, scratch);
}

}  // namespace reprise::data
