// Checks of option values that say what is wanted.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

namespace reprise::apps {

CLI::Validator whole_from(int64_t least);
CLI::Validator number_from_0();
CLI::Validator probability();  ///< in [0, 1)

}  // namespace reprise::apps
