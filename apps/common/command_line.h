// Parsing of a program's arguments.
#pragma once

#include <CLI/CLI.hpp>

namespace reprise::apps {

/// Parses the arguments into the options of `app`, whose name is the program's. Prints help and exits the
/// process with 0 where asked; Error, with the help to look at, on arguments that do not fit.
void parse_arguments(CLI::App& app, int argc, char** argv);

}  // namespace reprise::apps
