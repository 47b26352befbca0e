// The check that functions make which look at a tensor before an operation of their name runs.
#pragma once

#include "reprise/core/tensor.h"

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

}  // namespace reprise::autograd
