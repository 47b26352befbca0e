// Patches of images as tokens: one copy that turns pixels around, and one product. Keeps x and the weight; backward
// makes the patches again, which costs a copy.
#include "reprise/autograd/function.h"
#include "reprise/autograd/graph_task.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/gemm/linear_kernels.h"
#include "reprise/autograd/ops/result_dtype.h"
#include "reprise/autograd/ops/wide.h"
#include "reprise/kernels/elementwise/copy.h"

namespace reprise {
namespace {

using namespace autograd;

// (N, C, H, W) and (W, C, P, Q) -> (N, I, C, P, J, Q) with I patches of height P below each other.
Shape cut_shape(const Shape& x, const Shape& weight) {
  return {x[0], x[1], x[2] / weight[2], weight[2], x[3] / weight[3], weight[3]};
}
const Dims kPatchesFirst = {0, 2, 4, 1, 3, 5};  // (N, C, I, P, J, Q) -> (N, I, J, C, P, Q)

void check_patch_embed(const Tensor& x, const Tensor& weight, const Tensor& bias, Mixed mixed = Mixed::none) {
  constexpr auto op = "patch_embed";
  check(x.rank() == 4 && weight.rank() == 4 && x.size(1) == weight.size(1), op,
        ": needs images (N, C, H, W) and a weight (W, C, P, P), got ", x.shape(), " and ", weight.shape());
  check(weight.size(2) > 0 && weight.size(3) > 0 && x.size(2) % weight.size(2) == 0 &&
            x.size(3) % weight.size(3) == 0,
        op, ": patches of ", weight.size(2), " x ", weight.size(3), " do not tile images of ", x.size(2),
        " x ", x.size(3));
  const bool fits = x.dtype() == weight.dtype() ||
                    (mixed == Mixed::f32 && x.dtype() == DType::f32 && is_half(weight.dtype()));
  check(fits, op, ": images are ", x.dtype(), ", weight ", weight.dtype());
  check_floating(op, x);
  check_device(op, x, weight);
  check_bias(bias, weight, op, mixed);
}

// The pixels of x, patch by patch: (N, I, J, C, P, Q).
TensorView patches_of(const Tensor& x, const Shape& weight) {
  TensorView cut;
  invariant(try_reshape(x.view(), cut_shape(x.shape(), weight), cut), "patch_embed: cannot cut ", x.shape());
  return permute(cut, kPatchesFirst);
}

// A tensor (N I J, C P Q) for the patches, and it as (N, I, J, C, P, Q).
struct Rows {
  Tensor rows;
  TensorView patches;

  Rows(const Tensor& given, const TensorView& like) : rows(given) {
    invariant(try_reshape(rows.view(), like.shape, patches), "patch_embed: rows ", rows.shape());
  }
  static Shape shape(const TensorView& like) {
    return {like.size(0) * like.size(1) * like.size(2), like.size(3) * like.size(4) * like.size(5)};
  }
};

// In `dtype`, which the copy rounds to.
Tensor patchify(const Tensor& x, const Shape& weight, DType dtype) {
  const TensorView patches = patches_of(x, weight);
  const Rows to(Tensor::empty(Rows::shape(patches), dtype, x.device()), patches);
  kernels::copy(current_stream(x.device()), patches, to.patches);
  return to.rows;
}

struct PatchEmbed : Function<PatchEmbed> {
  static constexpr const char* name = "patch_embed";
  static constexpr auto autocast = amp::Policy::low;
  static constexpr uint32_t autocast_keeps = 0b101;  // x and bias
  static constexpr OpCost cost = OpCost::product();
  bool has_bias_ = false;

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias, std::optional<DType> out) {
    check_patch_embed(x, weight, bias, under_autocast() ? Mixed::f32 : Mixed::none);
    if (out) check_result_dtype(name, weight, *out);
    has_bias_ = bias.defined();
    save(x, weight, bias);
    const KernelEpilogue epilogue(bias, {});
    const Tensor rows = patchify(x, weight.shape(), weight.dtype());
    const Tensor y = linear_forward(rows, matrix_of(weight), epilogue.views, out);
    const Shape cut = cut_shape(x.shape(), weight.shape());
    return raw_reshape(y, {cut[0], cut[2] * cut[4], weight.size(0)});
  }

  TensorList backward(const TensorList& dy) {
    Tensor x = saved(0), weight = saved(1);
    if (grad_mode_enabled()) {
      auto same = [](const TensorList& in) {
        return TensorList{composite::patch_embed(cast(in[0], in[1].dtype()), in[1], in[2])};
      };
      return composite_backward(same, {x, weight, saved(2)}, {cast(dy[0], weight.dtype())});
    }
    Tensor d = product_gradient(as_rows(dy[0]), {}, weight.dtype()), dx, dweight, dbias;
    if (needs_grad(0)) {
      dx = raw_empty_like(x);
      const TensorView patches = patches_of(dx, weight.shape());
      const Rows drows(linear_dx(d, matrix_of(weight), {}), patches);
      kernels::copy(current_stream(x.device()), drows.patches, patches);
    }
    const bool wants_dbias = has_bias_ && needs_grad(2);
    MemoryScope memory = gradient_memory(1);
    if (needs_grad(1))
      dweight = gradient_of_weight(d, patchify(x, weight.shape(), d.dtype()), weight.shape(),
                                   wants_dbias ? &dbias : nullptr);
    else if (wants_dbias)
      dbias = linear_dbias(d, gradient_dtype(2, d.dtype()));
    return {dx, dweight, dbias};
  }

 private:
  // Added to that of earlier passes as it is made, where the leaf has one.
  Tensor gradient_of_weight(const Tensor& d, const Tensor& patches, const Shape& shape, Tensor* dbias) const {
    const LinearGradientDtypes dtypes{gradient_dtype(1, d.dtype()), gradient_dtype(2, d.dtype())};
    GraphTask::LeafSum sum;
    if (!is_half(dtypes.weight)) sum = GraphTask::sum_at_leaf(edges_[1]);
    const Shape matrix{d.size(1), patches.size(1)};
    const Tensor before = sum.gradient.defined() ? raw_reshape(sum.gradient, matrix) : Tensor();
    return raw_reshape(linear_dweight(d, patches, dtypes, dbias, before), shape);
  }

  // (W, C P Q).
  static Tensor matrix_of(const Tensor& weight) {
    return raw_reshape(weight.contiguous(),
                       {weight.size(0), weight.size(1) * weight.size(2) * weight.size(3)});
  }
};

}  // namespace

Tensor patch_embed(const Tensor& x, const Tensor& weight, const Tensor& bias, const ResultOptions& result) {
  return PatchEmbed::apply(x, weight, bias, result.out);
}

Tensor composite::patch_embed(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_patch_embed(x, weight, bias, Mixed::f32);
  const Shape cut = cut_shape(x.shape(), weight.shape());
  const int64_t pixels = cut[1] * cut[3] * cut[5];
  Tensor patches = permute(reshape(x, cut), kPatchesFirst);
  return composite::linear(reshape(patches, {cut[0], cut[2] * cut[4], pixels}),
                           reshape(weight, {weight.size(0), pixels}), bias, {});
}

}  // namespace reprise
