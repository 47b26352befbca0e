// The tokens of a vocabulary by id: all their bytes in one piece and where each begins, four bytes per token,
// so that a hostile vocabulary costs no more memory than its file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::io {

class TokenTable {
 public:
  TokenTable() = default;
  /// Tokens of these sizes, by id, that `set` then fills. The sizes make less than 4 GiB.
  explicit TokenTable(std::vector<uint32_t> sizes);

  size_t size() const { return begins_.empty() ? 0 : begins_.size() - 1; }
  std::string_view operator[](size_t id) const {
    return std::string_view(bytes_).substr(begins_[id], begins_[id + 1] - begins_[id]);
  }
  size_t bytes() const { return bytes_.size(); }  ///< of all tokens
  void set(size_t id, std::string_view token) { token.copy(bytes_.data() + begins_[id], token.size()); }

 private:
  std::string bytes_;
  std::vector<uint32_t> begins_;  // of each token in bytes_, and the end of the last
};

/// Finds ids by bytes.
class TokenIndex {
 public:
  /// `tokens` must outlive this.
  explicit TokenIndex(const TokenTable& tokens);
  int32_t find(std::string_view token) const;  ///< -1 if there is none
  int32_t find_twin() const;                   ///< the id of a token that is there twice, or -1

 private:
  const TokenTable* tokens_;
  std::vector<uint32_t> ids_;  // sorted by bytes
};

}  // namespace reprise::io
