// PNG files; the first byte chooses the options.
#include "reprise/io/images/png.h"

#include "reprise/tests/fuzz/images.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  reprise::fuzz::decodes(data, bytes, reprise::io::Scales::whole, reprise::io::decode_png);
  return 0;
}
