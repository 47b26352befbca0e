// Which version of Reprise this is.
#pragma once

namespace reprise {

/// "0.1.0": that of the project in CMakeLists.txt.
const char* version();

}  // namespace reprise
