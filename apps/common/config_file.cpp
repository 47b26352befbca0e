// TOML in and out for CLI11, through toml++.
#include "reprise/apps/common/config_file.h"

#include <toml++/toml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "reprise/core/error.h"
#include "reprise/io/file.h"

namespace reprise::apps {
namespace {

std::string text_of(const toml::node& value) {
  if (auto text = value.as_string()) return text->get();
  TextStream out;
  value.visit([&](const auto& typed) { out << typed; });
  return out.str();
}

// "FILE:3: layers"
std::string place(const std::string& path, const toml::node& value, std::string_view key) {
  return detail::join(path, ':', value.source().begin.line, ": ", key);
}

void set_option(CLI::App& command, const std::string& key, const toml::node& value, const std::string& path) {
  std::string name = key;
  std::replace(name.begin(), name.end(), '_', '-');
  CLI::Option* option = command.get_option_no_throw("--" + name);
  check(option && name != "config" && name != "help", place(path, value, key), ": there is no such option");
  if (option->count() > 0) return;  // the command line wins
  try {
    option->add_result(text_of(value));
    option->run_callback();
  } catch (const CLI::Error& error) { fail(place(path, value, key), ": ", error.what()); }
}

// Keys at the top level and inside tables alike name options; tables only group them for the reader.
void set_options(CLI::App& command, const toml::table& table, const std::string& path) {
  for (auto&& [key, value] : table) {
    if (auto inner = value.as_table()) {
      set_options(command, *inner, path);
    } else {
      set_option(command, std::string(key.str()), value, path);
    }
  }
}

void collect(std::map<std::string, std::string>& into, const toml::table& table) {
  for (auto&& [key, value] : table) {
    if (auto inner = value.as_table()) {
      collect(into, *inner);
    } else {
      into[std::string(key.str())] = text_of(value);
    }
  }
}

constexpr uint64_t largest_config = 1 << 15;  // a parsed table takes up to 30 times its text

toml::table parse(const std::string& path) {
  try {
    return toml::parse(io::read_file(path, largest_config), path);
  } catch (const toml::parse_error& error) {
    fail(path, ':', error.source().begin.line, ": ", error.description());
  }
}

std::string toml_string(const std::string& text) {
  TextStream out;
  out << toml::value<std::string>(text);
  return out.str();
}

bool is_plain_number(const std::string& text) {
  double number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(number);
}

// What starts or continues a run is not part of what it is.
bool is_about_the_call(const std::string& name) {
  return name == "resume" || name == "out" || name == "stop-after";
}

void write_option(std::ostream& out, const CLI::Option& option) {
  if (option.get_lnames().empty() || is_about_the_call(option.get_lnames().front())) return;
  std::string value = option.count() ? CLI::detail::join(option.results(), " ") : option.get_default_str();
  if (value.empty()) return;
  bool plain = is_plain_number(value) || value == "true" || value == "false";
  out << option.get_lnames().front() << " = " << (plain ? value : toml_string(value)) << '\n';
}

}  // namespace

void add_config_option(CLI::App& command) {
  command.add_option("--config", "Read options from a TOML file; the command line wins")
      ->check(CLI::ExistingFile);
}

void apply_config(CLI::App& command) {
  const CLI::Option* config = command.get_option("--config");
  if (config->count() == 0) return;
  std::string path = config->results().front();
  set_options(command, parse(path), path);
}

std::map<std::string, std::string> read_config(const std::string& path) {
  std::map<std::string, std::string> values;
  collect(values, parse(path));
  return values;
}

std::string resolved_config(const CLI::App& command) {
  TextStream out;
  for (const CLI::App* group :
       command.get_subcommands([](const CLI::App* app) { return app->get_name().empty(); })) {
    out << "# " << group->get_group() << '\n';
    for (const CLI::Option* option : group->get_options()) write_option(out, *option);
    out << '\n';
  }
  return out.str();
}

}  // namespace reprise::apps
