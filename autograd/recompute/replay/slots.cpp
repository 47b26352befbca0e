// Records of saved tensors, and their rebuilt values.
#include "reprise/autograd/recompute/replay/slots.h"

#include <string_view>
#include <utility>

namespace reprise::recompute {

SlotRecord record_of(const Tensor& x, const char* op_name) {
  return {op_name, x.shape(), x.dtype(), x.device()};
}

std::string difference(const SlotRecord& first, const SlotRecord& replay) {
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

void Rebuilt::put(size_t index, const Tensor& x) { values_[index] = {x, x.version(), State::rebuilt}; }

Tensor Rebuilt::take(size_t index, const SlotRecord& record) {
  Value& value = values_[index];
  check(value.state != State::taken, "checkpoint: saved tensor ", index, ", of ", record.op_name,
        ", is unpacked twice in one backward pass, and was let go after the first time; call saved(i) once");
  invariant(value.state == State::rebuilt, "checkpoint: saved tensor ", index, " was not rebuilt");
  check(value.tensor.version() == value.version, record.op_name, ": a tensor of shape ", record.shape,
        " that backward needs was changed in place inside the checkpoint: it is at version ",
        value.tensor.version(), ", saved at ", value.version);
  value.state = State::taken;
  return std::exchange(value.tensor, Tensor());
}

}  // namespace reprise::recompute
