// manifest.json of a checkpoint, beside files of known contents.
#include "reprise/train/checkpoint/manifest.h"

#include "reprise/tests/fuzz/fuzz.h"

using namespace reprise;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  static const bool written = [] {
    fuzz::write("model.safetensors", "abc");
    fuzz::write("optimizer.safetensors", "");
    return true;
  }();
  fuzz::write("manifest.json", fuzz::text_of(data, bytes));
  fuzz::reads(bytes + 3 * written, [&] { train::check_manifest(fuzz::folder()); });
  return 0;
}
