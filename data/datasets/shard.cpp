#include "reprise/data/datasets/shard.h"

#include <algorithm>
#include <filesystem>
#include <unordered_set>

#include "reprise/core/error.h"
#include "reprise/core/quote.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/file.h"
#include "reprise/io/folder.h"
#include "reprise/io/json.h"
#include "reprise/io/tar.h"
#include "reprise/io/utf8.h"

namespace reprise::data {
namespace {

constexpr const char* index_format = "reprise shard index 1";
constexpr uint64_t most_label_bytes = 1 << 20;  // of a cls or json file

bool is_image_ending(const std::string& ending) {
  return ending == "jpg" || ending == "jpeg" || ending == "png";
}

class ShardReader {
 public:
  ShardReader(const std::string& path, const std::string& json_key)
      : file_(io::File::open(path)), json_key_(json_key) {}

  std::vector<ShardSample> read() {
    for (const io::TarEntry& entry : io::read_tar(file_)) add(entry);
    finish_sample();
    return std::move(samples_);
  }

 private:
  [[noreturn]] void fail_at(uint64_t offset, const std::string& key, const std::string& fact) const {
    fail("dataset: ", file_.path(), ", byte ", offset, ": the sample ", quote(key), " ", fact);
  }

  void add(const io::TarEntry& entry) {
    size_t last_part = entry.name.rfind('/') + 1;  // 0 without a slash
    if (last_part == 0 && entry.name.starts_with("__") && entry.name.ends_with("__")) return;
    size_t dot = entry.name.find('.', last_part);
    if (dot == std::string::npos || dot == last_part) return;
    std::string key = entry.name.substr(0, dot), ending = entry.name.substr(dot + 1);
    for (char& c : ending)
      if (c >= 'A' && c <= 'Z') c = char(c + ('a' - 'A'));
    if (key != sample_.key) begin_sample(entry, key);
    if (is_image_ending(ending)) {
      if (sample_.bytes > 0) fail_at(entry.offset, key, "has two images");
      if (entry.bytes == 0) fail_at(entry.offset, key, "has an image of 0 bytes");
      sample_.offset = entry.offset, sample_.bytes = entry.bytes;
    } else if (ending == "cls" || ending == "json") {
      add_label(entry, ending == "cls" ? text_of(entry) : label_of_json(entry));
    }
  }

  void begin_sample(const io::TarEntry& entry, const std::string& key) {
    finish_sample();
    if (!keys_.insert(key).second) fail_at(entry.offset, key, "is there twice");
    sample_ = {.key = key, .label = {}};
    start_ = entry.offset;
  }

  void finish_sample() {
    if (sample_.key.empty()) return;
    if (sample_.bytes == 0) fail_at(start_, sample_.key, "has no image (jpg, jpeg or png)");
    if (sample_.label.empty())
      fail_at(start_, sample_.key, "has no label (cls, or " + quote(json_key_) + " in json)");
    samples_.push_back(std::move(sample_));
    sample_ = {};
  }

  void add_label(const io::TarEntry& entry, const std::string& label) {
    if (label.empty()) return;  // a json file without the member
    bool is_other = !sample_.label.empty() && sample_.label != label;
    if (is_other)
      fail_at(entry.offset, sample_.key, "has two labels: " + quote(sample_.label) + " and " + quote(label));
    sample_.label = label;
  }

  std::string text_of(const io::TarEntry& entry) const {
    if (entry.bytes > most_label_bytes) fail_at(entry.offset, sample_.key, "has a label of more than a MiB");
    std::string text(entry.bytes, '\0');
    file_.read_at(entry.offset, text.data(), text.size());
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
      text.pop_back();
    return text;
  }

  std::string label_of_json(const io::TarEntry& entry) const {
    std::string text = text_of(entry), label;
    io::JsonReader json(text, file_.path(), entry.offset);
    json.object([&](const std::string& key) {
      if (key != json_key_)
        json.skip();
      else
        label = json.peek() == io::JsonReader::Kind::string ? json.string() : std::to_string(json.integer());
    });
    json.end();
    return label;
  }

