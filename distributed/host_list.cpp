#include "reprise/distributed/host_list.h"

#include "reprise/core/error.h"
#include "reprise/core/number_in.h"
#include "reprise/core/quote.h"

namespace reprise::distributed {
namespace {

constexpr size_t most_hosts = 65536;

// Pieces between commas that stand outside of brackets.
std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> pieces(1);
  int depth = 0;
  for (char c : text) {
    depth += (c == '[') - (c == ']');
    if (c == ',' && depth == 0)
      pieces.emplace_back();
    else
      pieces.back() += c;
  }
  return pieces;
}

// "01-03" or "7" behind `stem`, before `rest`, which may hold brackets too.
void append_range(const std::string& text, const std::string& stem, const std::string& range,
                  const std::string& rest, std::vector<std::string>& hosts) {
  const size_t dash = range.find('-');
  const std::string low = range.substr(0, dash);
  const auto first = number_in<uint32_t>(low);
  const auto last = dash == std::string::npos ? first : number_in<uint32_t>(range.substr(dash + 1));
  check(first && last && *first <= *last && *last - *first < most_hosts,
        "environment: SLURM_STEP_NODELIST is ", quote(text), ", where ", quote(range),
        " is no range of numbers");
  for (uint64_t i = *first; i <= *last; ++i) {
    std::string digits = std::to_string(i);
    digits.insert(0, low.size() > digits.size() ? low.size() - digits.size() : 0, '0');
    for (const std::string& end : hosts_of(rest.empty() ? "." : rest)) {
      hosts.push_back(stem + digits + (rest.empty() ? "" : end));
      check(hosts.size() <= most_hosts, "environment: SLURM_STEP_NODELIST has more than ", most_hosts,
            " hosts");
    }
  }
}

}  // namespace

std::vector<std::string> hosts_of(const std::string& text) {
  std::vector<std::string> hosts;
  for (const std::string& piece : split_at_commas(text)) {
    const size_t open = piece.find('[');
    const size_t close = piece.find(']');
    check(!piece.empty() && (open == std::string::npos) == (close == std::string::npos) && open <= close,
          "environment: SLURM_STEP_NODELIST is ", quote(text), ", no list of hosts");
    if (open == std::string::npos) {
      hosts.push_back(piece);
      continue;
    }
    for (const std::string& range : split_at_commas(piece.substr(open + 1, close - open - 1)))
      append_range(text, piece.substr(0, open), range, piece.substr(close + 1), hosts);
  }
  return hosts;
}

}  // namespace reprise::distributed
