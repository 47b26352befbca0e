// TarShards: a data set in WebDataset's shards, read in any order: a global shuffle and an exact resume need no buffers.
#pragma once

#include <string>
#include <vector>

#include "reprise/data/dataset.h"

namespace reprise::data {

/// What a sample's label is, and what labels mean.
struct TarShardsOptions {
  /// The names that decimal labels number, or that labels in words are among. Without them a file classes.txt beside the
  /// first shard names them, a line each; without that too they are the numbers up to the largest label, or the labels
  /// found, sorted by their bytes.
  std::vector<std::string> class_names{};
  /// The member of a sample's json file that is its label, where there is no cls file.
  std::string json_key = "label";
};

/// The samples of tar archives, shard after shard. Images stay there: in memory are 24 bytes and the key of each.
class TarShards : public Dataset {
 public:
  /// Error, naming shard, byte and key, for what a shard must not hold (data/shard.h), a label without a class, and labels
  /// of which some are numbers and some are not.
  explicit TarShards(const std::vector<std::string>& paths, const TarShardsOptions& options = {});

  int64_t size() const override { return int64_t(entries_.size()); }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  int64_t label(int64_t index) const override;
  std::string name(int64_t index) const override;  ///< shard, byte and key
  void read(int64_t index, const io::DecodeOptions& options, io::Image& image) const override;

 private:
  struct Entry {
    uint64_t offset;
    uint32_t bytes, label;
    uint64_t key;  // where it begins in keys_
  };
  void add_shards(const TarShardsOptions& options, std::vector<std::string>& labels);
  void number(const std::vector<std::string>& labels, std::vector<std::string> names);
  size_t shard_of(int64_t index) const;

  std::vector<std::string> paths_;
  std::vector<int64_t> ends_;  // of each shard, the first index behind it
  std::vector<std::string> class_names_;
  std::string keys_;  // each with a zero behind it
  std::vector<Entry> entries_;
};

/// The *.tar files in `folder`, sorted by their bytes. Error if there are none.
std::vector<std::string> shards_in(const std::string& folder);

}  // namespace reprise::data