  io::File file_;
  const std::string& json_key_;
  std::vector<ShardSample> samples_{};
  std::unordered_set<std::string> keys_{};
  ShardSample sample_{};  // the one whose files are being read
  uint64_t start_ = 0;
};

// What tells that a shard is the one that an index was written for.
struct Stamp {
  int64_t bytes, time;
  std::string json_key;
  friend bool operator==(const Stamp&, const Stamp&) = default;
};

Stamp stamp_of(const std::string& path, const std::string& json_key) {
  std::error_code error;
  auto time = std::filesystem::last_write_time(path, error).time_since_epoch().count();
  check(!error, "dataset: ", path, ": ", error.message());
  return {int64_t(io::File::open(path).size()), int64_t(time), json_key};
}

void write_index(const std::string& path, const Stamp& stamp, const std::vector<ShardSample>& samples) {
  std::string text = "{\"format\": " + io::json_quote(index_format) +
                     ", \"bytes\": " + std::to_string(stamp.bytes) +
                     ", \"time\": " + std::to_string(stamp.time) +
                     ", \"json_key\": " + io::json_quote(stamp.json_key) + ", \"samples\": [";
  const char* separator = "\n";
  for (const ShardSample& sample : samples) {
    text += separator + std::string("[") + io::json_quote(io::bytes_as_utf8(sample.key)) + ", " +
            std::to_string(sample.offset) + ", " + std::to_string(sample.bytes) + ", " +
            io::json_quote(io::bytes_as_utf8(sample.label)) + "]";
    separator = ",\n";
  }
  io::write_file(path, text + "\n]}\n");
}

ShardSample read_sample(io::JsonReader& json, uint64_t shard_bytes) {
  ShardSample sample;
  int place = 0;
  json.array([&] {
    switch (place++) {
      case 0:
        sample.key = io::bytes_from_utf8(json.string());
        break;
      case 1:
        sample.offset = uint64_t(json.integer());
        break;
      case 2:
        sample.bytes = uint64_t(json.integer());
        break;
      case 3:
        sample.label = io::bytes_from_utf8(json.string());
        break;
      default:
        fail("dataset: an index has a sample of more than four parts");
    }
  });
  bool is_inside = sample.offset <= shard_bytes && sample.bytes <= shard_bytes - sample.offset;
  check(place == 4 && is_inside, "dataset: an index has a sample that cannot be");
  return sample;
}

// Error if it is damaged or was written for another shard.
std::vector<ShardSample> read_index(const std::string& path, const Stamp& wanted) {
  std::string text = io::read_file(path), format;
  io::JsonReader json(text, path);
  Stamp stamp{};
  std::vector<ShardSample> samples;
  json.object([&](const std::string& key) {
    if (key == "format")
      format = json.string();
    else if (key == "bytes")
      stamp.bytes = json.integer();
    else if (key == "time")
      stamp.time = json.integer();
    else if (key == "json_key")
      stamp.json_key = json.string();
    else if (key == "samples")
      json.array([&] { samples.push_back(read_sample(json, uint64_t(wanted.bytes))); });
    else
      json.skip();
  });
  json.end();
  check(format == index_format && stamp == wanted, "dataset: ", path, ": is of another shard");
  return samples;
}

}  // namespace

std::vector<ShardSample> read_shard(const std::string& path, const std::string& json_key) {
  return ShardReader(path, json_key).read();
}

std::vector<ShardSample> read_indexed_shard(const std::string& path, const std::string& json_key) {
  std::string index = path + ".index";
  Stamp stamp = stamp_of(path, json_key);
  if (io::exists(index)) {
    try {
      return read_index(index, stamp);
    } catch (const Error&) {}  // it only saves time: the shard itself tells
  }
  std::vector<ShardSample> samples = read_shard(path, json_key);
  try {
    write_index(index, stamp, samples);
  } catch (const Error&) {}  // a folder that may not be written to
  return samples;
}

}  // namespace reprise::data
