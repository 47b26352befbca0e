// OffloadSaved: offloads whatever is saved for backward, without any recompute.
//
//   {
//     rp::OffloadSaved scope(offload);
//     loss = model(x);
//   }
//   loss.backward();   // what is wanted next is on its way back
#pragma once

#include "reprise/autograd/recompute/offload/offload.h"
#include "reprise/autograd/saved_tensor.h"

namespace reprise::recompute {

/// While it lives, tensors that operations on this thread save for backward are offloaded; see Offload::put
/// for those that stay. The order in which they are fetched is taken to be the reverse. (PyTorch:
/// torch.autograd.graph.save_on_cpu.)
class OffloadSaved {
 public:
  /// Error if `offload` is null.
  explicit OffloadSaved(std::shared_ptr<Offload> offload = std::make_shared<Offload>());

 private:
  autograd::SavedTensorHooks hooks_;
};

}  // namespace reprise::recompute

namespace reprise {
using recompute::OffloadSaved;
}  // namespace reprise
