// LentMemory: memory that a leaf has for a while. Weights that ranks share (ZeRO, stage 3) have theirs while a call or its
// backward reads them.
//
// Note [One storage]
// A leaf without memory is hollow: reading it is an Error. Its storage has no bytes of its own and stays the same, with its version,
// so that what saved the leaf for backward finds its values again once there is memory, and a replay finds the tensor that the
// first run read. A view of the leaf, such as a transpose that an operation saved, shares the storage and points into the memory:
// this is kept until no view is left, whoever takes it back, and is the leaf's again the next time.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise::autograd {

class LentMemory {
 public:
  /// Takes the data of `leaf` away; in its memory stays nothing. Error unless it is a leaf and contiguous.
  explicit LentMemory(Tensor leaf);
  /// What is lent is the leaf's for good.
  ~LentMemory();
  LentMemory(const LentMemory&) = delete;
  /// Memory of the leaf's form, to put its values into before it is lent.
  const Tensor& place();
  /// The leaf is what is in the place. Its version stays: these are the values that it had.
  void lend();
  /// The leaf is hollow again, and forgets its 16-bit shadows.
  void take_back();
  /// Frees what was kept for views that are gone. So does each take_back.
  static void free_unviewed();

 private:
  void set_data(void* data);

  Tensor leaf_;
  Tensor place_{};  // while it is made or lent
};

/// The first byte of a storage, its own or of the memory that is lent to its leaf.
const void* first_byte(const Storage& storage);

}  // namespace reprise::autograd
