// From options to tokens.
#include "reprise/apps/gpt/corpus.h"

#include <algorithm>
#include <filesystem>

#include "reprise/io/folder.h"
#include "reprise/io/text/char_tokenizer.h"
#include "reprise/io/text/gpt2_bpe.h"
#include "reprise/io/text/text.h"
#include "reprise/train/option_error.h"

namespace reprise::apps::gpt {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<io::Tokenizer> tokenizer_for(const DataOptions& options, const std::string* text) {
  check(options.vocab.empty() == options.merges.empty(),
        "--vocab and --merges belong together: give both or none");
  if (!options.vocab.empty())
    return train::under_option("--vocab and --merges",
                               [&] { return std::make_unique<io::Gpt2Bpe>(options.vocab, options.merges); });
  if (!text) return nullptr;
  return std::make_unique<io::CharTokenizer>(io::CharTokenizer::from_text(*text));
}

Corpus from_text(const DataOptions& options, std::unique_ptr<io::Tokenizer> known) {
  std::vector<io::TextPart> files;
  std::string text = io::read_text(options.data, &files);
  Corpus corpus;
  corpus.tokenizer = known ? std::move(known) : tokenizer_for(options, &text);
  corpus.vocab_size = std::max(corpus.tokenizer->vocab_size(), options.vocab_size);
  check(1 - options.val_fraction < 1, "--val-fraction ", options.val_fraction, " holds nothing out");
  auto [train, validation] =
      train::about(options.data, [&] { return io::split_text(text, 1 - options.val_fraction); });
  auto ids_of = [&](std::string_view part) {
    try {
      return corpus.tokenizer->encode(part, {files, size_t(part.data() - text.data())});
    } catch (const Error&) {
      corpus.tokenizer->encode(text, {files});  // says what either part lacks
      throw;
    }
  };
  auto encode = [&](std::string_view part, const char* split) {
    return std::make_unique<io::TokenDataset>(
        io::TokenDataset::from_ids(ids_of(part), corpus.vocab_size, options.data + " (" + split + ")"));
  };
  corpus.train = encode(train, "train");
  corpus.validation = encode(validation, "validation");
  check(corpus.validation->size() >= 2, "--val-fraction ", options.val_fraction, " of ", options.data,
        " holds out one token, which leaves nothing to predict");
  return corpus;
}

// "t.txt (20 bytes)", or standard input.
std::string with_size(const std::string& path) {
  std::error_code error;
  uintmax_t bytes = fs::file_size(path, error);
  return path == "-" ? "standard input" : error ? path : path + " (" + std::to_string(bytes) + " bytes)";
}

constexpr int64_t largest_vocabulary = 65536;  // of uint16 token files

int64_t vocabulary_in(const io::TokenDataset& data) {
  std::vector<int64_t> chunk(1 << 16);
  int64_t largest = 0;
  for (int64_t at = 0; at < data.size(); at += int64_t(chunk.size())) {
    size_t count = size_t(std::min<int64_t>(int64_t(chunk.size()), data.size() - at));
    data.read(at, std::span(chunk).first(count));
    largest = std::max(largest, *std::max_element(chunk.begin(), chunk.begin() + std::ptrdiff_t(count)));
  }
  return largest + 1;
}

Corpus from_tokens(const DataOptions& options, std::unique_ptr<io::Tokenizer> known) {
  check(!options.val_data.empty(), "--data ", options.data,
        " is token files: give the held-out tokens by --val-data");
  Corpus corpus;
  corpus.tokenizer = known ? std::move(known) : tokenizer_for(options, nullptr);
  corpus.vocab_size = std::max(corpus.tokenizer ? corpus.tokenizer->vocab_size() : 0, options.vocab_size);
  if (corpus.vocab_size == 0)
    corpus.vocab_size = vocabulary_in(io::TokenDataset::open(options.data, largest_vocabulary));
  corpus.train = std::make_unique<io::TokenDataset>(io::TokenDataset::open(options.data, corpus.vocab_size));
  corpus.validation = train::under_option("--val-data", [&] {
    return std::make_unique<io::TokenDataset>(io::TokenDataset::open(options.val_data, corpus.vocab_size));
  });
  check(corpus.validation->size() >= 2, "--val-data ", options.val_data,
        " holds one token, which leaves nothing to predict");
  return corpus;
}

}  // namespace

bool is_token_data(const std::string& path) {
  if (path.ends_with(".bin")) return true;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return false;
  std::vector<std::string> names = io::names_in(path);
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return fs::path(name).extension() == ".bin"; });
}

Corpus load_corpus(const DataOptions& options, std::unique_ptr<io::Tokenizer> known) {
  check(!options.data.empty(),
        "--data is missing: name a text file, a folder, - for standard input, or .bin files");
  return train::under_option("--data", [&] {
    try {
      if (is_token_data(options.data)) return from_tokens(options, std::move(known));
      check(options.val_data.empty(), "--val-data is for token files; a text is split by --val-fraction");
      return from_text(options, std::move(known));
    } catch (const std::bad_alloc&) { throw OutOfMemory("out of memory reading " + with_size(options.data)); }
  });
}

}  // namespace reprise::apps::gpt
