// Where the build was told that the source tree is.
#include "reprise/tests/support/golden.h"

namespace reprise::testing {

std::string golden_path(const std::string& name) { return REPRISE_SOURCE_DIR "/tests/golden/" + name; }

}  // namespace reprise::testing
