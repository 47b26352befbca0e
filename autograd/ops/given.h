// What functions do with a tensor that they are given before an operation of their name runs.
#pragma once

#include "reprise/autograd/ops.h"

namespace reprise::autograd {

/// Error naming `method` unless x, whose method it is, was given a value.
inline void check_self(const Tensor& x, const char* method) {
  if (!x.defined())
    throw UndefinedTensor(reprise::detail::join(method, ": the tensor was never given a value"));
}

/// Error naming `op` unless each tensor was given a value.
template <class... Tensors>
void check_given(const char* op, const Tensors&... tensors) {
  int place = 0;
  for (const Tensor* x : {&tensors...}) {
    check(x->defined(), op, ": tensor argument ", place, " is undefined: it was never given a value");
    ++place;
  }
}

/// Indices or classes as operations read them: i64, of i32 a copy. What is neither is left for the operation to refuse.
inline Tensor as_i64(const Tensor& indices) {
  return indices.defined() && indices.dtype() == DType::i32 ? cast(indices, DType::i64) : indices;
}

}  // namespace reprise::autograd
