// Derivatives of functions, as values: products with the Jacobian from both sides, the Jacobian, the Hessian and products with
// it. By passes of the engine: a checkpoint inside of the function works as it does in training. There is no vmap: a Jacobian
// takes one backward pass per element of the output.
#pragma once

#include "reprise/autograd/gradcheck.h"

namespace reprise::autograd {

/// What a function gave, and the product.
struct ValueAndProduct {
  TensorList values;   ///< the outputs of the function
  TensorList product;  ///< with the Jacobian or the Hessian
};

// All of these call `fn` once, with copies of the inputs' handles that require grad, whatever the inputs say; no `grad` is
// touched. Inputs and outputs are floating; a derivative is 0 where an output does not depend on an input. Unless
// `create_graph`, the results are constants.

/// J^T u: an u for each output, of its shape; one product for each input. (torch.autograd.functional.vjp)
ValueAndProduct vjp(const TensorFunction& fn, const TensorList& inputs, const TensorList& u,
                    bool create_graph = false);
/// J v: a v for each input, of its shape; one product for each output. By differentiating J^T u in u, where it is linear: two
/// backward passes, and `fn` is differentiable twice. (torch.autograd.functional.jvp)
ValueAndProduct jvp(const TensorFunction& fn, const TensorList& inputs, const TensorList& v,
                    bool create_graph = false);

/// jacobian(...)[i][j][o..., x...] = d output i [o...] / d input j [x...].
std::vector<TensorList> jacobian(const TensorFunction& fn, const TensorList& inputs,
                                 bool create_graph = false);
/// The jacobian of a function from one tensor to one: (shape of the output, shape of x).
Tensor jacobian(const std::function<Tensor(const Tensor&)>& fn, const Tensor& x, bool create_graph = false);

/// hessian(...)[i][j][x..., y...] = d^2 f / d input i [x...] d input j [y...], of a function that gives one element.
std::vector<TensorList> hessian(const TensorFunction& fn, const TensorList& inputs,
                                bool create_graph = false);
/// The hessian of a function from one tensor to one element: (shape of x, shape of x).
Tensor hessian(const std::function<Tensor(const Tensor&)>& fn, const Tensor& x, bool create_graph = false);
/// H v of a function that gives one element: a v for each input, one product for each input.
ValueAndProduct hvp(const TensorFunction& fn, const TensorList& inputs, const TensorList& v,
                    bool create_graph = false);

}  // namespace reprise::autograd

namespace reprise {
using autograd::hessian;
using autograd::hvp;
using autograd::jacobian;
using autograd::jvp;
using autograd::ValueAndProduct;
using autograd::vjp;
}  // namespace reprise
