// Options in TOML.
#include "reprise/apps/common/config_file.h"
#include "reprise/tests/fuzz/fuzz.h"

using namespace reprise;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  std::string path = fuzz::write("config.toml", fuzz::text_of(data, bytes));
  fuzz::reads(bytes, [&] { apps::read_config(path); });
  return 0;
}
