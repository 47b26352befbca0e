// What all operations in place share: how a result gets where the tensor is, in a graph and outside of one:
// docs/decisions/0018-in-place-is-a-new-value.md.
#pragma once

#include <utility>

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/overwrite.h"
#include "reprise/autograd/ops/wide.h"
#include "reprise/kernels/elementwise/copy.h"
#include "reprise/kernels/elementwise/elementwise.h"

namespace reprise::autograd {

/// While it lives, no observer is told that the method's own kernels ask for data.
using OwnKernels = SetDataObserver;

/// Error naming `op` unless the source was given a value and broadcasts to the target.
void check_source(const Tensor& source, const Tensor& target, const char* op);

/// Whether a result of that dtype can be put where x is: numbers in bool, and fractions in integers, would be lost.
bool result_fits(DType result, const Tensor& x);

/// Error naming `op` unless what x and `other` give fits in the dtype of x.
void check_meets(const char* op, const Tensor& x, const Tensor& other);

/// What x and the others are computed in: the widest of their dtypes, f32 for half types.
template <class... Others>
DType common_dtype(const Tensor& x, const Others&... others) {
  DType dtype = x.dtype();
  ((dtype = promote(dtype, others.dtype())), ...);
  return is_half(dtype) ? DType::f32 : dtype;
}

/// Whether a change of x by the sources goes into a graph.
bool is_recorded(const Tensor& x, const TensorList& sources);

/// Error unless `op` can be done to x: where it lies, or, in a graph, by a value in its place.
void check_change(const char* op, const Tensor& x, bool recorded);

/// Tells observers of operations that x is about to be written.
void announce(const char* op, const Tensor& x, const TensorList& sources, const Attributes& attributes);

/// `y` where x is, in all its handles; other views are not to be used any longer. A gradient that the program wants kept is that of
/// the new value then, as in PyTorch; hooks stay with the value that they were put on.
void put_in_place(const char* op, const Tensor& x, Tensor&& y);

/// put_in_place of what `run` gives, which may write into the memory of x. If it fails after that, x has no value any longer.
template <class Run>
void put_result_in_place(const char* op, const Tensor& x, const Run& run) {
  const uint64_t version = x.version();
  Tensor y;
  try {
    y = run();
  } catch (...) {
    if (x.version() != version) x.storage()->supersede(op);
    throw;
  }
  put_in_place(op, x, std::move(y));
}

/// What to read while `target` is written: a copy if elements that are still to be read lie in it.
Tensor apart_from(const Tensor& target, const Tensor& source);

/// F::write changes a tensor; F is the same as an operation, which gives a changed one.
template <class F, class... Args>
const Tensor& change(const char* op, const Tensor& x, const Tensor& source, const Args&... args) {
  OwnKernels unseen(nullptr);
  const bool recorded = is_recorded(x, {source});
  check_change(op, x, recorded);
  announce(op, x, {source}, attributes_of(args...));
  if (recorded) {
    const Overwrite overwrite = source.defined() && source.is_same(x) ? Overwrite() : Overwrite::of(x);
    put_result_in_place(op, x, [&] { return F::apply(x, source, overwrite, args...); });
  } else {
    x.storage()->bump_version();
    F::write(x, source.defined() ? apart_from(x, source) : source, args...);
  }
  return x;
}

/// f(x), an operation's own result of x's shape, put where x is. `sources` are what f takes beside x.
template <class F>
const Tensor& put_value(const char* op, const Tensor& x, const TensorList& sources, const F& f) {
  const bool recorded = is_recorded(x, sources);
  check_change(op, x, recorded);
  Tensor y = f(x);
  check(result_fits(y.dtype(), x), op, ": the result, ", y.dtype(), ", does not fit in ", x.dtype());
  y = cast(y, x.dtype());
  OwnKernels unseen(nullptr);
  announce(op, x, {y}, {});
  if (recorded) {
    put_in_place(op, x, std::move(y));
  } else {
    x.storage()->bump_version();
    kernels::copy(current_stream(x.device()), y, x);
  }
  return x;
}

/// The same of an elementwise operation: Error unless the sources broadcast to x.
template <class F>
const Tensor& by_value(const char* op, const Tensor& x, const TensorList& sources, const F& f) {
  for (const Tensor& source : sources) check_source(source, x, op);
  return put_value(op, x, sources, f);
}

/// The same where `write(x)` does to the memory of x what f(x) gives: so it is done outside of graphs, unless operations are
/// observed, for a first run that writes and a replay that records are to look alike. An Error comes before anything is written.
template <class F, class Write>
const Tensor& by_writing(const char* op, const Tensor& x, const TensorList& sources, const F& f,
                         const Write& write) {
  if (is_recorded(x, sources) || OpObserver::any()) return by_value(op, x, sources, f);
  for (const Tensor& source : sources) check_source(source, x, op);
  check_change(op, x, false);
  OwnKernels unseen(nullptr);
  NoGrad guard;
  write(x);
  x.storage()->bump_version();
  return x;
}

/// by_value of a function of x alone.
template <class F>
const Tensor& of_itself(const char* op, const Tensor& x, const F& f) {
  check_self(x, op);
  return by_value(op, x, TensorList{}, f);
}

/// The same of a function that is a kernel.
template <class F>
const Tensor& of_itself(const char* op, const Tensor& x, kernels::UnaryOp kernel, const F& f) {
  check_self(x, op);
  auto write = [&](const Tensor& y) { kernels::unary(current_stream(y.device()), kernel, y, y); };
  return by_writing(op, x, TensorList{}, f, write);
}

}  // namespace reprise::autograd
