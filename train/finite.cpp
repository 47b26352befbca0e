// One pass over all tensors; only if that finds something, one by one.
#include "reprise/train/finite.h"

#include "reprise/kernels/optimizer/gradient_norm.h"

namespace reprise::train {
namespace {

bool is_finite(const TensorList& tensors) {
  std::vector<TensorView> views(tensors.begin(), tensors.end());
  if (views.empty()) return true;
  Tensor found = Tensor::empty({}, DType::i32, tensors[0].device());
  kernels::check_finite(current_stream(found.device()), views, found);
  return found.item() == 0;
}

// The name of the first that is not finite. State such as numbers of steps may lie on another device.
std::optional<std::string> first_bad(const nn::NamedTensors& tensors) {
  TensorList on_cpu, on_device;
  for (const auto& [name, tensor] : tensors)
    if (is_floating(tensor.dtype()) && tensor.numel() > 0 && !tensor.is_hollow())
      (tensor.device().type == DeviceType::cpu ? on_cpu : on_device).push_back(tensor.detach().contiguous());
  if (is_finite(on_cpu) && is_finite(on_device)) return {};
  for (const auto& [name, tensor] : tensors)
    if (is_floating(tensor.dtype()) && tensor.numel() > 0 && !tensor.is_hollow() &&
        !is_finite({tensor.detach().contiguous()}))
      return name;
  return {};
}

}  // namespace

std::optional<std::string> first_bad_tensor(const Checkpoint& checkpoint) {
  if (auto name = first_bad(checkpoint.parameters)) return name;
  if (auto name = checkpoint.shared ? first_bad(checkpoint.shared->own()) : std::nullopt) return name;
  if (auto name = first_bad(checkpoint.optimizer)) return "optimizer state " + *name;
  if (auto name = first_bad(checkpoint.ema)) return "the average of " + *name;
  return {};
}

}  // namespace reprise::train
