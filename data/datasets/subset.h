// Subset: some images of a dataset as a dataset, and how a run holds a part of its data out.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "reprise/data/dataset.h"

namespace reprise::data {

/// The images of `all` at `indices`, in that order; classes are those of `all`.
class Subset : public Dataset {
 public:
  /// Error if an index is outside of `all`.
  Subset(std::shared_ptr<const Dataset> all, std::vector<uint32_t> indices);

  int64_t size() const override { return int64_t(indices_.size()); }
  const std::vector<std::string>& class_names() const override { return all_->class_names(); }
  int64_t label(int64_t index) const override { return all_->label(in_all(index)); }
  std::string name(int64_t index) const override { return all_->name(in_all(index)); }
  void read(int64_t index, const io::DecodeOptions& options, io::Image& image) const override {
    all_->read(in_all(index), options, image);
  }

 private:
  int64_t in_all(int64_t index) const {
    check_index(index);
    return indices_[size_t(index)];
  }

  std::shared_ptr<const Dataset> all_;
  std::vector<uint32_t> indices_;
};

/// Two parts of a dataset: those to train on, and about `fraction` of them, in (0, 1), that are held out. Which part an
/// image is in is drawn by (seed, index): it stays there when images are added behind it. Error if a part is empty.
std::pair<Subset, Subset> hold_out(const std::shared_ptr<const Dataset>& all, double fraction, uint64_t seed);

}  // namespace reprise::data
