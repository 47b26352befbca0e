// Standard output and standard error as the programs write them: at once, so that a pipe shows them, and
// never lost in silence.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

namespace reprise::train {

/// Writes what the program was asked for. Error "standard output: REASON" if it cannot be written.
void print_text(std::string_view text);

/// Writes what only tells of work that goes on without it: the first text that cannot be written is told on
/// standard error, no later one is.
void report_text(std::string_view text);

/// Writes to standard error; a failure of that cannot be told.
void warn_text(std::string_view text);

/// From now on what is written to standard error is also added to this file, which comes with the first text.
void keep_warnings(const std::string& path);

/// Whether standard output is a terminal.
bool is_terminal();

/// The columns of that terminal; where it does not say, those of COLUMNS, or 80.
int terminal_columns();

/// `text` as standard output may be given it: `printable` on a terminal, as it is to a file or pipe.
std::string for_output(std::string text);

/// `print_text`, `report_text` and `warn_text` of what fmt makes of the arguments.
template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  print_text(fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void report(fmt::format_string<Args...> format, Args&&... args) {
  report_text(fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  warn_text(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace reprise::train
