// `--config file.toml`: TOML files as a source of option values.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace reprise::apps {

/// Adds `--config` to a subcommand: any of its options may stand in the file under its long name, with `-` or
/// `_`. The command line wins over the file. Errors name file, line and key.
void add_config_option(CLI::App& command);

/// The options of a command as they were resolved, as TOML: what the run folder keeps.
std::string resolved_config(const CLI::App& command);

}  // namespace reprise::apps
