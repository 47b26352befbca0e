// How images that cannot be read are handled.
#pragma once

#include <cstdint>

namespace reprise::data {

/// What an image that cannot be read means for training.
enum class BadImages : uint8_t {
  error,       ///< the step that needs it fails, with the file and the reason
  substitute,  ///< another image of its class stands in, drawn by (seed, epoch, index, try)
};

}  // namespace reprise::data
