// Slots: what is left of a region's saved tensors between forward and backward, and what a replay puts there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reprise/autograd/recompute/replay/kept.h"
#include "reprise/autograd/recompute/replay/op_recorder.h"

namespace reprise::recompute {

class Region;

using KeptValues = std::vector<std::shared_ptr<KeptValue>>;

/// Stands in the graph for a saved tensor. A region knows its slots weakly: one that is gone need not be
/// rebuilt, and the values that only it would read are let go.
struct Slot {
  std::shared_ptr<Region> region;
  size_t index = 0;
  std::shared_ptr<KeptValue> kept{};                 ///< has the value; none: a replay rebuilds it,
  RelativeView view{};                               ///< ... there
  std::shared_ptr<const KeptValues> replay_reads{};  ///< ... and reads these
};

/// What the first run saved, to compare a replay with.
struct SlotRecord {
  const char* op_name = "";
  Shape shape;
  DType dtype = DType::f32;
  Device device;
  uint64_t origin = 0;  ///< its provenance
};

SlotRecord record_of(const Tensor& x, const char* op_name);

/// How a replay's tensor differs from the first run's; empty if it does not.
std::string difference(const SlotRecord& first, const SlotRecord& replay);

/// The tensors that one replay rebuilt, for one backward pass. Each is handed out once and then forgotten.
class Rebuilt {
 public:
  explicit Rebuilt(size_t count) : values_(count) {}
  void put(size_t index, const Tensor& x);
  bool has(size_t index) const { return values_[index].state == State::rebuilt; }
  /// Error if it was taken before, or changed in place by what the replay ran afterwards.
  Tensor take(size_t index, const SlotRecord& record);

 private:
  enum class State : uint8_t { absent, rebuilt, taken };
  struct Value {
    Tensor tensor;
    uint64_t version = 0;
    State state = State::absent;
  };
  std::vector<Value> values_;
};

}  // namespace reprise::recompute
