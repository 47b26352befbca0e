// `--config file.toml`: TOML files as a source of option values.
#pragma once

#include <map>
#include <string>

namespace CLI {
class App;
}

namespace reprise::apps {

/// Adds `--config` to a subcommand: any of its options may stand in the file under its long name, with `-` or
/// `_`.
void add_config_option(CLI::App& command);

/// Call it after parsing: sets every option that the file names and the command line does not, and returns
/// where each of these stands, "--layers" at "FILE:3: layers". Error naming file, line and key if one is
/// unknown, is there twice or its value does not fit; only regular files are read.
std::map<std::string, std::string> apply_config(CLI::App& command);

/// Sets every option that `values` names, by long name, and nothing else has set. Error naming `source` if one is unknown
/// or its value does not fit.
void take_defaults(CLI::App& command, const std::map<std::string, std::string>& values,
                   const std::string& source);

/// The message with the places of the options that it names, where they are from a file.
std::string with_places(const std::string& message, const std::map<std::string, std::string>& places);

/// Whether an option, by its long name, says what to do with a run rather than what it is: config files do
/// not keep it.
bool is_about_the_call(const std::string& name);

/// The options of a command as they were resolved, as TOML: what the run folder keeps. A path that is not
/// UTF-8 is written as `io::bytes_as_utf8` has it, and read back to the same bytes.
std::string resolved_config(const CLI::App& command);

/// The values of a TOML file as text, by the long name of the option, tables or not. Error naming file and
/// line if it is not TOML.
std::map<std::string, std::string> read_config(const std::string& path);

}  // namespace reprise::apps
