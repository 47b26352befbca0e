// RowSlots: the memory that an image loader's threads fill, and its way to the device.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "reprise/core/tensor.h"

namespace reprise::data {

/// `slots` batches of rows u8 in host memory, of which the caller fills one after the other and passes it on. For a
/// CUDA device they are pinned: a slot crosses on a stream of the loader's own, into one buffer there, beside what is
/// computed (Note [One buffer on the device]).
class RowSlots {
 public:
  RowSlots(int64_t slots, const Shape& shape, Device device);
  ~RowSlots();  ///< waits for copies
  RowSlots(const RowSlots&) = delete;

  /// The bytes of a slot.
  std::span<uint8_t> operator[](int64_t slot);
  /// Rows of `slot` for what comes on the current stream until `release`. The slot must stay as it is until `wait`.
  Tensor on_device(int64_t slot);
  /// All that reads the rows of `on_device` is on the current stream.
  void release();
  /// Returns once no copy reads a slot.
  void wait();

 private:
  struct Crossing;  // what a CUDA device needs

  size_t bytes_;
  std::vector<Tensor> rows_;  // u8, in host memory; none for a CUDA device
  std::unique_ptr<Crossing> crossing_;
};

}  // namespace reprise::data
