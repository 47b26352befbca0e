// Shadow: the 16-bit value of an f32 weight, kept with the weight. It is a value and no node: an operation under autocast
// computes with it, while the graph, observers and hooks see the weight, and the edge of the operation goes straight
// there. (PyTorch casts each weight by a recorded operation and caches its result until the outermost scope ends.)
#pragma once

#include "reprise/autograd/amp/autocast.h"
#include "reprise/core/tensor.h"

namespace reprise::autograd {

/// Whether autocast reads x by a shadow: a contiguous f32 leaf that requires grad or is a module's parameter, such as one of
/// a frozen layer. Of everything else it records a cast.
bool has_shadow(const Tensor& x);

/// Marks the leaf x as a module's parameter, for as long as it lives.
void mark_parameter(const Tensor& x);
bool is_parameter(const Tensor& x);

/// The value of a weight in `dtype`: the one that it keeps, if that was made of its present data, else a new one, which
/// it keeps as `kept` says. `weight` is the leaf, or what hooks gave back of it.
Tensor shadow_of(const Tensor& weight, DType dtype, amp::Shadows kept);

/// Marks x, a leaf that requires grad, as one that a replay or a measurement has in the place of a result: autocast
/// records a cast of it, as of the result.
void mark_stand_in(const Tensor& x);

/// What a weight keeps.
struct Shadow {
  Tensor value;
  uint64_t storage = 0, version = 0;  ///< of the weight's data that it was made of
  void* stream = nullptr;             ///< that made it: on another one it may not be there yet
  bool has_values = true;             ///< false: made within a NoCompute, of use there alone
};

}  // namespace reprise::autograd
