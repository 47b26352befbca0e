#include "reprise/distributed/same_on_all.h"

#include <algorithm>
#include <vector>

namespace reprise::distributed {
namespace {

std::string line_at(const std::string& text, size_t begin) {
  const std::string line = text.substr(begin, text.find('\n', begin) - begin);
  return line.empty() ? "no more" : line;
}

}  // namespace

void check_same_on_all(ProcessGroup& group, const std::string& what, const std::string& lines) {
  const std::vector<std::string> texts = group.gather_text(lines);
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const size_t same = size_t(std::ranges::mismatch(texts[0], texts[rank]).in1 - texts[0].begin());
    const size_t end_of_line = same ? texts[0].rfind('\n', same - 1) : std::string::npos;
    const size_t begin = end_of_line == std::string::npos ? 0 : end_of_line + 1;
    fail(what, ": ranks differ: rank 0 has ", line_at(texts[0], begin), ", rank ", rank, " has ",
         line_at(texts[rank], begin));
  }
}

}  // namespace reprise::distributed
