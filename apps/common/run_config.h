// Going on with the options that a run was started with.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace reprise::apps {

/// An option that was given to a resumed run and has another value than the run's own.
struct OptionChange {
  std::string option;    ///< "--lr"
  std::string was, now;  ///< as written; empty: none
};

/// "--lr 0.001 (now 0.01), --data a.txt (now b.txt)"
std::string to_string(const std::vector<OptionChange>& changes);

/// Sets every option that the config.toml of a run names and neither the command line nor --config does, and
/// returns those given that differ. Options of the call itself (--out, --resume, ...) never differ. Error
/// naming file and key if one is unknown or its value does not fit.
std::vector<OptionChange> take_run_config(CLI::App& command, const std::string& path);

}  // namespace reprise::apps
