// PNG files (ISO/IEC 15948), by libpng.
#pragma once

#include <string>
#include <string_view>

#include "reprise/io/images/image.h"

namespace reprise::io {

/// True if `bytes` begin with PNG's signature of 8 bytes; no more is looked at.
inline bool is_png(std::string_view bytes) { return bytes.starts_with("\x89PNG\r\n\x1a\n"); }

/// Decodes every kind of PNG: 16 bits become round(v / 257), alpha is dropped, palettes and fewer bits are expanded;
/// gamma and colour profiles are ignored. Of a region only the rows down to its end are read (all of an interlaced file),
/// so damage behind them is not seen. Error, naming the file and the byte, if it is damaged; nothing is allocated before
/// its size is checked. `name` stands in messages.
void decode_png(std::string_view bytes, const std::string& name, const DecodeOptions& options, Image& image);

/// `image` as a file of 8 bits, gray or colour.
std::string encode_png(const Image& image);

}  // namespace reprise::io
