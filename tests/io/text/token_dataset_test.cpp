// Token rows: nanoGPT files, llm.c shards, ids in memory, and damaged files.
#include "reprise/io/text/token_dataset.h"

#include <gtest/gtest.h>

#include <numeric>

#include "reprise/tests/io/temp_folder.h"

namespace reprise::io {
namespace {

using testing::expect_error;
using testing::TempFolder;

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

std::vector<uint16_t> counting(size_t count, uint16_t first = 0) {
  std::vector<uint16_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::string shard_of(const std::vector<uint16_t>& tokens, int32_t version = 1, int32_t magic = 20240520) {
  std::vector<int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = int32_t(tokens.size());
  return bytes_of(header) + bytes_of(tokens);
}

std::vector<int64_t> read_all(const TokenDataset& data) {
  std::vector<int64_t> tokens(size_t(data.size()));
  data.read(0, tokens);
  return tokens;
}

std::vector<int64_t> range(int64_t count) {
  std::vector<int64_t> tokens(size_t(count), 0);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

TEST(TokenDataset, ReadsNanoGptFiles) {
  TempFolder folder;
  TokenDataset data = TokenDataset::open(folder.write("train.bin", bytes_of(counting(10001))), 50257);
  EXPECT_EQ(data.size(), 10001);
  EXPECT_EQ(data.vocab_size(), 50257);
  EXPECT_EQ(read_all(data), range(10001));  // longer than one read
}

TEST(TokenDataset, ReadsAFolderOfShardsAsOneRow) {
  TempFolder folder;
  folder.write("b.bin", shard_of(counting(5, 10)));
  folder.write("a.bin", shard_of(counting(10, 0)));
  folder.write("c.bin", bytes_of(counting(1, 15)));
  folder.write("README", "not tokens");
  TokenDataset data = TokenDataset::open(folder.path(), 16);
  EXPECT_EQ(read_all(data), range(16));
  for (int64_t first = 0; first < 16; ++first) {
    for (int64_t count = 0; first + count <= 16; ++count) {
      std::vector<int64_t> part(size_t(count), -1);
      data.read(first, part);
      for (int64_t i = 0; i < count; ++i) ASSERT_EQ(part[size_t(i)], first + i) << first << " + " << i;
    }
  }
}

TEST(TokenDataset, HoldsIdsInMemory) {
  TokenDataset data = TokenDataset::from_ids({0, 1, 70000}, 70001);
  EXPECT_EQ(read_all(data), (std::vector<int64_t>{0, 1, 70000}));
  expect_error([] { TokenDataset::from_ids({0, 5}, 5, "corpus"); }, "corpus", "id 5", "position 1");
  expect_error([] { TokenDataset::from_ids({}, 5, "corpus"); }, "corpus", "no tokens");
}

TEST(TokenDataset, NamesATokenOutsideTheVocabularyWhenOpened) {
  TempFolder folder;
  auto tokens = counting(600000);  // wraps at 65536; longer than one read of the check
  for (auto& token : tokens) token %= 100;
  tokens[550000] = 100;
  std::string path = folder.write("train.bin", bytes_of(tokens));
  EXPECT_EQ(TokenDataset::open(path, 101).size(), 600000);
  expect_error([&] { TokenDataset::open(path, 100); }, path, "token 100", "position 550000",
               "vocabulary of 100");
}

TEST(TokenDataset, NamesATokenThatChangedSinceOpening) {
  TempFolder folder;
  std::string path = folder.write("train.bin", bytes_of(counting(10)));
  TokenDataset data = TokenDataset::open(path, 10);
  std::vector<int64_t> tokens(10);
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(6).write("\xff\xff", 2);
  expect_error([&] { data.read(0, tokens); }, path, "token 65535", "position 3");
  std::filesystem::resize_file(path, 4);
  expect_error([&] { data.read(0, tokens); }, path, "ends at byte 4");
}

TEST(TokenDataset, RefusesDamagedFiles) {
  TempFolder folder;
  auto open = [&](const std::string& bytes) { TokenDataset::open(folder.write("x.bin", bytes), 50257); };
  expect_error([&] { open(""); }, "x.bin", "no tokens");
  expect_error([&] { open("abc"); }, "x.bin", "3 bytes");
  expect_error([&] { open(shard_of({})); }, "x.bin", "no tokens");
  expect_error([&] { open(shard_of(counting(4), 2)); }, "x.bin", "version 2");
  expect_error([&] { open(shard_of(counting(4), 7, 20240801)); }, "x.bin", "32-bit");
  expect_error([&] { open(shard_of(counting(4)) + "ab"); }, "x.bin", "1032 bytes", "has 1034");
  std::string whole = shard_of(counting(4));
  for (size_t length = 12; length < whole.size(); ++length) {
    expect_error([&] { open(whole.substr(0, length)); }, "x.bin", "1032 bytes");
  }
  expect_error([&] { TokenDataset::open(folder / "absent.bin", 10); }, "absent.bin");
  std::filesystem::remove(folder / "x.bin");
  expect_error([&] { TokenDataset::open(folder.path(), 10); }, folder.path(), "no .bin");
}

TEST(TokenDataset, RefusesReadsOutsideTheRow) {
  TokenDataset data = TokenDataset::from_ids({1, 2, 3}, 5);
  std::vector<int64_t> two(2), many(9);
  expect_error([&] { data.read(2, two); }, "tokens 2 to 4", "there are 3");
  expect_error([&] { data.read(-1, two); }, "tokens -1");
  expect_error([&] { data.read(0, many); }, "there are 3");
}

}  // namespace
}  // namespace reprise::io
