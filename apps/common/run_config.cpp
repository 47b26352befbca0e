// The options of a run below those of the command line.
#include "reprise/apps/common/run_config.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "reprise/apps/common/config_file.h"
#include "reprise/core/error.h"
#include "reprise/core/number_in.h"

namespace reprise::apps {
namespace {

// 1e-3 is 0.001; but two seeds of 19 digits that are the same double are not the same seed.
bool same_value(const std::string& a, const std::string& b) {
  if (a == b) return true;
  if (number_in<int64_t>(a) && number_in<int64_t>(b)) return number_in<int64_t>(a) == number_in<int64_t>(b);
  return number_in<double>(a) && number_in<double>(a) == number_in<double>(b);
}

std::string value_of(const CLI::Option& option) {
  return option.count() > 0 ? CLI::detail::join(option.results(), " ") : option.get_default_str();
}

void set(CLI::Option& option, const std::string& value, const std::string& path) {
  try {
    option.add_result(value);
    option.run_callback();
  } catch (const CLI::Error& error) { fail(path, ": ", option.get_lnames().front(), ": ", error.what()); }
}

std::vector<CLI::Option*> options_of(CLI::App& command) {
  std::vector<CLI::Option*> all;
  for (CLI::App* group : command.get_subcommands([](const CLI::App* app) { return app->get_name().empty(); }))
    for (CLI::Option* option : group->get_options())
      if (!option->get_lnames().empty() && !is_about_the_call(option->get_lnames().front()))
        all.push_back(option);
  return all;
}

}  // namespace

std::string to_string(const std::vector<OptionChange>& changes) {
  auto shown = [](const std::string& value) { return value.empty() ? std::string("none") : value; };
  std::string text;
  for (const OptionChange& change : changes)
    text += (text.empty() ? "" : ", ") + change.option + " " + shown(change.was) + " (now " +
            shown(change.now) + ")";
  return text;
}

std::vector<OptionChange> take_run_config(CLI::App& command, const std::string& path) {
  std::map<std::string, std::string> own;
  for (const auto& [key, value] : read_config(path)) {
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', '-');
    own[name] = value;
  }
  // As runs were written once: a budget of its own.
  if (auto budget = own.extract("memory-budget"); !budget.empty() && own["recompute"] == "auto")
    own["recompute"] = "auto:" + budget.mapped();
  std::vector<OptionChange> changes;
  for (CLI::Option* option : options_of(command)) {
    std::string name = option->get_lnames().front();
    auto found = own.extract(name);
    std::string was = found.empty() ? option->get_default_str() : found.mapped();
    if (option->count() == 0) {
      if (!found.empty()) set(*option, was, path);
      continue;
    }
    // A flag that was never given stands in no file.
    if (was.empty() && value_of(*option) == "false") continue;
    if (!same_value(was, value_of(*option))) changes.push_back({"--" + name, was, value_of(*option)});
  }
  // As runs were written once: --peer-timeout was among them.
  std::erase_if(own, [](const auto& entry) { return is_about_the_call(entry.first); });
  check(own.empty(), path, ": ", own.empty() ? "" : own.begin()->first, ": there is no such option");
  return changes;
}

}  // namespace reprise::apps
