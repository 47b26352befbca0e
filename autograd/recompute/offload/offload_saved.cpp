// Packing saved tensors into a store.
#include "reprise/autograd/recompute/offload/offload_saved.h"

namespace reprise::recompute {
namespace {

constexpr int ahead = 4;  // tensors on their way back: an operation saves a few

struct Saved {
  std::shared_ptr<OffloadedTensor> tensor;
  std::weak_ptr<Saved> before;
};

autograd::SavedTensorHooks::Pack packing_into(std::shared_ptr<Offload> offload) {
  check(offload != nullptr, "OffloadSaved: no store to offload to");
  return [offload = std::move(offload), newest = std::weak_ptr<Saved>()](const Tensor& x) mutable {
    auto saved = std::make_shared<Saved>(Saved{offload->put(x, "OffloadSaved"), newest});
    newest = saved;
    return std::any(std::move(saved));
  };
}

Tensor unpack(const std::any& packed) {
  const auto& saved = std::any_cast<const std::shared_ptr<Saved>&>(packed);
  Tensor x = saved->tensor->fetch();
  std::shared_ptr<Saved> before = saved->before.lock();
  for (int i = 0; before && i < ahead; ++i, before = before->before.lock()) before->tensor->prefetch();
  return x;
}

}  // namespace

OffloadSaved::OffloadSaved(std::shared_ptr<Offload> offload)
    : hooks_(packing_into(std::move(offload)), unpack) {}

}  // namespace reprise::recompute
