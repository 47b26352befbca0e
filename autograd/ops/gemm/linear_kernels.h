// The three products of a linear layer, shared by `linear` and `mlp`. x (rows, in), weight (out, in), dy
// (rows, out).
#pragma once

#include <functional>
#include <optional>

#include "reprise/autograd/node.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/kernels/gemm/gemm.h"

namespace reprise::autograd {

/// (..., C) as a matrix (rows, C); copies only if the strides force it.
Tensor as_rows(const Tensor& x);

/// What an epilogue reads must have rows of stride 1: the arguments, or copies, which live as long as this.
struct KernelEpilogue {
  kernels::Epilogue views;
  KernelEpilogue(const Tensor& bias, const LinearEpilogue& options);

 private:
  Tensor bias_, residual_, scale_, row_scale_;
};

/// The dtype in which kernels write a product that is wanted in `out`: where they cannot write that behind factors in
/// `factors`, f32, which is to be `converted`.
DType product_dtype(DType out, DType factors);

/// residual + row_scale * scale * activation(x W^T + bias) -> (rows, out), in the dtype `out`: none is the wider of those
/// of x and the residual. pre_activation (rows, out) is optional. The rows are apart as `padded_shape` says.
Tensor linear_forward(const Tensor& x, const Tensor& weight, const kernels::Epilogue& epilogue,
                      std::optional<DType> out = {});

/// The gradients' dtypes: under autocast those of f32 parameters are f32, where dY is of 16 bits.
struct LinearGradientDtypes {
  DType weight, bias, scale = weight;  ///< that of the scale counts where there is one
};
/// dY^T X; with `dbias`, which is set, the gradient of the bias as well. With `sum` dY^T X is added to it, and it is
/// the result: f32 or f64, contiguous, in the bits of the sum of both.
Tensor linear_dweight(const Tensor& dy, const Tensor& x, LinearGradientDtypes dtypes, Tensor* dbias = nullptr,
                      const Tensor& sum = {});
Tensor linear_dbias(const Tensor& dy, DType dtype);

// Note [Gradients behind a scale]
// In y = residual + row_scale * scale * (x W^T + bias), with D = row_scale * dY, G = D^T X and g the sum of D's rows:
//
//   dX = D (scale * W),   dW = scale * G,   dbias = scale * g,   dscale[n] = sum_k W[n, k] G[n, k] + bias[n] g[n].
//
// The last is the sum over rows of D (x W^T + bias) with its two sums exchanged: x W^T + bias is neither kept nor
// computed again, at in * out operations beside rows * in * out, and right where scale is 0.

/// D in `dtype`, that of the products; dy itself if that is its own and there is no row_scale.
Tensor product_gradient(const Tensor& dy, const Tensor& row_scale, DType dtype);
/// D (scale * W), with an epilogue; scale is optional.
Tensor linear_dx(const Tensor& d, const Tensor& weight, const Tensor& scale,
                 const kernels::Epilogue& epilogue = {});

struct ParameterGradients {
  Tensor weight, bias, scale;  ///< undefined where not wanted
};
struct LinearParameters {
  Tensor weight, bias, scale;                  ///< bias and scale are optional
  bool wants_weight, wants_bias, wants_scale;  ///< their gradients; wants_scale only where there is one
  LinearGradientDtypes dtypes;
  Edge to{};  ///< where the weight's gradient goes: to a leaf's of earlier passes it is added as it is made
};
/// The gradients of a layer's parameters from D; `input()` gives X, and is called if it is needed.
ParameterGradients linear_gradients(const Tensor& d, const LinearParameters& of,
                                    const std::function<Tensor()>& input);

/// Which dtypes an operation takes beside that of its products.
enum class Mixed : uint8_t { none, f32 };
/// Whether a tensor of this dtype may be added to the products.
bool may_stand_beside(DType dtype, DType product, Mixed mixed);
void check_bias(const Tensor& bias, const Tensor& weight, const char* op, Mixed mixed = Mixed::none);
/// Of all that is added or multiplied behind the layer's bias.
void check_epilogue(const LinearEpilogue& epilogue, const Tensor& x, int64_t width, const char* op,
                    Mixed mixed);
void check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const char* op, Mixed mixed);

}  // namespace reprise::autograd
