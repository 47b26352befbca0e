#include "reprise/io/text/sentencepiece_bpe.h"

#include <algorithm>

#include "reprise/core/error.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/file.h"
#include "reprise/io/text/remembered_words.h"
#include "reprise/io/text/tokenizer_json.h"
#include "reprise/io/utf8.h"

namespace reprise::io {
namespace {

std::string byte_token(int byte) {
  constexpr char digits[] = "0123456789ABCDEF";
  return {'<', '0', 'x', digits[byte / 16], digits[byte % 16], '>'};
}

// Where the next word begins: at a mark behind another character; 0: there is none.
size_t next_word(std::string_view text, size_t from) {
  while (text.substr(from).starts_with(space_mark)) from += space_mark.size();
  const size_t next = text.find(space_mark, from);
  return next == std::string_view::npos ? text.size() : next;
}

// Whether a token goes on behind a word: then words are not merged one by one.
bool has_several_words(const TokenTable& tokens) {
  for (size_t id = 0; id < tokens.size(); ++id)
    if (next_word(tokens[id], 0) < tokens[id].size()) return true;
  return false;
}

// The bytes of a character, by its first one.
size_t bytes_of_character(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

}  // namespace

SentencePieceBpe::SentencePieceBpe(const std::string& path) : file_(read_file(path, largest_bpe_file)) {
  const TokenizerJson parts = read_tokenizer_json(file_, path);
  check(parts.kind == TokenizerJson::Kind::sentence_piece, "bpe: ", path,
        ": BPE of bytes, which is no SentencePieceBpe: see Gpt2Bpe");
  tables_ = read_bpe(parts, path);
  check(tables_.found_first.empty(), "bpe: ", path,
        ": an added token that is no special one: no such tokenizer here");
  index_ = std::make_unique<TokenIndex>(tables_.tokens);
  for (int byte = 0; byte < 256; ++byte)
    byte_ids_[size_t(byte)] = id_of(*index_, byte_token(byte), "the token of a byte", path);
  prepends_ = parts.prepends;
  splits_ = !has_several_words(tables_.tokens);
  if (!parts.first_token.empty()) first_token_ = id_of(*index_, parts.first_token, "the first token", path);
  if (const int32_t id = index_->find("</s>"); id >= 0) end_of_text_ = id;
}

void SentencePieceBpe::append_word(std::string_view word, std::vector<int32_t>& ids) const {
  std::vector<int32_t> characters;
  for (size_t at = 0; at < word.size();) {
    const std::string_view character = word.substr(at, bytes_of_character(word[at]));
    at += character.size();
    if (const int32_t id = index_->find(character); id >= 0)
      characters.push_back(id);
    else
      for (const char byte : character) characters.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
  }
  append_merged(characters, tables_.merges, ids);
}

std::vector<int32_t> SentencePieceBpe::encode(std::string_view text, const TextOrigin& origin) const {
  using Prepends = TokenizerJson::Prepends;
  check_utf8(text, origin, "bpe");
  std::vector<int32_t> ids;
  if (text.empty()) return ids;
  std::string marked;
  marked.reserve(text.size() + text.size() / 3);
  const bool is_there = text.starts_with(' ') || text.starts_with(space_mark);
  if (prepends_ == Prepends::always || (prepends_ == Prepends::unless_there && !is_there))
    marked += space_mark;
  for (const char byte : text) byte == ' ' ? marked += space_mark : marked += byte;
  if (!splits_) {
    append_word(marked, ids);
    return ids;
  }
  RememberedWords known;
  for (size_t at = 0, next = 0; at < marked.size(); at = next) {
    next = next_word(marked, at);
    known.append(std::string_view(marked).substr(at, next - at), ids,
                 [&](std::string_view word, std::vector<int32_t>& to) { append_word(word, to); });
  }
  return ids;
}

std::string SentencePieceBpe::decode(std::span<const int32_t> ids) const {
  check_ids(ids, vocab_size(), "bpe");
  std::string text;
  for (const int32_t id : ids) {
    const auto* byte = std::find(byte_ids_.begin(), byte_ids_.end(), id);
    if (byte != byte_ids_.end()) {
      text += char(byte - byte_ids_.begin());
      continue;
    }
    std::string_view token = tables_.tokens[size_t(id)];
    for (size_t mark; (mark = token.find(space_mark)) != std::string_view::npos;) {
      text.append(token.substr(0, mark)) += ' ';
      token.remove_prefix(mark + space_mark.size());
    }
    text += token;
  }
  if (prepends_ != TokenizerJson::Prepends::nothing && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

void SentencePieceBpe::save_files(const std::string& folder) const {
  write_file(folder + "/tokenizer.json", file_);
}

}  // namespace reprise::io
