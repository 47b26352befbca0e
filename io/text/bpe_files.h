// The vocabulary and the merges of a byte-pair encoding, from files.
#pragma once

#include <string>
#include <vector>

#include "reprise/io/text/merge_table.h"
#include "reprise/io/text/token_table.h"
#include "reprise/io/text/tokenizer_json.h"

namespace reprise::io {

constexpr uint64_t largest_bpe_file = INT32_MAX;  ///< ids and offsets have 32 bits

struct BpeTables {
  TokenTable tokens{};
  MergeTable merges{};
  std::vector<std::string>
      found_first{};  ///< added tokens that are no special ones: a text is split at them before all else
};

/// Of vocab.json (token to id) and merges.txt (one merge a line, earliest first), in GPT-2's alphabet of bytes. Error with file and
/// line or offset if they are damaged, do not fit each other, or have more merges than the tokens can be cut in two.
BpeTables read_bpe(const std::string& vocab_path, const std::string& merges_path);

/// The same of tokenizer.json at `path`, with its added tokens: those behind the vocabulary are tokens too.
BpeTables read_bpe(const TokenizerJson& parts, const std::string& path);

/// A token's id. Error naming it as `what` if there is none.
int32_t id_of(const TokenIndex& index, const std::string& token, const char* what, const std::string& path);

}  // namespace reprise::io
