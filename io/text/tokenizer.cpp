// Choosing a tokenizer by its files, and what all kinds share.
#include "reprise/io/text/tokenizer.h"

#include <algorithm>

#include "reprise/core/error.h"
#include "reprise/io/file.h"
#include "reprise/io/folder.h"
#include "reprise/io/text/char_tokenizer.h"
#include "reprise/io/text/end_tokens.h"
#include "reprise/io/text/gpt2_bpe.h"
#include "reprise/io/text/sentencepiece_bpe.h"

namespace reprise::io {
namespace {

std::unique_ptr<Tokenizer> by_files(const std::string& folder) {
  if (const std::string path = folder + "/tokenizer.json"; exists(path)) {
    const std::string text = read_file(path, largest_bpe_file);
    if (read_tokenizer_json(text, path).kind == TokenizerJson::Kind::sentence_piece)
      return std::make_unique<SentencePieceBpe>(path);
    return std::make_unique<Gpt2Bpe>(path);
  }
  if (exists(folder + "/merges.txt")) {
    return std::make_unique<Gpt2Bpe>(folder + "/vocab.json", folder + "/merges.txt");
  }
  return std::make_unique<CharTokenizer>(CharTokenizer::load(folder + "/vocab.json"));
}

}  // namespace

std::vector<int32_t> Tokenizer::end_tokens() const {
  std::vector<int32_t> ends = named_ends_;
  if (const auto own = end_of_text(); own && std::ranges::find(ends, *own) == ends.end())
    ends.push_back(*own);
  return ends;
}

void Tokenizer::save(const std::string& folder) const {
  save_files(folder);
  if (!named_ends_.empty()) write_end_tokens(folder, named_ends_);
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& folder, const std::vector<int32_t>& named_ends) {
  std::unique_ptr<Tokenizer> tokenizer = by_files(folder);
  tokenizer->named_ends_ = named_ends;
  return tokenizer;
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& folder) {
  return load_tokenizer(folder, read_end_tokens(folder));
}

void check_ids(std::span<const int32_t> ids, int64_t vocab_size, const char* op) {
  for (size_t i = 0; i < ids.size(); ++i) {
    check(ids[i] >= 0 && ids[i] < vocab_size, op, ": id ", ids[i], " at position ", i,
          " is outside the vocabulary of ", vocab_size);
  }
}

}  // namespace reprise::io
