// Reading and writing vocab.json and merges.txt.
#include <utility>

#include "reprise/core/error.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/byte_alphabet.h"
#include "reprise/io/file.h"
#include "reprise/io/gpt2_bpe.h"
#include "reprise/io/json.h"

namespace reprise::io {
namespace {

constexpr std::string_view version_line = "#version: 0.2";

// The bytes of a token as the files write it; an Error says where it stands.
std::string token_bytes(std::string_view written, const std::string& where) {
  try {
    return alphabet_to_bytes(written);
  } catch (const Error& error) { fail("gpt2_bpe: ", where, ": ", error.what()); }
}

}  // namespace

Gpt2Bpe::Gpt2Bpe(const std::string& vocab_path, const std::string& merges_path) {
  load_vocab(vocab_path);
  load_merges(merges_path);
}

void Gpt2Bpe::load_vocab(const std::string& path) {
  std::string text = read_file(path);
  JsonReader json(text, path);
  std::vector<std::pair<int64_t, std::string>> entries;
  // An entry takes at least six bytes (`"a":0,`), which bounds the ids before anything is sized by one.
  auto largest = int64_t(text.size() / 6 + 1);
  json.object([&](const std::string& key) {
    size_t offset = json.offset();
    int64_t id = json.integer();
    check(id >= 0 && id < largest, "gpt2_bpe: ", path, ": id ", id, " at byte ", offset, " is out of range");
    entries.emplace_back(id, token_bytes(key, detail::join(path, ": before byte ", offset)));
  });
  json.end();
  check(!entries.empty(), "gpt2_bpe: ", path, ": the vocabulary is empty");
  std::vector<bool> seen(entries.size());
  tokens_.resize(entries.size());
  for (auto& [id, token] : entries) {
    check(size_t(id) < seen.size(), "gpt2_bpe: ", path, ": id ", id, " of ", seen.size(),
          " tokens leaves a gap");
    check(!seen[size_t(id)], "gpt2_bpe: ", path, ": id ", id, " stands for two tokens");
    seen[size_t(id)] = true;
    tokens_[size_t(id)] = std::move(token);
  }
  for (size_t id = 0; id < tokens_.size(); ++id) {
    bool is_new = ids_.emplace(tokens_[id], int32_t(id)).second;
    check(is_new, "gpt2_bpe: ", path, ": token ", json_quote(bytes_to_alphabet(tokens_[id])),
          " stands there twice");
  }
  for (int byte = 0; byte < 256; ++byte) {
    auto found = ids_.find(std::string(1, char(byte)));
    check(found != ids_.end(), "gpt2_bpe: ", path, ": no token for byte ", byte);
    byte_ids_[size_t(byte)] = found->second;
  }
  if (auto found = ids_.find("<|endoftext|>"); found != ids_.end()) end_of_text_ = found->second;
}

void Gpt2Bpe::load_merges(const std::string& path) {
  std::string text = read_file(path);
  size_t line_number = 0;
  for (size_t start = 0; start < text.size();) {
    size_t stop = std::min(text.find('\n', start), text.size());
    std::string_view line(text.data() + start, stop - start);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    start = stop + 1;
    ++line_number;
    if (line.empty() || (line_number == 1 && line.starts_with("#version"))) continue;
    add_merge(line, detail::join(path, ": line ", line_number));
  }
}

void Gpt2Bpe::add_merge(std::string_view line, const std::string& where) {
  size_t space = line.find(' ');
  bool is_pair = space != std::string_view::npos && space > 0 && space + 1 < line.size() &&
                 line.find(' ', space + 1) == std::string_view::npos;
  check(is_pair, "gpt2_bpe: ", where, ": not two tokens with a space between");
  std::string left = token_bytes(line.substr(0, space), where),
              right = token_bytes(line.substr(space + 1), where);
  auto id_of = [&](const std::string& token) {
    auto found = ids_.find(token);
    check(found != ids_.end(), "gpt2_bpe: ", where, ": token ", json_quote(bytes_to_alphabet(token)),
          " is not in the vocabulary");
    return found->second;
  };
  std::pair<int32_t, int32_t> pair(id_of(left), id_of(right));
  Merge merge{int32_t(merge_order_.size()), id_of(left + right)};
  bool is_new = merges_.emplace(uint64_t(pair.first) << 32 | uint32_t(pair.second), merge).second;
  check(is_new, "gpt2_bpe: ", where, ": the merge stands there twice");
  merge_order_.push_back(pair);
}

void Gpt2Bpe::save(const std::string& folder) const {
  std::string vocab = "{", merges(version_line);
  for (size_t id = 0; id < tokens_.size(); ++id) {
    vocab += (id == 0 ? "" : ", ") + json_quote(bytes_to_alphabet(tokens_[id])) + ": " + std::to_string(id);
  }
  for (auto [left, right] : merge_order_) {
    merges +=
        "\n" + bytes_to_alphabet(tokens_[size_t(left)]) + " " + bytes_to_alphabet(tokens_[size_t(right)]);
  }
  write_file(folder + "/vocab.json", vocab + "}\n");
  write_file(folder + "/merges.txt", merges + "\n");
}

}  // namespace reprise::io
