// PackedBucket: the gradients of a bucket as one flat tensor, into which each is put as it becomes ready: so none is there twice.
#pragma once

#include <algorithm>

#include "reprise/distributed/data_parallel/shards.h"

namespace reprise::distributed {

/// Where elements of a parameter stand in the flat tensor of its bucket.
struct PackedPlace {
  size_t parameter = 0;       ///< its place in the list
  optim::ElementRange range;  ///< of its elements
  int64_t begin = 0;          ///< in elements of the flat tensor
};

/// The flat tensor that a bucket is sent as.
struct PackedForm {
  int64_t numel = 0;                  ///< with padding
  std::vector<PackedPlace> places{};  ///< in their order; what lies between them is padding
};
/// The parameters one after another; `leaves` are all, by place.
PackedForm whole_form(const Bucket& bucket, const TensorList& leaves);
/// The ranks' parts one after another, each with its padding.
PackedForm parts_form(const Shards& shards, size_t bucket);

/// A flat tensor for each of a rank's nodes of the tree, while gradients are put there.
class PackedBucket {
 public:
  /// On the device of the gradients. Where `into` is defined, (numel), it is the first node's.
  PackedBucket(PackedForm form, DType dtype, Device device, Tensor into = {});

  /// The sums of a parameter, one per node and as many for each; undefined ones are zeros. They are copied, and gone as this returns. Those
  /// of a bucket that is one parameter are its flat tensors where nothing else holds them. Error if one has another dtype or device.
  void put(size_t parameter, TensorList sums);
  /// Whether its sums have been put.
  bool has(size_t parameter) const { return std::ranges::find(put_, parameter) != put_.end(); }
  /// Whether the first node's is what was given.
  bool is_in_place() const { return is_in_place_; }
  /// The flat tensors, (numel) each, with zeros where nothing was put. Something has been put. Nothing is left here.
  TensorList take();

 private:
  void put_at(const PackedPlace& place, const Tensor& sum, const Tensor& flat) const;

  PackedForm form_;
  DType dtype_;
  Device device_;
  bool is_in_place_;
  TensorList flat_{};
  std::vector<size_t> put_{};
};

}  // namespace reprise::distributed
