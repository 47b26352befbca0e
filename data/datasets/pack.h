// pack: any dataset as WebDataset's shards of images that are no larger than training needs: they are read in long runs and
// decoded in less time, and everybody's tools read them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reprise/data/dataset.h"

namespace reprise::data {

struct PackOptions {
  int64_t short_side = 256;  ///< that larger images are resized to, bicubic; smaller ones stay
  bool png = false;          ///< lossless, in place of JPEG
  int quality = 90;          ///< of JPEG, 1 to 100
  uint64_t shard_bytes = uint64_t(256) << 20;  ///< a shard ends with the first sample that reaches it
  bool apply_exif = true;                      ///< the pixels are turned; shards have no EXIF
  bool skip_bad = false;                       ///< leave out images that cannot be read
};

struct Packed {
  int64_t shards = 0, images = 0;
  uint64_t bytes = 0;
  std::vector<std::string> bad_images{};  ///< "photos/a.jpg: reason", of those that were left out
};

/// Writes `folder`/shard-00000.tar, ... with KEY.jpg (or .png) and KEY.cls, a decimal, for each image in the set's order, and
/// `folder`/classes.txt with the names; `folder` must be there. Images without colour are written gray. `step`, if given,
/// is called with the number of images done, and may throw. Error if an image cannot be read (unless such are skipped),
/// and if a class's name is empty or holds a line break.
Packed pack(const Dataset& dataset, const std::string& folder, const PackOptions& options = {},
            const std::function<void(int64_t done)>& step = {});

}  // namespace reprise::data
