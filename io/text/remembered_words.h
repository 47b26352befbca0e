// RememberedWords: the ids of words that a text had before.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::io {

/// As ranges of the ids that were appended: nothing is copied, and nothing outlives the text.
class RememberedWords {
 public:
  /// Appends the ids of `word`, which `encode(word, ids)` appends where it is new.
  template <class Encode>
  void append(std::string_view word, std::vector<int32_t>& ids, const Encode& encode) {
    if (word.size() > longest) return encode(word, ids);
    auto [entry, is_new] = known_.try_emplace(word, ids.size(), 0);
    auto& [first, count] = entry->second;
    if (is_new) {
      encode(word, ids);
      count = ids.size() - first;
    } else {
      for (size_t i = first; i < first + count; ++i) ids.push_back(ids[i]);
    }
  }

 private:
  static constexpr size_t longest = 64;  // bytes; longer ones hardly ever come twice
  std::unordered_map<std::string_view, std::pair<size_t, size_t>> known_;
};

}  // namespace reprise::io
