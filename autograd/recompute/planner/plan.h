// Plan: which layers of a chain are played as checkpointed regions.
//
//   rp::recompute::Plan plan = rp::recompute::plan_segments(12, 4);
//   rp::Tensor y = rp::recompute::run_plan(plan, layers, x);
#pragma once

#include <span>
#include <string_view>

#include "reprise/autograd/recompute/checkpoint.h"

namespace reprise::recompute {

/// Layers [begin, end) of a chain: played plainly, or as one checkpointed region. A region plays its layers
/// as `inside` says (empty: plainly), in indices of the whole chain; what is inside costs memory only while
/// the region is replayed, and one more replay.
struct Segment {
  int64_t begin = 0;              ///< the first layer
  int64_t end = 0;                ///< the layer behind the last
  bool checkpointed = false;      ///< one region; else its layers are played plainly
  std::vector<Segment> inside{};  ///< of a region: covers [begin, end) in order, or is empty
  /// Equal in all of these.
  bool operator==(const Segment&) const = default;
};
/// Covers the layers [0, n) in order.
using Plan = std::vector<Segment>;

/// Whether the last segment is a region. It is the first that backward needs, so it would be played again at
/// once.
enum class LastSegment : uint8_t { plain, checkpointed };

/// One segment without recompute; of no layers, none.
Plan plan_none(int64_t n);
/// As many regions of nearly equal length; 0: ceil(sqrt(n)). Error if there are fewer layers than segments.
Plan plan_segments(int64_t n, int64_t segments, LastSegment last = LastSegment::plain);
/// Every `every`-th layer is a region of its own: 3 means the layers 2, 5, 8, ...; 1 means all.
Plan plan_every(int64_t n, int64_t every);
/// Every `keep`-th layer is played plainly, and each other one is a region of its own: 3 means the regions 0, 1, 3, 4, 6, ...;
/// 1 means none.
Plan plan_keep(int64_t n, int64_t keep);
/// These layers are regions of their own. Error if there is no such layer.
Plan plan_selected(int64_t n, const std::vector<int64_t>& layers);

/// "[0-2] 3-4 [5] [6-9: [6-7] 8-9]": regions are in brackets, the last layers are part of them.
std::string to_string(const Plan& plan);
/// What to_string writes. Error naming the place that is not.
Plan parse_plan(std::string_view text);

/// Error naming the segment that does not follow on the one before it, or where the plan ends too early.
void check_plan(const Plan& plan, int64_t n);

/// A layer of a chain: what it gives the next one takes.
using LayerFunction = std::function<Tensor(const Tensor&)>;

/// x through all layers, without regions.
Tensor run_layers(std::span<const LayerFunction> layers, const Tensor& x);

/// x through all layers, as the plan says. Each region keeps copies of its layers until backward is done.
/// Without recording there are no regions.
Tensor run_plan(const Plan& plan, const std::vector<LayerFunction>& layers, const Tensor& x,
                const CheckpointOptions& options = {});

/// A layer of a model that is no chain. Between layers there is a list of tensors: a layer takes some off its
/// end and puts its results there. A UNet's encoder leaves skips behind, which its decoder takes.
struct ListLayer {
  int64_t takes = 1;                                 ///< tensors off the end of the list
  int64_t gives = 1;                                 ///< tensors that it puts there
  std::function<TensorList(const TensorList&)> run;  ///< from `takes` tensors to `gives`
};

/// The list that is left after all layers. A region is given what its layers take, and no more.
TensorList run_plan(const Plan& plan, const std::vector<ListLayer>& layers, const TensorList& x,
                    const CheckpointOptions& options = {});

/// x through all layers in segments (see plan_segments), as in PyTorch.
Tensor checkpoint_sequential(const std::vector<LayerFunction>& layers, int64_t segments, const Tensor& x,
                             const CheckpointOptions& options = {}, LastSegment last = LastSegment::plain);

}  // namespace reprise::recompute

namespace reprise {
using recompute::checkpoint_sequential;
using recompute::LastSegment;
}  // namespace reprise
