// Traffic: what a step of each ZeRO stage sends, and when it is ready: the buckets that DataParallel would make.
#pragma once

#include "reprise/apps/scale/step_profile.h"
#include "reprise/distributed/data_parallel/buckets.h"

namespace reprise::apps::scale {

/// How the run is trained, on any number of ranks.
struct TrainingPlan {
  int zero = 0;
  int64_t micro_batches = 0;   ///< a step, over all ranks; 0: one per rank
  bool recomputes = false;     ///< every block is a region
  double weight_bytes = 4;     ///< an element: as stored
  double compute_bytes = 4;    ///< as products read it; less than weight_bytes: there are shadows of it
  double optimizer_bytes = 8;  ///< moments, and master copies of weights of 16 bits
  double wire_bytes = 4;       ///< of a gradient as it is sent
  distributed::BucketOptions buckets{};
};

/// A bucket of gradients. Gradients are f32.
struct SentBucket {
  int64_t numel = 0;
  size_t lowest_layer = 0;  ///< whose backward is the last that it waits for
};

/// In the order in which they are sent.
std::vector<SentBucket> sent_buckets(const std::vector<Layer>& layers,
                                     const distributed::BucketOptions& options);

/// Micro-batches of one rank, and the nodes of the tree that they are (distributed/tree.h). Error unless `ranks` divides them.
struct RankShare {
  int64_t micro_batches = 1;
  int nodes = 1;          ///< of the rank that has most
  int64_t most_sums = 0;  ///< partial sums beside the gradients
};
RankShare rank_share(const TrainingPlan& plan, int ranks);

/// Bytes that a rank holds.
struct RankMemory {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0, buckets = 0;
  double total() const { return weights + gradients + optimizer + activations + buckets; }
};
RankMemory rank_memory(const StepProfile& profile, const TrainingPlan& plan, int ranks);

}  // namespace reprise::apps::scale
