// EXIF: whatever orientation comes out, a turned part is the part of the turned whole.
#include "reprise/io/images/exif.h"

#include "reprise/tests/fuzz/fuzz.h"

using namespace reprise;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  io::Orientation orientation;
  fuzz::reads(bytes, [&] { orientation = io::exif_orientation(fuzz::text_of(data, bytes)); });
  io::Image stored, upright;
  stored.resize(3, 5, 1);
  for (size_t i = 0; i < stored.pixels.size(); ++i) stored.pixels[i] = uint8_t(i);
  io::turn_upright(stored, orientation, upright);
  for (int64_t y = 0; y < upright.height; ++y) {
    for (int64_t x = 0; x < upright.width; ++x) {
      io::Box box = io::stored_box(orientation, {y, x, 1, 1}, stored.height, stored.width);
      fuzz::require(stored.row(box.top)[box.left] == upright.row(y)[x],
                    "a pixel that is not where it came from");
    }
  }
  return 0;
}
