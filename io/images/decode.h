// Image files of any kind that is read: JPEG and PNG, told apart by their first bytes, never by their names.
#pragma once

#include <string>
#include <string_view>

#include "reprise/io/images/image.h"

namespace reprise::io {

/// Kinds of image files that are read.
enum class ImageFormat { jpeg, png };

/// Error if `bytes` are another kind of file, naming it where it is known; `name` stands in messages.
ImageFormat image_format(std::string_view bytes, const std::string& name);

/// Decodes a file in memory; what is wrong with it is an Error naming it and the byte.
void decode_image(std::string_view bytes, const std::string& name, const DecodeOptions& options,
                  Image& image);

/// Reads and decodes a file.
void read_image(const std::string& path, const DecodeOptions& options, Image& image);

}  // namespace reprise::io
