// Reading a corpus: one file, many files or standard input.
#include "reprise/io/text/text.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <vector>

#include "reprise/core/error.h"
#include "reprise/io/file.h"
#include "reprise/io/file_calls.h"
#include "reprise/io/folder.h"
#include "reprise/io/utf8.h"

namespace reprise::io {
namespace {

namespace fs = std::filesystem;

// In pieces that are put together once at the end: a string that grows would take thrice its bytes.
std::string read_standard_input() {
  constexpr size_t piece_bytes = 1 << 18;
  std::vector<std::string> pieces(1);
  size_t total = 0;
  for (;;) {
    std::string& piece = pieces.back();
    size_t used = piece.size();
    piece.resize(piece_bytes);
    ssize_t got = file_calls().read(STDIN_FILENO, piece.data() + used, piece_bytes - used);
    int reason = errno;
    piece.resize(used + (got > 0 ? size_t(got) : 0));
    if (got < 0 && reason == EINTR) continue;
    check(got >= 0, "read: standard input: ", std::strerror(reason));
    if (got == 0) break;
    total += size_t(got);
    if (piece.size() == piece_bytes) pieces.emplace_back();
  }
  std::string text;
  text.reserve(total);
  for (std::string& piece : pieces) {
    text += piece;
    std::string().swap(piece);
  }
  return text;
}

std::vector<std::string> text_files(const std::string& folder) {
  std::vector<std::string> all = files_below(folder), txt;
  std::copy_if(all.begin(), all.end(), std::back_inserter(txt),
               [](const std::string& path) { return fs::path(path).extension() == ".txt"; });
  check(!all.empty(), "text: ", folder, ": the folder holds no regular file");
  std::vector<std::string>& chosen = txt.empty() ? all : txt;
  std::sort(chosen.begin(), chosen.end());
  return std::move(chosen);
}

std::string read_folder(const std::string& folder, std::vector<TextPart>& parts) {
  std::string text;
  for (const std::string& path : text_files(folder)) {
    if (!text.empty() && text.back() != '\n') text += '\n';
    parts.push_back({path, text.size()});
    std::string next = read_file(path);
    check_utf8(next, path);
    text += next;
  }
  return text;
}

}  // namespace

std::string read_text(const std::string& source, std::vector<TextPart>* parts) {
  std::string text, name = source == "-" ? "standard input" : source;
  std::vector<TextPart> found;
  std::error_code error;  // what is wrong with a path that is no folder, reading it tells better
  if (source != "-" && fs::is_directory(source, error)) {
    text = read_folder(source, found);
  } else {
    text = source == "-" ? read_standard_input() : read_file(source);
    check_utf8(text, name);
    found.push_back({name, 0});
  }
  check(!text.empty(), "text: ", name, ": holds no text");
  if (parts) *parts = std::move(found);
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
