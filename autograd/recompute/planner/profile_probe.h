// Probes: two operations around a stage, which say when backward comes by and cut the graph there.
#pragma once

#include <functional>

#include "reprise/autograd/function.h"

namespace reprise::recompute {

/// Called in backward with the gradient that comes; gives the one that flows on, or an undefined tensor to end it there.
using ProbeCall = std::function<Tensor(const Tensor& gradient)>;

/// Before a stage: x, which is data, becomes part of the graph behind `token`, a tensor of one element. The
/// gradient of x is let go unless `call`, which gives the token's, keeps it.
struct EntryProbe : autograd::Function<EntryProbe> {
  static constexpr const char* name = "profile_entry";
  ProbeCall call_;

  Tensor forward(const Tensor&, const Tensor& x, const ProbeCall& call) {
    call_ = call;
    return x.alias(x.view());
  }
  TensorList backward(const TensorList& dx) { return {call_(dx[0]), Tensor()}; }
};

/// After a stage: its output becomes one element, so that nothing but the graph holds it. `call` makes the
/// output's gradient, which nothing but the graph holds either, as in a chain.
struct ExitProbe : autograd::Function<ExitProbe> {
  static constexpr const char* name = "profile_exit";
  ProbeCall call_;

  Tensor forward(const Tensor& y, const ProbeCall& call) {
    call_ = call;
    return Tensor::zeros({1}, DType::f32, y.device());
  }
  TensorList backward(const TensorList& dy) { return {call_(dy[0])}; }
};

}  // namespace reprise::recompute
