// What a decoder does with whole rows of pixels: the wanted columns of them, in the wanted channels.
#pragma once

#include <cstdint>
#include <string>

#include "reprise/io/images/exif.h"
#include "reprise/io/images/image.h"

namespace reprise::io {

/// Copies `width` pixels and turns them from 1 or 3 channels into 1 or 3: gray is replicated; colour becomes the luma of
/// ITU-R 601-2 as Pillow rounds it, (19595 red + 38470 green + 7471 blue + 32768) >> 16.
void convert_row(const uint8_t* from, int64_t from_channels, int64_t width, uint8_t* to, int64_t to_channels);

/// The part of an image of `height` x `width` that `options` want. Error naming the image if the part reaches beyond it
/// or holds no pixel, or if the channels are neither 1 nor 3.
Box wanted_box(const DecodeOptions& options, int64_t height, int64_t width, const std::string& name);

/// By what a part is divided that is decoded smaller: 4 or 2 if it stays twice `target` both ways, which leaves the
/// resampling its say in every pixel; else 1. By 8 libjpeg is no faster than by 4.
int64_t shrink_for(const Box& part, Size target);

/// Error unless a file of `file_bytes` may hold an image of that size: at least a pixel, at most 178,956,970 (where Pillow
/// stops) and no more than either format can pack into so few bytes. For decoders to call before they allocate.
void check_size(int64_t height, int64_t width, size_t file_bytes, const std::string& name);

enum class Scales { whole, divided };  ///< whether a decoder can make an image smaller on its way

/// Rows of a file's image on their way into memory: cut out, in the wanted channels, at last turned upright.
class RowsOfFile {
 public:
  /// Asks `options` for the region. The image is `height` x `width` as it is stored.
  RowsOfFile(const DecodeOptions& options, Orientation orientation, int64_t height, int64_t width,
             const std::string& name, Image& image, Scales scales = Scales::whole);

  /// What the stored image is to be divided by: 1 where the decoder makes none smaller.
  int64_t shrink() const { return shrink_; }
  /// The part of the stored image, divided, whose rows are wanted.
  const Box& box() const { return box_; }
  /// Takes row `y` of the part: `pixels` begins at its first column. Allocates nothing and throws nothing.
  void put(int64_t y, const uint8_t* pixels, int64_t channels) {
    convert_row(pixels, channels, box_.width, stored().row(y), stored().channels);
  }
  /// Turns the image, once it has all rows.
  void finish();

 private:
  Image& stored() { return orientation_.is_upright() ? image_ : turned_; }

  Orientation orientation_;
  int64_t shrink_;
  Box box_;
  Image& image_;
  Image turned_{};  // as it is stored, where that is not upright
};

/// That part of `pixels`, an image u8 (height, width, channels) in memory.
void cut_image(const uint8_t* pixels, int64_t height, int64_t width, int64_t channels,
               const DecodeOptions& options, const std::string& name, Image& image);

}  // namespace reprise::io
