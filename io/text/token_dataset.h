// A long row of token ids: in memory, or in files of uint16 (nanoGPT's .bin, llm.c's shards) that are read on
// demand.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reprise/io/file.h"

namespace reprise::io {

/// Thread-safe: nothing changes after construction. Every id that `read` gives lies in [0, vocab_size).
class TokenDataset {
 public:
  /// Ids of a tokenizer. `name` stands in messages. Error if there are none, or one is outside the vocabulary.
  static TokenDataset from_ids(std::vector<int32_t> ids, int64_t vocab_size, std::string name = "tokens");
  /// A .bin file, or a folder of them, sorted by name. Error if one is damaged, empty or holds a token
  /// outside the vocabulary: all of it is read once to see that.
  static TokenDataset open(const std::string& path, int64_t vocab_size);
  /// Several files, one after the other.
  static TokenDataset open(const std::vector<std::string>& paths, int64_t vocab_size);

  int64_t size() const { return size_; }              ///< tokens
  int64_t vocab_size() const { return vocab_size_; }  ///< as given: ids are below it

  /// Tokens `first` to `first + into.size()`. Error if they are not all there.
  void read(int64_t first, std::span<int64_t> into) const;

 private:
  struct Shard {
    File file;
    uint64_t header_bytes;
    int64_t first;  // position of its first token in the row
    int64_t count;
  };

  explicit TokenDataset(int64_t vocab_size);
  void add_shard(const std::string& path);
  void read_shard(const Shard& shard, int64_t first, std::span<int64_t> into) const;
  void check_tokens(std::span<const uint16_t> tokens, const Shard& shard, int64_t first) const;

  int64_t vocab_size_;
  int64_t size_ = 0;
  std::vector<int32_t> ids_;   // either these
  std::vector<Shard> shards_;  // or these
};

}  // namespace reprise::io
