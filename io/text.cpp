// Reading a corpus: one file, many files or standard input.
#include "reprise/io/text.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "reprise/core/error.h"
#include "reprise/io/file.h"
#include "reprise/io/utf8.h"

namespace reprise::io {
namespace {

namespace fs = std::filesystem;

std::string read_standard_input() {
  std::string text;
  size_t used = 0;
  for (;;) {
    if (text.size() - used < 65536) text.resize(std::max<size_t>(2 * text.size(), 131072));
    ssize_t got = ::read(STDIN_FILENO, text.data() + used, text.size() - used);
    if (got < 0 && errno == EINTR) continue;
    check(got >= 0, "read: standard input: ", std::strerror(errno));
    if (got == 0) break;
    used += size_t(got);
  }
  text.resize(used);
  return text;
}

std::vector<std::string> text_files(const std::string& folder) {
  std::vector<std::string> all, txt;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    std::error_code broken_link;
    if (!entry->is_regular_file(broken_link)) continue;
    all.push_back(entry->path().string());
    if (entry->path().extension() == ".txt") txt.push_back(all.back());
  }
  check(!error, "text: ", folder, ": ", error.message());
  check(!all.empty(), "text: ", folder, ": the folder holds no regular file");
  std::vector<std::string>& chosen = txt.empty() ? all : txt;
  std::sort(chosen.begin(), chosen.end());
  return std::move(chosen);
}

std::string read_checked(const std::string& path) {
  std::string text = read_file(path);
  check_utf8(text, path);
  return text;
}

std::string read_folder(const std::string& folder) {
  std::string text;
  for (const std::string& path : text_files(folder)) {
    if (!text.empty() && text.back() != '\n') text += '\n';
    text += read_checked(path);
  }
  return text;
}

}  // namespace

std::string read_text(const std::string& source) {
  std::string text;
  std::error_code error;  // what is wrong with a path that is no folder, reading it tells better
  if (source == "-") {
    text = read_standard_input();
    check_utf8(text, "standard input");
  } else if (fs::is_directory(source, error)) {
    text = read_folder(source);
  } else {
    text = read_checked(source);
  }
  check(!text.empty(), "text: ", source == "-" ? "standard input" : source, ": holds no text");
  return text;
}

std::pair<std::string_view, std::string_view> split_text(std::string_view text, double fraction) {
  check(fraction > 0 && fraction < 1, "split_text: fraction is ", fraction, ", it must lie between 0 and 1");
  auto is_lead = [](char c) { return (c & 0xC0) != 0x80; };
  auto characters = std::count_if(text.begin(), text.end(), is_lead);
  auto wanted = int64_t(double(characters) * fraction);
  check(wanted > 0 && wanted < characters, "split_text: ", characters, " characters are too few to split");
  size_t position = 0;
  for (int64_t seen = 0; position < text.size(); ++position) {
    if (is_lead(text[position]) && seen++ == wanted) break;
  }
  return {text.substr(0, position), text.substr(position)};
}

}  // namespace reprise::io
