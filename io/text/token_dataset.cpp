// Reading and checking token files.
#include "reprise/io/text/token_dataset.h"

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>

#include "reprise/core/error.h"
#include "reprise/io/folder.h"
#include "reprise/io/text/tokenizer.h"

namespace reprise::io {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

// llm.c's header: 256 x int32, of which magic, version and token count are used.
constexpr int32_t shard_magic = 20240520, wide_shard_magic = 20240801;
constexpr uint64_t shard_header_bytes = 1024;
constexpr int64_t tokens_per_read = 4096;

std::vector<std::string> bin_files(const std::string& folder) {
  std::vector<std::string> paths;
  for (const std::string& name : names_in(folder)) {
    std::filesystem::path path = std::filesystem::path(folder) / name;
    if (path.extension() == ".bin") paths.push_back(path.string());
  }
  check(!paths.empty(), "token_dataset: ", folder, ": the folder holds no .bin file");
  std::sort(paths.begin(), paths.end());
  return paths;
}

// 1024 for an llm.c shard, 0 for nanoGPT's raw tokens. Read as raw tokens, the magic would be 53720, 308: not
// GPT-2's.
uint64_t header_bytes_of(const File& file, uint64_t bytes) {
  std::array<int32_t, 3> header{};  // magic, version, tokens
  if (bytes < sizeof(header)) return 0;
  file.read_at(0, header.data(), sizeof(header));
  check(header[0] != wide_shard_magic, "token_dataset: ", file.path(), ": holds 32-bit tokens (magic ",
        header[0], "); only 16-bit ones are read");
  if (header[0] != shard_magic) return 0;
  check(header[1] == 1, "token_dataset: ", file.path(), ": version ", header[1], ", only 1 is known");
  int64_t wanted = int64_t(shard_header_bytes) + 2 * int64_t(header[2]);
  check(header[2] >= 0 && int64_t(bytes) == wanted, "token_dataset: ", file.path(), ": ", header[2],
        " tokens make ", wanted, " bytes, the file has ", bytes);
  return shard_header_bytes;
}

}  // namespace

TokenDataset::TokenDataset(int64_t vocab_size) : vocab_size_(vocab_size) {
  check(vocab_size > 0, "token_dataset: vocabulary of ", vocab_size);
}

TokenDataset TokenDataset::from_ids(std::vector<int32_t> ids, int64_t vocab_size, std::string name) {
  TokenDataset data(vocab_size);
  check(!ids.empty(), "token_dataset: ", name, ": holds no tokens");
  check_ids(ids, vocab_size, ("token_dataset: " + name).c_str());
  data.size_ = int64_t(ids.size());
  data.ids_ = std::move(ids);
  return data;
}

TokenDataset TokenDataset::open(const std::string& path, int64_t vocab_size) {
  std::error_code error;  // what is wrong with a path that is no folder, opening it tells better
  if (std::filesystem::is_directory(path, error)) return open(bin_files(path), vocab_size);
  return open(std::vector<std::string>{path}, vocab_size);
}

TokenDataset TokenDataset::open(const std::vector<std::string>& paths, int64_t vocab_size) {
  check(!paths.empty(), "token_dataset: no files");
  TokenDataset data(vocab_size);
  for (const std::string& path : paths) data.add_shard(path);
  return data;
}

void TokenDataset::add_shard(const std::string& path) {
  File file = File::open(path);
  uint64_t bytes = file.size(), header_bytes = header_bytes_of(file, bytes);
  check(bytes > header_bytes, "token_dataset: ", path, ": holds no tokens");
  check(bytes % 2 == 0, "token_dataset: ", path, ": ", bytes,
        " bytes are not a whole number of 16-bit tokens");
  Shard shard{std::move(file), header_bytes, size_, int64_t((bytes - header_bytes) / 2)};
  std::vector<uint16_t> tokens(size_t(std::min<int64_t>(shard.count, 1 << 19)));
  for (int64_t first = 0; first < shard.count; first += int64_t(tokens.size())) {
    auto count = size_t(std::min(int64_t(tokens.size()), shard.count - first));
    shard.file.read_at(header_bytes + 2 * uint64_t(first), tokens.data(), 2 * count);
    check_tokens({tokens.data(), count}, shard, first);
  }
  size_ += shard.count;
  shards_.push_back(std::move(shard));
}

void TokenDataset::check_tokens(std::span<const uint16_t> tokens, const Shard& shard, int64_t first) const {
  uint16_t largest = *std::max_element(tokens.begin(), tokens.end());
  if (largest < vocab_size_) return;
  auto bad = std::find_if(tokens.begin(), tokens.end(), [&](uint16_t token) { return token >= vocab_size_; });
  fail("token_dataset: ", shard.file.path(), ": token ", *bad, " at position ",
       first + (bad - tokens.begin()), " is outside the vocabulary of ", vocab_size_);
}

void TokenDataset::read(int64_t first, std::span<int64_t> into) const {
  auto count = int64_t(into.size());
  check(first >= 0 && first <= size_ - count, "token_dataset: tokens ", first, " to ", first + count,
        " were asked for, there are ", size_);
  if (!ids_.empty()) {
    std::copy_n(ids_.begin() + first, count, into.begin());
    return;
  }
  auto holds = [](int64_t position, const Shard& shard) { return position < shard.first; };
  auto shard = std::upper_bound(shards_.begin(), shards_.end(), first, holds) - 1;
  while (!into.empty()) {
    int64_t inside = first - shard->first;
    auto here = size_t(std::min(int64_t(into.size()), shard->count - inside));
    read_shard(*shard++, inside, into.first(here));
    into = into.subspan(here);
    first += int64_t(here);
  }
}

// Checks again: the file may have been written to since it was opened, and a bad id must never reach a
// kernel.
void TokenDataset::read_shard(const Shard& shard, int64_t first, std::span<int64_t> into) const {
  std::array<uint16_t, tokens_per_read> tokens;
  while (!into.empty()) {
    size_t count = std::min(into.size(), tokens.size());
    shard.file.read_at(shard.header_bytes + 2 * uint64_t(first), tokens.data(), 2 * count);
    check_tokens({tokens.data(), count}, shard, first);
    std::copy_n(tokens.begin(), count, into.begin());
    into = into.subspan(count);
    first += int64_t(count);
  }
}

}  // namespace reprise::io
