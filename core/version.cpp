#include "reprise/core/version.h"

namespace reprise {

const char* version() { return REPRISE_VERSION; }

}  // namespace reprise
