// Tokens in one piece of memory.
#include "reprise/io/text/token_table.h"

#include <algorithm>
#include <numeric>

namespace reprise::io {

TokenTable::TokenTable(std::vector<uint32_t> sizes) : begins_(std::move(sizes)) {
  begins_.push_back(0);
  std::exclusive_scan(begins_.begin(), begins_.end(), begins_.begin(), 0u);
  bytes_.resize(begins_.back());
}

TokenIndex::TokenIndex(const TokenTable& tokens) : tokens_(&tokens), ids_(tokens.size()) {
  std::iota(ids_.begin(), ids_.end(), 0u);
  std::sort(ids_.begin(), ids_.end(), [&](uint32_t a, uint32_t b) { return tokens[a] < tokens[b]; });
}

int32_t TokenIndex::find(std::string_view token) const {
  auto less = [&](uint32_t id, std::string_view wanted) { return (*tokens_)[id] < wanted; };
  auto found = std::lower_bound(ids_.begin(), ids_.end(), token, less);
  return found != ids_.end() && (*tokens_)[*found] == token ? int32_t(*found) : -1;
}

int32_t TokenIndex::find_twin() const {
  auto same = [&](uint32_t a, uint32_t b) { return (*tokens_)[a] == (*tokens_)[b]; };
  auto twin = std::adjacent_find(ids_.begin(), ids_.end(), same);
  return twin == ids_.end() ? -1 : int32_t(*twin);
}

}  // namespace reprise::io
