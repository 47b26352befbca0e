// Making and keeping shadows.
#include "reprise/autograd/shadow.h"

#include <algorithm>

#include "reprise/autograd/accumulate_grad.h"
#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/shadow_update.h"
#include "reprise/core/cuda/runtime.h"
#include "reprise/core/no_compute.h"
#include "reprise/kernels/elementwise/copy.h"

namespace reprise::autograd {
namespace {

bool is_current(const Shadow& shadow, const Tensor& weight, DType dtype) {
  return shadow.value.dtype() == dtype && shadow.stream == current_stream(weight.device()).handle() &&
         shadow.storage == weight.storage()->id() && shadow.version == weight.version() &&
         shadow.value.shape() == weight.shape() && (shadow.has_values || NoCompute::is_on());
}

Tensor rounded(const Tensor& weight, DType dtype) {
  HideOpObservers unseen;
  MemoryScope memory(MemoryCategory::parameters);
  Tensor value = Tensor::empty(weight.shape(), dtype, weight.device());
  kernels::copy(current_stream(weight.device()), weight, value);
  return value;
}

// What hooks gave back has an edge to the leaf.
std::shared_ptr<AutogradMeta> meta_of_leaf(const Tensor& weight) {
  auto meta = find_meta(weight);
  if (!meta || !meta->grad_fn) return meta;
  auto* end = dynamic_cast<AccumulateGrad*>(meta->grad_fn.get());
  return end ? end->shared_leaf() : nullptr;
}

// One that lies in the memory of a graph that is captured is made anew by each launch of it; one that was made before
// would be read as it was then. And what launches write changes with no word to the host.
bool belongs_to_graphs(const Tensor& weight) {
  const Device device = weight.device();
  return device.is_cuda() && (weight.storage()->may_be_written_by_graphs() ||
                              cuda::is_capturing(current_stream(device).handle()));
}

}  // namespace

bool has_shadow(const Tensor& x) {
  if (x.dtype() != DType::f32 || !x.is_leaf() || !x.is_contiguous()) return false;
  const std::shared_ptr<AutogradMeta> meta = find_meta(x);
  return meta && (meta->requires_grad || meta->is_parameter) && !meta->stands_in;
}

void mark_parameter(const Tensor& x) {
  require_meta(x)->is_parameter = true;
  x.set_fixed(true);
}

bool is_parameter(const Tensor& x) {
  const std::shared_ptr<AutogradMeta> meta = find_meta(x);
  return meta && meta->is_parameter;
}

Tensor shadow_of(const Tensor& weight, DType dtype, amp::Shadows kept) {
  const std::shared_ptr<AutogradMeta> meta = meta_of_leaf(weight);
  if (!meta || belongs_to_graphs(weight)) return rounded(weight, dtype);
  std::lock_guard lock(meta->mutex);
  std::vector<Shadow>& shadows = meta->shadows;
  for (const Shadow& shadow : shadows)
    if (is_current(shadow, weight, dtype)) return shadow.value;
  if (kept == amp::Shadows::none) return rounded(weight, dtype);
  std::erase_if(shadows, [&](const Shadow& old) { return !is_current(old, weight, old.value.dtype()); });
  const bool has_values = !NoCompute::is_on() || weight.device().is_cuda();
  shadows.push_back({rounded(weight, dtype), weight.storage()->id(), weight.version(),
                     current_stream(weight.device()).handle(), has_values});
  if (kept == amp::Shadows::forward)
    amp::when_autocast_ends([weak = std::weak_ptr(meta)] {
      auto alive = weak.lock();
      if (!alive) return;
      std::lock_guard own(alive->mutex);
      alive->shadows.clear();
    });
  return shadows.back().value;
}

Tensor shadow_to_write(const Tensor& weight) {
  const std::shared_ptr<AutogradMeta> meta = find_meta(weight);
  if (!meta || belongs_to_graphs(weight)) return {};
  std::lock_guard lock(meta->mutex);
  if (meta->shadows.size() != 1) return {};
  const Shadow& shadow = meta->shadows.front();
  const bool ours = is_current(shadow, weight, shadow.value.dtype()) && shadow.value.is_sole_owner();
  return ours ? shadow.value : Tensor();
}

void keep_written_shadow(const Tensor& weight) {
  const std::shared_ptr<AutogradMeta> meta = find_meta(weight);
  std::lock_guard lock(meta->mutex);
  meta->shadows.front().version = weight.version();
}

void mark_stand_in(const Tensor& x) {
  require_meta(x)->stands_in = true;
  x.set_fixed(false);
}

}  // namespace reprise::autograd
