// Finding captured tensors and checking their versions.
#include "reprise/autograd/recompute/captures.h"

#include <algorithm>

namespace reprise::recompute {

Captures::Captures(const TensorList& region_inputs) {
  for (const Tensor& x : region_inputs)
    if (x.defined()) own_.insert(x.storage().get());
}

void Captures::note(const TensorList& arguments, const TensorList& results) {
  for (const Tensor& x : arguments) {
    if (!x.defined()) continue;
    const std::shared_ptr<Storage>& storage = x.storage();
    if (!own_.contains(storage.get())) captures_.try_emplace(storage.get(), storage, x.version(), x.shape());
    if (!x.is_leaf() || !x.requires_grad()) continue;
    auto meta = autograd::find_meta(x);
    if (!has_leaf(*meta)) leaves_.push_back(meta);
  }
  for (const Tensor& y : results)
    if (y.defined()) own_.insert(y.storage().get());
}

void Captures::check_versions() const {
  for (const auto& [address, capture] : captures_) {
    std::shared_ptr<Storage> storage = capture.storage.lock();
    check(!storage || storage->version() == capture.version, "checkpoint: a tensor of shape ", capture.shape,
          " that fn captured was changed in place between the first run and the replay: it is at version ",
          storage ? storage->version() : 0, ", was at ", capture.version);
  }
}

bool Captures::wrote(const Tensor& x) const {
  return std::any_of(written_.begin(), written_.end(),
                     [&](const auto& written) { return written.lock() == x.storage(); });
}

bool Captures::has_leaf(const autograd::AutogradMeta& leaf) const {
  return std::any_of(leaves_.begin(), leaves_.end(),
                     [&](const auto& known) { return known.lock().get() == &leaf; });
}

}  // namespace reprise::recompute
