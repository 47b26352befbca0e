// Checks of option values that say what is wanted.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <string_view>

namespace reprise::apps {

/// Whole numbers in decimal digits, and nothing else: no "1e3", "0x10", " 5", "+5" or "010" as octal.
CLI::Validator whole_from(int64_t least, int64_t most = std::numeric_limits<int64_t>::max());
/// The word auto, or what `other` takes.
CLI::Validator or_auto(CLI::Validator other);
/// Finite numbers, in decimal.
CLI::Validator number_from_0();
CLI::Validator number_above_0();
CLI::Validator probability();  ///< in [0, 1)
CLI::Validator fraction();     ///< in (0, 1)
CLI::Validator above_0_to_1();
CLI::Validator power_of_two();  ///< from 1 to 2^127
/// An option that was, which is told by its name: "--memory-budget: the budget is part of --recompute, as auto:2GiB".
void add_former_option(CLI::App& group, const std::string& name, const std::string& now);
/// What a path has to be.
CLI::Validator not_empty();
/// What `parse` does not throw an Error at; its message is the complaint.
CLI::Validator parsed_by(std::function<void(std::string_view)> parse);

}  // namespace reprise::apps
