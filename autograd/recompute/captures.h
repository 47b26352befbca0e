// Captures: the tensors that a region reads but was not given: parameters and buffers that `fn` reaches by
// itself. A replay reads them again, so they must not change in between.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "reprise/autograd/meta.h"

namespace reprise::recompute {

class Captures {
 public:
  explicit Captures(const TensorList& region_inputs);
  /// One operation of the first run. What is neither an input of the region nor made by it, was captured.
  void note(const TensorList& arguments, const TensorList& results);
  /// The first run changes x in place.
  void note_write(const Tensor& x) { written_.push_back(x.storage()); }
  /// After the first run.
  void finish() { own_.clear(); }

  /// Error if a captured tensor was changed in place since the first run read it.
  void check_versions() const;
  /// Whether the region reached this memory by itself.
  bool has(const Storage& storage) const { return captures_.contains(&storage); }
  /// Whether the first run changed x, or what shares its storage, in place.
  bool wrote(const Tensor& x) const;
  /// Whether `leaf` was among the arguments of the first run's operations.
  bool has_leaf(const autograd::AutogradMeta& leaf) const;

 private:
  struct Capture {
    std::weak_ptr<Storage> storage;
    uint64_t version = 0;
    Shape shape;
  };
  std::unordered_set<const Storage*> own_;  // of the region's inputs and of what it made
  std::unordered_map<const Storage*, Capture> captures_;
  std::vector<std::weak_ptr<autograd::AutogradMeta>> leaves_;
  std::vector<std::weak_ptr<Storage>> written_;
};

}  // namespace reprise::recompute
