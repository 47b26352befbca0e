// functional_call: a module with other tensors in the place of its own, for one call.
#pragma once

#include <concepts>
#include <type_traits>

#include "reprise/autograd/leaf/substitution.h"
#include "reprise/nn/module.h"

namespace reprise::nn {

/// While it lives, tensors stand for those of a module: what `functional_call` does.
class FunctionalCall {
 public:
  /// Errors as of `functional_call`.
  FunctionalCall(const Module& module, const NamedTensors& tensors);
  /// A result that stays what it is after the call: for a handle of the module's own, the tensor that was given for it.
  static Tensor lasting(const Tensor& x);
  static TensorList lasting(const TensorList& list);  ///< the same of each
  /// Anything else as it is.
  template <class T>
  requires(!std::same_as<std::remove_cvref_t<T>, Tensor> &&
           !std::same_as<std::remove_cvref_t<T>, TensorList>) static T&& lasting(T&& value) {
    return std::forward<T>(value);
  }

 private:
  autograd::Substitution substitution_;
};

/// `module(args...)`, or `f()` if that is what is given, with `tensors` standing for the parameters and buffers of these names, which
/// are those of `named_parameters` and `named_buffers`; the others stay. They may be results of operations: gradients flow into them,
/// and not into the module's own, which are untouched and there again afterwards, also after an exception.
///
///     rp::Tensor y = rp::functional_call(net, {{"hidden.weight", w}}, x);
///     rp::Tensor loss = rp::functional_call(net, adapted, [&] { return rp::mse_loss(net(x), target); });
///
/// One Error, before anything changes, lists names that the module does not have or that come twice, tensors of another shape, dtype or
/// device, and two tensors for a parameter that has two names. Error too on weights that ranks share (ZeRO stage 3).
///
/// Meanwhile all handles of the module's tensors are the given ones, those that other modules and optimizers hold too; no other thread may
/// use them, nor while a backward pass plays a region of recompute that ran in the call: it plays with the same tensors, whatever
/// the module has then. In a backward pass hooks find the module's own. What writes a given tensor in the call, such as the update of running
/// statistics, changes the given one. (PyTorch: torch.func.functional_call.)
template <class M, class... Args>
requires std::derived_from<M, Module>
auto functional_call(M& module, const NamedTensors& tensors, Args&&... args) {
  const FunctionalCall call(module, tensors);
  constexpr bool takes_function = sizeof...(Args) == 1 && (std::invocable<Args&&> && ...);
  auto run = [&]() -> decltype(auto) {
    if constexpr (takes_function)
      return (std::forward<Args>(args)(), ...);
    else
      return module(std::forward<Args>(args)...);
  };
  if constexpr (std::is_void_v<decltype(run())>)
    run();
  else
    return std::decay_t<decltype(run())>(FunctionalCall::lasting(run()));
}

}  // namespace reprise::nn

namespace reprise {
using nn::functional_call;
}  // namespace reprise
