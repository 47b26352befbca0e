// A set of tensors, told apart by identity and not by value.
#pragma once

#include <algorithm>
#include <unordered_map>

#include "reprise/core/tensor.h"

namespace reprise {

class TensorSet {
 public:
  /// Adds x, which is defined; false if it is there already.
  bool insert(const Tensor& x) {
    if (contains(x)) return false;
    tensors_.emplace(x.storage().get(), x);
    return true;
  }
  /// Whether x, whose memory is that which it was added with, is there.
  bool contains(const Tensor& x) const {
    auto [first, last] = tensors_.equal_range(x.storage().get());
    return std::any_of(first, last, [&](const auto& entry) { return entry.second.is_same(x); });
  }

 private:
  std::unordered_multimap<const Storage*, Tensor> tensors_;  // by memory, which few tensors share
};

}  // namespace reprise
