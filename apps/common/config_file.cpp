// TOML in and out for CLI11, through toml++.
#include "config_file.h"

#include <toml++/toml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>

#include "reprise/core/error.h"

namespace reprise::apps {
namespace {

std::string text_of(const toml::node& value) {
  if (auto text = value.as_string()) return text->get();
  std::ostringstream out;
  value.visit([&](const auto& typed) { out << typed; });
  return out.str();
}

// Keys at the top level and inside tables alike name options; tables only group them for the reader.
void collect(const toml::table& table, std::vector<CLI::ConfigItem>& items) {
  for (auto&& [key, value] : table) {
    if (auto inner = value.as_table()) {
      collect(*inner, items);
      continue;
    }
    CLI::ConfigItem item;
    item.name = std::string(key.str());
    std::replace(item.name.begin(), item.name.end(), '_', '-');
    if (auto list = value.as_array()) {
      for (const toml::node& element : *list) item.inputs.push_back(text_of(element));
    } else {
      item.inputs.push_back(text_of(value));
    }
    items.push_back(std::move(item));
  }
}

class TomlConfig final : public CLI::ConfigBase {
 public:
  std::vector<CLI::ConfigItem> from_config(std::istream& in) const override {
    std::vector<CLI::ConfigItem> found;
    try {
      collect(toml::parse(in), found);
    } catch (const toml::parse_error& error) {
      std::ostringstream text;
      text << "line " << error.source().begin.line << ": " << error.description();
      throw CLI::ConversionError(text.str());
    }
    return found;
  }
};

std::string toml_string(const std::string& text) {
  std::ostringstream out;
  out << toml::value<std::string>(text);
  return out.str();
}

bool is_plain_number(const std::string& text) {
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0' && (std::isdigit(text[0]) || text[0] == '-');
}

}  // namespace

void add_config_option(CLI::App& command) {
  command.config_formatter(std::make_shared<TomlConfig>());
  command.set_config("--config", "", "Read options from a TOML file; the command line wins")
      ->check(CLI::ExistingFile);
  command.allow_config_extras(CLI::config_extras_mode::error);
}

std::string resolved_config(const CLI::App& command) {
  std::ostringstream out;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_lnames().empty()) continue;
    const std::string& name = option->get_lnames().front();
    if (name == "help" || name == "config" || name == "resume") continue;
    std::string value =
        option->count() ? CLI::detail::join(option->results(), " ") : option->get_default_str();
    if (value.empty()) continue;
    bool plain = is_plain_number(value) || value == "true" || value == "false";
    out << name << " = " << (plain ? value : toml_string(value)) << '\n';
  }
  return out.str();
}

}  // namespace reprise::apps
