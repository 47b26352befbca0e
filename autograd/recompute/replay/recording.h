// Recording: what the first run of a region leaves for its replays. The first run writes it, replays read it.
#pragma once

#include <map>

#include "reprise/autograd/recompute/accounting/region_stats.h"
#include "reprise/autograd/recompute/checkpoint.h"
#include "reprise/autograd/recompute/replay/captures.h"
#include "reprise/autograd/recompute/replay/op_record.h"
#include "reprise/autograd/recompute/replay/provenance.h"
#include "reprise/autograd/recompute/replay/saved_inputs.h"
#include "reprise/autograd/recompute/replay/trace.h"
#include "reprise/autograd/recompute/thread_state.h"

namespace reprise::recompute {

class KeptValue;
class Region;

using KeptValues = std::vector<std::shared_ptr<KeptValue>>;

/// Stands in the graph for a saved tensor. A recording knows these weakly: one that is gone need not be
/// rebuilt, and the values that only it would read are let go.
struct Slot {
  std::shared_ptr<Region> region;
  size_t index = 0;                                  ///< in Recording::slots
  std::shared_ptr<KeptValue> kept{};                 ///< has the value; none: a replay rebuilds it,
  RelativeView view{};                               ///< ... there
  std::shared_ptr<const KeptValues> replay_reads{};  ///< ... and reads these
};

/// A tensor that an operation saved for backward.
struct SavedSlot {
  const char* op_name = "";
  Shape shape;
  DType dtype = DType::f32;
  Device device;
  uint64_t origin = 0;  ///< its provenance
  SlotSource source{};  ///< if the recording knows its operations
  std::weak_ptr<Slot> in_graph{};

  SavedSlot(const Tensor& x, const char* saved_by)
      : op_name(saved_by), shape(x.shape()), dtype(x.dtype()), device(x.device()) {}
};

/// How a replay's saved tensor differs from the first run's in form; empty if it does not.
std::string difference(const SavedSlot& first, const SavedSlot& replay);

struct Recording {
  /// Before the first run. `options` with the thread's overrides in them; `paths` name the inputs.
  Recording(std::shared_ptr<Body> what, const TensorList& given, const std::vector<std::string>& paths,
            const CheckpointOptions& how)
      : body(std::move(what)), options(how), inputs(given, paths, how.offload), captures(given) {}

  std::shared_ptr<Body> body;
  CheckpointOptions options;
  SavedInputs inputs;
  Captures captures;
  std::vector<autograd::DrawnGenerator> drawn{};  ///< with options.preserve_rng
  ThreadState thread = ThreadState::now();
  std::optional<Provenance> provenance{};                ///< if replays are compared with it
  std::shared_ptr<CallStats> stats = CallStats::open();  ///< null where nothing is counted
  bool complete = false;  ///< the first run is over; a backward pass inside it reads slots before

  // Of a non-reentrant region.
  std::vector<SavedSlot> slots{};  ///< in the order in which they were saved
  std::vector<OpRecord> ops{};
  std::vector<ResultId> always_read{};  ///< by nested checkpoints, which every replay runs
  bool knows_ops = true;                ///< if not, replays run everything
  std::map<ResultId, std::weak_ptr<KeptValue>> kept{};
  Trace trace{};

  bool has_trace() const { return options.debug || compares_values(); }
  bool compares_values() const { return options.determinism == Determinism::values; }
  /// Counts a run that is given `run_inputs` and begins now.
  RunStats count(CallStats::Run run, const TensorList& run_inputs) const {
    return RunStats(stats, run, run_inputs, [this](const Storage& x) { return captures.has(x); });
  }
  /// The provenance of a run that is given `run_inputs` and begins now; none where runs are not compared.
  std::optional<Provenance> new_provenance(const TensorList& run_inputs) const;
};

}  // namespace reprise::recompute
