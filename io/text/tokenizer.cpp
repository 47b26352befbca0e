// Choosing a tokenizer by its files.
#include "reprise/io/text/tokenizer.h"

#include "reprise/core/error.h"
#include "reprise/io/file.h"
#include "reprise/io/folder.h"
#include "reprise/io/text/char_tokenizer.h"
#include "reprise/io/text/gpt2_bpe.h"
#include "reprise/io/text/sentencepiece_bpe.h"

namespace reprise::io {

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& folder) {
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

void check_ids(std::span<const int32_t> ids, int64_t vocab_size, const char* op) {
  for (size_t i = 0; i < ids.size(); ++i) {
    check(ids[i] >= 0 && ids[i] < vocab_size, op, ": id ", ids[i], " at position ", i,
          " is outside the vocabulary of ", vocab_size);
  }
}

}  // namespace reprise::io
