// Matrix products by cuBLASLt: which part of the epilogue it takes, and what is left to finish_gemm.
#include "reprise/kernels/gemm/cublaslt.h"

#include <cublasLt.h>

#include <optional>

#include "reprise/kernels/cuda/workspace.h"
#include "reprise/kernels/elementwise/copy.h"
#include "reprise/kernels/gemm/cublaslt_call.h"
#include "reprise/kernels/gemm/cublaslt_library.h"
#include "reprise/kernels/gemm/finish.h"

namespace reprise::kernels::vendor {
namespace {

using gemm_detail::Operands;

/// What cuBLASLt does: D = fused(A B + addend).
struct Split {
  Family family = Family::plain;
  int epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  TensorView aux{};     ///< the pre-activation, written by GELU_AUX, read by DGELU
  TensorView addend{};  ///< absent: nothing is added
};

/// What cuBLASLt asks of a bias, and of the matrix beside the result.
bool is_aligned(const TensorView& x) { return reinterpret_cast<uintptr_t>(x.data) % 16 == 0; }
bool fits_aux(const TensorView& x) {
  return is_aligned(x) && x.stride(-2) % 8 == 0 && x.stride(-2) >= x.size(-1);
}

bool is_half(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

/// Whether all that an epilogue reads and writes beside C has C's dtype. cuBLASLt knows a bias and an addend of no other
/// (CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE in its header).
bool is_of_one_dtype(DType c, const Epilogue& e) {
  for (const TensorView* x :
       {&e.bias, &e.pre_activation, &e.residual, &e.scale, &e.row_scale, &e.dactivation})
    if (*x && x->dtype != c) return false;
  return true;
}

/// GELU by tanh, forward. Whether the pre-activation is wanted as well, or alone, is no part of the question: all of
/// these must come from one algorithm.
bool takes_gelu(const Operands& x, const Epilogue& e) {
  return e.activation == Activation::gelu_tanh && is_half(x.c.dtype) && x.c.rank() == 2 && !e.accumulate &&
         !e.residual && x.c.size(-1) % 8 == 0 && (!e.pre_activation || fits_aux(x.pre_activation));
}

Split split_gelu(const Operands& x, const Epilogue& e) {
  int epilogue = e.bias ? CUBLASLT_EPILOGUE_BIAS : 0;
  if (!e.stops_before_activation) epilogue |= CUBLASLT_EPILOGUE_GELU;
  if (e.pre_activation) epilogue |= CUBLASLT_EPILOGUE_GELU_AUX;
  return {.family = e.bias ? Family::gelu_bias : Family::gelu,
          .epilogue = epilogue == 0 ? CUBLASLT_EPILOGUE_DEFAULT : epilogue,
          .bias = e.bias.data,
          .aux = x.pre_activation};
}

/// Nothing if the epilogue is left to finish_gemm. cuBLASLt's GELU is the one by tanh; its ReLU turns NaN into 0, ours
/// does not, so that is left to us.
std::optional<Split> split_epilogue(const Operands& x, const Epilogue& e) {
  if (!is_of_one_dtype(x.c.dtype, e)) return {};
  if (e.dactivation) {
    if (e.activation != Activation::gelu_tanh || !is_half(x.c.dtype) || x.c.rank() != 2 || e.accumulate ||
        !fits_aux(x.dactivation) || x.dactivation.data == x.c.data)
      return {};
    return Split{.family = Family::dgelu, .epilogue = CUBLASLT_EPILOGUE_DGELU, .aux = x.dactivation};
  }
  if (e.scale || e.row_scale || (e.bias && (x.c.dtype == DType::f64 || !is_aligned(e.bias)))) return {};
  if (takes_gelu(x, e)) return split_gelu(x, e);
  if (e.activation != Activation::none || e.pre_activation || (e.residual && e.accumulate)) return {};
  return Split{.family = e.bias ? Family::bias : Family::plain,
               .epilogue = e.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT,
               .bias = e.bias.data,
               .addend = e.accumulate ? x.c : x.residual};
}

/// The split of an epilogue whose bias may also be f32 beside a 16-bit C. cuBLASLt adds a bias of C's dtype alone, so such a
/// bias is rounded to it first, into `rounded`. Sums in f32, to which it could be added as it is, would cost a pass that takes
/// more than half of the product's time.
std::optional<Split> split_with_bias(const Stream& stream, const Operands& x, const Epilogue& epilogue,
                                     std::optional<device::Workspace>& rounded) {
  Epilogue e = epilogue;
  const bool rounds = e.bias && e.bias.dtype == DType::f32 && is_half(x.c.dtype);
  if (rounds) {
    rounded.emplace(stream, size_t(e.bias.numel()) * size_of(x.c.dtype));
    e.bias.dtype = x.c.dtype, e.bias.data = rounded->as<void>();
  }
  const std::optional<Split> split = split_epilogue(x, e);
  if (split && rounds) copy(stream, epilogue.bias, e.bias);
  return split;
}

/// The matrices of x at place `index` of its outer batch dimensions.
TensorView at_outer(TensorView x, int64_t index) {
  if (!x) return x;
  int64_t offset = 0;
  for (int dim = x.rank() - 4; dim >= 0; --dim) {
    offset += index % x.shape[dim] * x.strides[dim];
    index /= x.shape[dim];
  }
  x.data = static_cast<std::byte*>(x.data) + offset * int64_t(size_of(x.dtype));
  return x;
}

/// `to` = fused(A B + addend). The innermost batch dimension is cuBLASLt's, the others are taken in turn.
bool multiply(const Stream& stream, const Operands& x, const TensorView& to, const Split& split) {
  const int64_t batch = to.rank() > 2 ? to.size(-3) : 1;
  const int64_t calls = to.numel() / (to.size(-2) * to.size(-1) * batch);
  if (batch > 0x7fffffff) return false;
  for (int64_t i = 0; i < calls; ++i) {
    const TensorView result = at_outer(to, i);
    const auto a = cublas_matrix(at_outer(x.b, i)), b = cublas_matrix(at_outer(x.a, i)),
               d = cublas_matrix(result);
    const auto c = split.addend ? cublas_matrix(at_outer(split.addend, i)) : d;
    if (!a || !b || !c || !d || c->transposed || d->transposed) return false;
    if (batch > 1 && (c->batch_stride == 0 || d->batch_stride == 0)) return false;
    const CublasCall call{.device = to.device,
                          .types = cublas_types(x.a.dtype, to.dtype),
                          .a = *a,
                          .b = *b,
                          .c = *c,
                          .d = *d,
                          .k = x.a.size(-1),
                          .batch = batch,
                          .family = split.family,
                          .epilogue = cublasLtEpilogue_t(split.epilogue),
                          .bias = split.bias,
                          .aux = split.aux.data,
                          .aux_leading = split.aux ? split.aux.stride(-2) : 0,
                          .adds = bool(split.addend)};
    if (run_cublaslt(stream, call)) continue;
    invariant(i == 0, "gemm: cuBLASLt took a part of a batch");
    return false;
  }
  return true;
}

/// Without an activation the pre-activation is C: the call that writes no pre-activation, and a copy.
bool multiply_with_copy(const Stream& stream, const Operands& x, const Epilogue& epilogue) {
  const Epilogue& e = epilogue;
  if (!e.pre_activation || e.activation != Activation::none || e.residual || e.scale || e.row_scale ||
      e.accumulate)
    return false;
  Epilogue alone = e;
  alone.pre_activation = {};
  std::optional<device::Workspace> rounded;
  const std::optional<Split> split =
      e.pre_activation.dtype == x.c.dtype ? split_with_bias(stream, x, alone, rounded) : std::nullopt;
  if (!split || !multiply(stream, x, x.c, *split)) return false;
  finish_gemm(stream, x.c, x, {.pre_activation = e.pre_activation});
  return true;
}

/// The product alone, then our own epilogue. Sums of 16-bit factors stay in f32 until it rounds them; and what it reads
/// must not be overwritten by the product.
bool multiply_and_finish(const Stream& stream, const Operands& x, const Epilogue& epilogue) {
  TensorView sums = x.c;
  if (is_half(sums.dtype)) sums.dtype = DType::f32;
  sums.strides = contiguous_strides(sums.shape);
  const bool apart = x.residual || x.dactivation || epilogue.accumulate || sums.dtype != x.c.dtype;
  device::Workspace scratch(stream, apart ? size_t(sums.numel()) * size_of(sums.dtype) : 0);
  if (apart)
    sums.data = scratch.as<void>();
  else
    sums = x.c;
  if (!multiply(stream, x, sums, {})) return false;
  finish_gemm(stream, sums, x, epilogue);
  return true;
}

}  // namespace

bool has_cublaslt() { return cublaslt_library() != nullptr; }

bool cublaslt_gemm(const Stream& stream, const Operands& x, const Epilogue& epilogue) {
  if (!has_cublaslt() || !cublas_matrix(x.a) || !cublas_matrix(x.b)) return false;
  if (multiply_with_copy(stream, x, epilogue)) return true;
  std::optional<device::Workspace> rounded;
  const std::optional<Split> split = split_with_bias(stream, x, epilogue, rounded);
  if (split && multiply(stream, x, x.c, *split)) return true;
  return multiply_and_finish(stream, x, epilogue);
}

}  // namespace reprise::kernels::vendor
