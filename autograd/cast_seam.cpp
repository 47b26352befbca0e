// Which argument is cast, and to what.
#include "reprise/autograd/cast_seam.h"

#include "reprise/autograd/ops.h"
#include "reprise/core/hash.h"

namespace reprise::autograd {
namespace {

using amp::Policy;

// On a device whose scope is on, of a floating dtype but f64.
bool is_eligible(const Tensor& x) {
  return x.defined() && is_floating(x.dtype()) && x.dtype() != DType::f64 && amp::autocast_dtype(x.device());
}

// The dtype that several arguments meet in; none if one of them is f64, which stays. A number, a tensor without
// dimensions, does not widen those that have some, as in NumPy and PyTorch.
std::optional<DType> widest(const TensorList& given, uint32_t kept) {
  bool has_dimensions = false;
  for (const Tensor& x : given) has_dimensions |= is_eligible(x) && x.rank() > 0;
  std::optional<DType> dtype;
  for (size_t i = 0; i < given.size(); ++i) {
    const Tensor& x = given[i];
    if (x.defined() && x.dtype() == DType::f64) return {};
    if (!is_eligible(x) || (i < 32 && kept >> i & 1) || (has_dimensions && x.rank() == 0)) continue;
    dtype = dtype ? promote(*dtype, x.dtype()) : x.dtype();
  }
  return dtype;
}

}  // namespace

CastSeam::CastSeam(Policy policy, uint32_t kept, const TensorList& given) : inputs_(given), values_(given) {
  for (const Tensor& x : given) is_on_ |= x.defined() && amp::autocast_dtype(x.device()).has_value();
  if (policy == Policy::inputs) return;
  const std::optional<DType> meeting = policy == Policy::widest ? widest(given, kept) : std::nullopt;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!is_eligible(given[i])) continue;
    const amp::AutocastState::OfDevice& scope = amp::autocast_state().of(given[i].device());
    if (i < 32 && kept >> i & 1) {  // beside products of one half type stands f32, never the other half type
      const bool fits = policy != Policy::low || given[i].dtype() == *scope.dtype;
      if (!fits) set(i, DType::f32, scope.weights);
      continue;
    }
    if (policy == Policy::low) set(i, *scope.dtype, scope.weights);
    if (policy == Policy::f32) set(i, DType::f32, scope.weights);
    if (meeting) set(i, *meeting, scope.weights);
  }
}

void CastSeam::set(size_t i, DType dtype, amp::Shadows kept) {
  if (inputs_[i].dtype() == dtype) return;
  attribute_ = mix(mix(attribute_, i), uint64_t(dtype) + 1);
  if (has_shadow(inputs_[i])) {
    values_[i] = shadow_of(inputs_[i], dtype, kept);
    shadows_ = kept;
  } else {
    values_[i] = inputs_[i] = cast(inputs_[i], dtype);
  }
}

Tensor CastSeam::weight_of(const Tensor& x) const {
  if (!x.defined()) return {};
  for (size_t i = 0; i < values_.size(); ++i)
    if (x.is_same(values_[i]) && !x.is_same(inputs_[i])) return inputs_[i];
  return {};
}

TensorList CastArguments::cast(Policy policy, const TensorList& given) {
  // A shadow would leave the graph here: only what is never narrower than a weight may be asked for.
  invariant(policy != Policy::low, "autocast: a function of several operations is no product");
  return amp::autocast_state().any ? CastSeam(policy, /*kept=*/0, given).inputs() : given;
}

}  // namespace reprise::autograd
