#include "reprise/data/transforms/resize.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace reprise::data {
namespace {

using io::Size;

/// The size of an image whose short side becomes `size`.
Size resized(int64_t height, int64_t width, int64_t size) {
  check(height > 0 && width > 0, "resize: an image of (", height, ", ", width, ")");
  const int64_t longer = size * std::max(height, width) / std::min(height, width);
  return height <= width ? Size{size, longer} : Size{longer, size};
}

/// Where the middle `crop` of `size` begins, half to even as Python's round.
int64_t middle(int64_t size, int64_t crop) { return int64_t(std::nearbyint(double(size - crop) / 2)); }

/// The whole picture's rows or columns of a crop's resampling, when the part begins at `part_begin`.
kernels::ResampleAxis axis_of(int64_t in, int64_t out, int64_t crop, int64_t part_begin) {
  return {.in = in, .out = out, .in_begin = part_begin, .out_begin = middle(out, crop)};
}

}  // namespace

std::string_view name_of(Filter filter) { return filter == Filter::bilinear ? "bilinear" : "bicubic"; }

void resize(io::Image& image, int64_t height, int64_t width, Filter filter, TransformScratch& scratch) {
  if (image.height == height && image.width == width) return;
  scratch.other.resize(height, width, image.channels);
  kernels::resample({.x = view_of(image), .y = view_of(scratch.other), .filter = filter}, scratch.resample);
  std::swap(image, scratch.other);
}

Resize::Resize(ResizeOptions options) : options_(options) {
  check(options.size > 0, "resize: a size of ", options.size);
}

void Resize::apply(io::Image& image, Draws&, TransformScratch& scratch) const {
  const Size size = resized(image.height, image.width, options_.size);
  resize(image, size.height, size.width, options_.filter, scratch);
}

std::string Resize::text() const {
  return detail::join("resize ", options_.size, ' ', name_of(options_.filter));
}

CenterCrop::CenterCrop(int64_t height, int64_t width) : height_(height), width_(width) {
  check(height > 0 && width > 0, "center_crop: a size of (", height, ", ", width, ")");
}

void CenterCrop::apply(io::Image& image, Draws&, TransformScratch& scratch) const {
  if (image.height < height_ || image.width < width_) {
    const int64_t height = std::max(image.height, height_), width = std::max(image.width, width_);
    io::Image& padded = scratch.other;
    padded.resize(height, width, image.channels);
    std::fill(padded.pixels.begin(), padded.pixels.end(), uint8_t(0));
    const int64_t top = (height - image.height) / 2, left = (width - image.width) / 2;
    for (int64_t y = 0; y < image.height; ++y)
      std::copy_n(image.row(y), image.row_bytes(), padded.row(top + y) + left * image.channels);
    std::swap(image, padded);
  }
  cut(image, {middle(image.height, height_), middle(image.width, width_), height_, width_});
}

std::string CenterCrop::text() const { return detail::join("center_crop ", height_, " x ", width_); }

ResizeCenterCrop::ResizeCenterCrop(ResizeCropOptions options) : options_(options) {
  check(options.crop > 0 && options.crop <= options.size, "resize_center_crop: a crop of ", options.crop,
        " from a short side of ", options.size);
}

io::Box ResizeCenterCrop::box(int64_t height, int64_t width, Draws&) const {
  const Size size = resized(height, width, options_.size);
  auto reads = [&](int64_t in, int64_t out) {
    const int64_t begin = middle(out, options_.crop);
    return kernels::resample_reads(in, out, begin, begin + options_.crop, options_.filter);
  };
  const auto rows = reads(height, size.height), columns = reads(width, size.width);
  return {rows.begin, columns.begin, rows.size(), columns.size()};
}

void ResizeCenterCrop::apply_to_part(const Part& part, io::Image& image, TransformScratch& scratch) const {
  const Size size = resized(part.height, part.width, options_.size);
  const bool whole = size.height == options_.crop && size.width == options_.crop;
  if (whole && image.height == options_.crop && image.width == options_.crop) return;
  scratch.other.resize(options_.crop, options_.crop, image.channels);
  kernels::resample({.x = view_of(image),
                     .y = view_of(scratch.other),
                     .filter = options_.filter,
                     .vertical = axis_of(part.height, size.height, options_.crop, part.box.top),
                     .horizontal = axis_of(part.width, size.width, options_.crop, part.box.left)},
                    scratch.resample);
  std::swap(image, scratch.other);
}

std::string ResizeCenterCrop::text() const {
  return detail::join("resize ", options_.size, ' ', name_of(options_.filter), ", center_crop ",
                      options_.crop);
}

}  // namespace reprise::data
