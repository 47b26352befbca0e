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

/// Call it after parsing: sets every option that the file names and the command line does not. Error naming
/// file, line and key if one is unknown or its value does not fit.
void apply_config(CLI::App& command);

/// The options of a command as they were resolved, as TOML: what the run folder keeps.
std::string resolved_config(const CLI::App& command);

/// The values of a TOML file as text, by key, tables or not. Error naming file and line if it is not TOML.
std::map<std::string, std::string> read_config(const std::string& path);

}  // namespace reprise::apps
