// Images compared value by value: how far apart, and where first.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

#include "reprise/io/images/image.h"

namespace reprise::testing {

/// Success if the sizes agree and no value differs by more than `most`; else the first that does.
inline ::testing::AssertionResult same_image(const io::Image& got, const io::Image& want, int most = 0) {
  if (got.height != want.height || got.width != want.width || got.channels != want.channels)
    return ::testing::AssertionFailure()
           << "sizes differ: got (" << got.height << ", " << got.width << ", " << got.channels << "), want ("
           << want.height << ", " << want.width << ", " << want.channels << ")";
  size_t differ = 0, first = 0;
  for (size_t i = want.pixels.size(); i-- > 0;)
    if (std::abs(got.pixels[i] - want.pixels[i]) > most) ++differ, first = i;
  if (differ == 0) return ::testing::AssertionSuccess();
  const int64_t pixel = int64_t(first) / want.channels;
  return ::testing::AssertionFailure()
         << differ << " of " << want.pixels.size() << " values differ; the first at (" << pixel / want.width
         << ", " << pixel % want.width << ", " << int64_t(first) % want.channels << "): got "
         << int(got.pixels[first]) << ", want " << int(want.pixels[first]);
}

}  // namespace reprise::testing
