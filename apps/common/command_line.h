// Parsing of a program's arguments.
#pragma once

#include <CLI/CLI.hpp>
#include <set>
#include <string>

namespace reprise::apps {

/// Parses the arguments into the options of `app`, whose name is the program's. Prints help and exits the
/// process with 0 where asked; Error, with the help to look at, on arguments that do not fit.
void parse_arguments(CLI::App& app, int argc, char** argv);

/// "patch" of each option of a group.
std::set<std::string> names_in(const CLI::App& group);
/// "--patch, --pool": those of them that something has set; empty if none is.
std::string given_in(const CLI::App& group);

}  // namespace reprise::apps
