// Files of reference numbers under tests/golden.
#pragma once

#include <string>

namespace reprise::testing {

/// The path of tests/golden/`name`, in the source tree.
std::string golden_path(const std::string& name);

}  // namespace reprise::testing
