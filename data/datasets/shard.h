// A shard: a tar archive whose files of one key, the path up to the first dot of its last part, are a sample
// (github.com/webdataset/webdataset). Its headers are read once and kept beside it as NAME.tar.index.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::data {

struct ShardSample {
  std::string key;
  uint64_t offset = 0, bytes = 0;  ///< of the image file in the archive
  std::string label;               ///< what the file `cls` holds, or the member of the file `json`
};

/// The samples of a shard in its order, by its headers, its `cls` and its `json` files; `json_key` names the member that is
/// the label. Error, naming shard, byte and key, for a sample without an image or a label, or with two, and for a key that
/// is there twice. Files of other endings, and those named __meta__ and the like, are left out.
std::vector<ShardSample> read_shard(const std::string& path, const std::string& json_key);

/// The same from `path`.index, if that was written for a shard of this size and time; else from the shard, and the index is
/// written where that is possible.
std::vector<ShardSample> read_indexed_shard(const std::string& path, const std::string& json_key);

}  // namespace reprise::data
