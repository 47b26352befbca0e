// Dataset: labelled images by index. What decodes, transforms and batches them stands on this alone.
#pragma once

#include <string>
#include <vector>

#include "reprise/core/error.h"
#include "reprise/io/images/image.h"

namespace reprise::data {

/// Images with a class each. Reads are thread-safe: a dataset changes nothing after its construction.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;  ///< images
  /// The names of the classes: class i is the i-th.
  virtual const std::vector<std::string>& class_names() const = 0;
  /// How many classes there are, with an image or without.
  int64_t classes() const { return int64_t(class_names().size()); }

  /// The class of an image, in [0, classes()).
  virtual int64_t label(int64_t index) const = 0;
  /// What messages call an image: its file, or its place in one.
  virtual std::string name(int64_t index) const = 0;
  /// Decodes an image into `image`, whose memory is used again. Error naming it if it cannot be read.
  virtual void read(int64_t index, const io::DecodeOptions& options, io::Image& image) const = 0;

 protected:
  /// Error unless `index` is in [0, size()).
  void check_index(int64_t index) const {
    check(index >= 0 && index < size(), "dataset: there is no image ", index, " among ", size());
  }
};

}  // namespace reprise::data
