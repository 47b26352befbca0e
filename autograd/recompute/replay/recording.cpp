// Comparing what two runs saved.
#include "reprise/autograd/recompute/replay/recording.h"

#include <string_view>

namespace reprise::recompute {

std::string difference(const SavedSlot& first, const SavedSlot& replay) {
  using reprise::detail::join;
  if (std::string_view(first.op_name) != replay.op_name)
    return join("the order of operations differs: it was saved by ", first.op_name, ", in the replay by ",
                replay.op_name);
  if (first.shape != replay.shape)
    return join("its shape was ", first.shape, ", in the replay it is ", replay.shape);
  if (first.dtype != replay.dtype)
    return join("its dtype was ", first.dtype, ", in the replay it is ", replay.dtype);
  if (first.device != replay.device)
    return join("its device was ", first.device, ", in the replay it is ", replay.device);
  return {};
}

std::optional<Provenance> Recording::new_provenance(const TensorList& run_inputs) const {
  if (options.determinism == Determinism::none) return {};
  auto draws = options.preserve_rng ? Provenance::Draws::compared : Provenance::Draws::ignored;
  return Provenance(run_inputs, draws, provenance ? &*provenance : nullptr);
}

}  // namespace reprise::recompute
