// Checksums of tokens: whatever file, encoding or split they come from.
#include "reprise/apps/gpt/data_record.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <vector>

#include "reprise/apps/common/config_file.h"
#include "reprise/io/crc32c.h"
#include "reprise/io/folder.h"

namespace reprise::apps::gpt {
namespace {

std::string path_in(const std::string& run_folder) { return run_folder + "/data.toml"; }

uint32_t checksum(const io::TokenDataset& data) {
  std::vector<int64_t> ids(1 << 16);
  std::vector<uint32_t> packed(ids.size());
  uint32_t crc = 0;
  for (int64_t at = 0; at < data.size(); at += int64_t(ids.size())) {
    size_t count = size_t(std::min<int64_t>(int64_t(ids.size()), data.size() - at));
    data.read(at, std::span(ids).first(count));
    std::transform(ids.begin(), ids.begin() + std::ptrdiff_t(count), packed.begin(),
                   [](int64_t id) { return uint32_t(id); });
    crc = io::crc32c({reinterpret_cast<const char*>(packed.data()), count * sizeof(uint32_t)}, crc);
  }
  return crc;
}

std::map<std::string, std::string> values_of(const Corpus& corpus) {
  return {{"train-tokens", std::to_string(corpus.train->size())},
          {"train-crc32c", fmt::format("{:08x}", checksum(*corpus.train))},
          {"validation-tokens", std::to_string(corpus.validation->size())},
          {"validation-crc32c", fmt::format("{:08x}", checksum(*corpus.validation))}};
}

}  // namespace

std::string data_record(const Corpus& corpus) {
  std::string text =
      "# What the run learns from: tokens and their CRC-32C, each as 32 bits, little-endian.\n";
  for (const auto& [key, value] : values_of(corpus))
    text += key + " = " + (key.ends_with("crc32c") ? '"' + value + '"' : value) + "\n";
  return text;
}

bool has_data_record(const std::string& run_folder) { return io::exists(path_in(run_folder)); }

std::string difference_of_data(const std::string& run_folder, const Corpus& corpus) {
  std::map<std::string, std::string> own = read_config(path_in(run_folder)), now = values_of(corpus);
  std::string text;
  for (const char* part : {"train", "validation"}) {
    std::string tokens = std::string(part) + "-tokens", crc = std::string(part) + "-crc32c";
    if (own[tokens] == now[tokens] && own[crc] == now[crc]) continue;
    text += fmt::format("{}{} tokens {} with checksum {}, now {} with {}", text.empty() ? "" : "; ",
                        own[tokens], part == std::string("train") ? "to train on" : "held out", own[crc],
                        now[tokens], now[crc]);
  }
  return text;
}

}  // namespace reprise::apps::gpt
