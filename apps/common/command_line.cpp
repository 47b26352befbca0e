// CLI11's parsing with our errors and output.
#include "reprise/apps/common/command_line.h"

#include <cstdlib>
#include <sstream>

#include "reprise/core/error.h"
#include "reprise/core/quote.h"
#include "reprise/train/output.h"

namespace reprise::apps {
namespace {

// A value with line breaks is shown in the message.
std::string one_line(std::string message) {
  for (size_t at; (at = message.find('\n')) != std::string::npos;) message.replace(at, 1, "\\n");
  return message;
}

}  // namespace

void parse_arguments(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help
    std::ostringstream help, nothing;
    app.exit(success, help, nothing);
    train::print_text(help.str());
    std::exit(0);
  } catch (const CLI::ParseError& error) {
    auto is_given = [&](const CLI::App* command) { return argc > 1 && command->get_name() == argv[1]; };
    bool known = !app.get_subcommands(is_given).empty();
    check(known || argc < 2 || argv[1][0] == '-' || app.get_subcommands({}).empty(), "there is no command '",
          printable(argc < 2 ? "" : argv[1]), "' (see ", app.get_name(), " --help)");
    fail(one_line(error.what()), " (see ", app.get_name(), known ? " " : "", known ? argv[1] : "",
         " --help)");
  }
}

std::set<std::string> names_in(const CLI::App& group) {
  std::set<std::string> names;
  for (const CLI::Option* option : group.get_options())
    if (!option->get_lnames().empty()) names.insert(option->get_lnames().front());
  return names;
}

std::string given_in(const CLI::App& group) {
  std::string given;
  for (const std::string& name : names_in(group))
    if (group.get_option("--" + name)->count() > 0) given += (given.empty() ? "--" : ", --") + name;
  return given;
}

}  // namespace reprise::apps
