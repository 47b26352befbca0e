// JPEG files; the first byte chooses the options.
#include "reprise/io/images/jpeg.h"

#include "reprise/tests/fuzz/images.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  reprise::fuzz::decodes(data, bytes, reprise::io::Scales::divided, reprise::io::decode_jpeg);
  return 0;
}
