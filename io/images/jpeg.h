// JPEG files (ITU-T T.81), by libjpeg-turbo: the accurate integer DCT and smooth upsampling, so that pixels are Pillow's
// and torchvision's to the bit.
#pragma once

#include <string>
#include <string_view>

#include "reprise/io/images/image.h"

namespace reprise::io {

/// True if `bytes` begin as a JPEG file does (FF D8 FF); no more is looked at.
inline bool is_jpeg(std::string_view bytes) { return bytes.starts_with("\xff\xd8\xff"); }

/// Decodes gray, colour and CMYK files of 8 bits, baseline or progressive. Of a region only the rows down to its end are
/// read, so damage behind them is not seen. Error, naming the file and the byte, if it is damaged or of another kind;
/// nothing is allocated before its size is checked. `name` stands in messages.
void decode_jpeg(std::string_view bytes, const std::string& name, const DecodeOptions& options, Image& image);

/// `image` as a baseline file of quality 1 to 100; colour is stored at half the resolution (4:2:0).
std::string encode_jpeg(const Image& image, int quality);

}  // namespace reprise::io
