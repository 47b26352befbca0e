#include "reprise/data/datasets/tar_shards.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <set>

#include "reprise/core/error.h"
#include "reprise/core/quote.h"
#include "reprise/data/datasets/class_names.h"
#include "reprise/data/datasets/shard.h"
#include "reprise/io/file.h"
#include "reprise/io/folder.h"
#include "reprise/io/images/decode.h"

namespace reprise::data {
namespace {

std::optional<uint32_t> decimal(const std::string& text) {
  uint32_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

}  // namespace

TarShards::TarShards(const std::vector<std::string>& paths, const TarShardsOptions& options) : paths_(paths) {
  check(!paths.empty(), "dataset: no shards are given");
  std::vector<std::string> labels;
  add_shards(options, labels);
  check(size() > 0, "dataset: ", paths[0], ": holds no images");
  std::string names_file = io::parent_folder(paths[0]) + "/classes.txt";
  bool has_file = options.class_names.empty() && io::exists(names_file);
  number(labels, has_file ? read_class_names(names_file) : options.class_names);
}

void TarShards::add_shards(const TarShardsOptions& options, std::vector<std::string>& labels) {
  for (const std::string& path : paths_) {
    for (ShardSample& sample : read_indexed_shard(path, options.json_key)) {
      check(sample.bytes <= UINT32_MAX, "dataset: ", path, ", byte ", sample.offset, ": the sample ",
            quote(sample.key), " has an image of ", sample.bytes, " bytes");
      entries_.push_back({sample.offset, uint32_t(sample.bytes), 0, keys_.size()});
      keys_.append(sample.key.c_str(), sample.key.size() + 1);
      labels.push_back(std::move(sample.label));
    }
    ends_.push_back(size());
  }
}

// Gives each image the number of its label among `names`.
void TarShards::number(const std::vector<std::string>& labels, std::vector<std::string> names) {
  bool are_numbers = decimal(labels[0]).has_value();
  uint32_t largest = 0;
  std::set<std::string> found;
  for (size_t i = 0; i < labels.size(); ++i) {
    std::optional<uint32_t> number = decimal(labels[i]);
    check(number.has_value() == are_numbers, "dataset: ", name(int64_t(i)), ": its label is ",
          quote(labels[i]), ", but the first one is ", quote(labels[0]),
          ": labels are numbers, or names, all of them");
    largest = std::max(largest, number.value_or(0));
    if (!are_numbers) found.insert(labels[i]);
  }
  constexpr uint32_t most_numbers = 1 << 20;  // names are made for them
  if (are_numbers && names.empty() && largest < most_numbers)
    for (uint32_t i = 0; i <= largest; ++i) names.push_back(std::to_string(i));
  class_names_ = names_of_classes(found, names, paths_[0]);
  auto numbers = numbers_of_classes(class_names_);
  for (size_t i = 0; i < labels.size(); ++i) {
    uint32_t label = are_numbers ? *decimal(labels[i]) : uint32_t(numbers.at(labels[i]));
    check(label < classes(), "dataset: ", name(int64_t(i)), ": its label is ", label, ", but there are ",
          classes(), " classes");
    entries_[i].label = label;
  }
}

size_t TarShards::shard_of(int64_t index) const {
  return size_t(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
}

int64_t TarShards::label(int64_t index) const {
  check_index(index);
  return entries_[size_t(index)].label;
}

std::string TarShards::name(int64_t index) const {
  check_index(index);
  const Entry& entry = entries_[size_t(index)];
  return paths_[shard_of(index)] + ", byte " + std::to_string(entry.offset) + ", " +
         quote(keys_.data() + entry.key);
}

void TarShards::read(int64_t index, const io::DecodeOptions& options, io::Image& image) const {
  check_index(index);
  const Entry& entry = entries_[size_t(index)];
  std::string bytes(entry.bytes, '\0');
  io::File::open(paths_[shard_of(index)]).read_at(entry.offset, bytes.data(), bytes.size());
  io::decode_image(bytes, name(index), options, image);
}

std::vector<std::string> shards_in(const std::string& folder) {
  std::vector<std::string> paths;
  for (const std::string& name : io::names_in(folder))
    if (name.ends_with(".tar") && !name.starts_with('.')) paths.push_back(folder + "/" + name);
  check(!paths.empty(), "dataset: ", folder, ": holds no *.tar");
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace reprise::data
