// Encoding and decoding.
#include "reprise/io/text/gpt2_bpe.h"

#include "reprise/core/error.h"
#include "reprise/io/text/nfc.h"
#include "reprise/io/text/remembered_words.h"
#include "reprise/io/utf8.h"

namespace reprise::io {

void Gpt2Bpe::append_word(std::string_view word, std::vector<int32_t>& ids) const {
  std::vector<int32_t> bytes;
  bytes.reserve(word.size());
  for (const char byte : word) bytes.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
  append_merged(bytes, merges_, ids);
}

void Gpt2Bpe::append_text(std::string_view text, std::vector<int32_t>& ids) const {
  const std::string normal = normalizes_ ? to_nfc(text) : "";
  if (normalizes_) text = normal;
  if (!finder_) return append_words(text, ids);
  finder_->split(text, [&](std::string_view piece) {
    if (const auto found = found_first_.find(piece); found != found_first_.end())
      ids.push_back(found->second);
    else
      append_words(piece, ids);
  });
}

void Gpt2Bpe::append_words(std::string_view text, std::vector<int32_t>& ids) const {
  RememberedWords known;
  splitter_.split(text, [&](std::string_view word) {
    if (const int32_t whole = ignores_merges_ ? index_->find(word) : -1; whole >= 0) {
      ids.push_back(whole);
      return;
    }
    known.append(word, ids, [&](std::string_view one, std::vector<int32_t>& to) { append_word(one, to); });
  });
}

std::vector<int32_t> Gpt2Bpe::encode(std::string_view text, const TextOrigin& origin) const {
  check_utf8(text, origin, "bpe");
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3);
  append_text(text, ids);
  return ids;
}

std::vector<int32_t> Gpt2Bpe::encode_with_special(std::string_view text, const TextOrigin& origin) const {
  check(end_of_text_.has_value(), "bpe: the vocabulary has no <|endoftext|>");
  const std::string_view end_of_text_mark = tokens_[size_t(*end_of_text_)];
  check_utf8(text, origin, "bpe");
  std::vector<int32_t> ids;
  for (size_t mark = 0; mark != std::string_view::npos;) {
    mark = text.find(end_of_text_mark);
    append_text(text.substr(0, mark), ids);
    if (mark == std::string_view::npos) break;
    ids.push_back(*end_of_text_);
    text.remove_prefix(mark + end_of_text_mark.size());
  }
  return ids;
}

std::string Gpt2Bpe::decode(std::span<const int32_t> ids) const {
  check_ids(ids, vocab_size(), "bpe");
  std::string text;
  for (int32_t id : ids) text += tokens_[size_t(id)];
  return text;
}

}  // namespace reprise::io
