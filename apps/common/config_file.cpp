// TOML in and out for CLI11, through toml++.
#include "reprise/apps/common/config_file.h"

#include <fmt/core.h>
#include <toml++/toml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <regex>
#include <vector>

#include "reprise/apps/common/toml_text.h"
#include "reprise/apps/common/validators.h"
#include "reprise/core/error.h"
#include "reprise/io/file.h"
#include "reprise/io/utf8.h"

namespace reprise::apps {
namespace {

struct Entry {
  std::string option;  // the long name, without "--"
  std::string place;   // "FILE:3: layers"
  std::string text;    // the value as the command line would have it
};

// "FILE:3"
std::string line_of(const std::string& path, const toml::node& value) {
  return path + ':' + std::to_string(value.source().begin.line);
}

std::string text_of(const toml::node& value, const std::string& place) {
  if (auto text = value.as_string()) return io::bytes_from_utf8(toml_from_ascii(text->get()));
  if (auto whole = value.as_integer()) return std::to_string(whole->get());
  if (auto number = value.as_floating_point())
    return fmt::format("{:#}", number->get());  // 1e3 is no integer
  if (auto truth = value.as_boolean()) return truth->get() ? "true" : "false";
  fail(place, ": holds no number, text, true or false");
}

// Keys at the top level and inside tables alike name options; tables only group them for the reader.
void collect(std::vector<Entry>& into, const toml::table& table, const std::string& path) {
  for (auto&& [key, value] : table) {
    if (auto inner = value.as_table()) {
      collect(into, *inner, path);
      continue;
    }
    std::string name = toml_from_ascii(key.str()), place = line_of(path, value) + ": " + name;
    std::replace(name.begin(), name.end(), '_', '-');
    auto same =
        std::find_if(into.begin(), into.end(), [&](const Entry& entry) { return entry.option == name; });
    check(same == into.end(), place, ": this option is set twice, also at ",
          same == into.end() ? "" : same->place);
    into.push_back({name, place, text_of(value, place)});
  }
}

toml::table parse(const std::string& path) {
  std::string text = io::read_file(path, largest_toml);
  check_toml_text(text, path);
  try {
    return toml::parse(toml_in_ascii(text), path);
  } catch (const toml::parse_error& error) {
    fail(path, ':', error.source().begin.line, ": ", toml_from_ascii(error.description()));
  }
}

std::vector<Entry> entries_of(const std::string& path) {
  std::vector<Entry> entries;
  collect(entries, parse(path), path);
  return entries;
}

// Null if there is none. CLI11's own search ends the program where it finds no memory.
CLI::Option* find_option(CLI::App& command, const std::string& name) {
  std::vector<CLI::App*> groups =
      command.get_subcommands([](const CLI::App* app) { return app->get_name().empty(); });
  groups.push_back(&command);
  for (CLI::App* group : groups)
    for (CLI::Option* option : group->get_options()) {
      const std::vector<std::string>& names = option->get_lnames();
      if (std::find(names.begin(), names.end(), name) != names.end()) return option;
    }
  return nullptr;
}

void set_option(CLI::App& command, const Entry& entry) {
  CLI::Option* option = find_option(command, entry.option);
  check(option && entry.option != "config" && entry.option != "help", entry.place,
        ": there is no such option");
  if (option->count() > 0) return;  // the command line wins
  try {
    bool is_flag = option->get_expected_max() == 0;
    option->add_result(is_flag ? option->get_flag_value(entry.option, entry.text) : entry.text);
    option->run_callback();
  } catch (const CLI::Error& error) { fail(entry.place, ": ", error.what()); }
}

std::string toml_string(const std::string& text) {
  TextStream out;
  out << toml::value<std::string>(io::bytes_as_utf8(text));
  return out.str();
}

// What TOML reads as the number that it is: "1e-3", but neither "01" nor "5.".
bool is_plain_number(const std::string& text) {
  static const std::regex number("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?");
  return std::regex_match(text, number);
}

void write_option(std::ostream& out, const CLI::Option& option) {
  if (option.get_lnames().empty() || is_about_the_call(option.get_lnames().front())) return;
  std::string value = option.count() ? CLI::detail::join(option.results(), " ") : option.get_default_str();
  if (value.empty()) return;
  bool is_text = option.get_type_name() == "TEXT";  // a file may be named 007, a prompt true
  bool plain = !is_text && (is_plain_number(value) || value == "true" || value == "false");
  out << option.get_lnames().front() << " = " << (plain ? value : toml_string(value)) << '\n';
}

}  // namespace

bool is_about_the_call(const std::string& name) {
  return name == "resume" || name == "change" || name == "out" || name == "stop-after" || name == "ranks" ||
         name == "timeout" || name == "peer-timeout" || name == "rank-logs" || name == "rendezvous" ||
         name == "token-file" || name == "bind" || name == "tls-cert" || name == "tls-key" ||
         name == "tls-ca";
}

void add_config_option(CLI::App& command) {
  command.add_option("--config", "Read options from a TOML file; the command line wins")->check(not_empty());
}

std::map<std::string, std::string> apply_config(CLI::App& command) {
  const CLI::Option* config = find_option(command, "config");
  std::map<std::string, std::string> places;
  if (config->count() == 0) return places;
  std::vector<Entry> entries;
  try {
    entries = entries_of(config->results().front());
  } catch (const Error& error) { fail("--config: ", error.what()); }
  for (const Entry& entry : entries) {
    const CLI::Option* option = find_option(command, entry.option);
    bool given = option && option->count() > 0;
    set_option(command, entry);
    if (!given) places["--" + entry.option] = entry.place;
  }
  return places;
}

void take_defaults(CLI::App& command, const std::map<std::string, std::string>& values,
                   const std::string& source) {
  for (const auto& [option, text] : values) set_option(command, {option, source + ": " + option, text});
}

std::string with_places(const std::string& message, const std::map<std::string, std::string>& places) {
  auto names = [&](const std::string& option) {
    for (size_t at = message.find(option); at != std::string::npos; at = message.find(option, at + 1)) {
      char next = at + option.size() < message.size() ? message[at + option.size()] : ' ';
      if (!std::isalnum(static_cast<unsigned char>(next)) && next != '-') return true;
    }
    return false;
  };
  std::string added;
  for (const auto& [option, place] : places)
    if (names(option)) added += (added.empty() ? " (from " : ", ") + place;
  return added.empty() ? message : message + added + ")";
}

std::map<std::string, std::string> read_config(const std::string& path) {
  std::map<std::string, std::string> values;
  for (const Entry& entry : entries_of(path)) values[entry.option] = entry.text;
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
