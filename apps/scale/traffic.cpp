#include "reprise/apps/scale/traffic.h"

#include <algorithm>

#include "reprise/core/error.h"
#include "reprise/distributed/tree.h"

namespace reprise::apps::scale {

std::vector<SentBucket> sent_buckets(const std::vector<Layer>& layers,
                                     const distributed::BucketOptions& options) {
  TensorList parameters;  // hollow: the plan reads forms alone
  std::vector<size_t> layer_of;
  for (size_t i = 0; i < layers.size(); ++i)
    for (int64_t numel : layers[i].parameters) {
      parameters.push_back(
          Tensor::hollow({.shape = {numel}, .strides = {1}, .dtype = DType::f32, .device = {}}));
      layer_of.push_back(i);
    }
  std::vector<SentBucket> sent;
  for (const distributed::Bucket& bucket : distributed::plan_buckets(parameters, options)) {
    size_t lowest = layers.size();
    for (size_t place : bucket.parameters) lowest = std::min(lowest, layer_of[place]);
    sent.push_back({bucket.numel, lowest});
  }
  return sent;
}

RankShare rank_share(const TrainingPlan& plan, int ranks) {
  if (plan.micro_batches == 0) return {};
  check(plan.micro_batches % ranks == 0, "--accumulate ", plan.micro_batches,
        " is not a multiple of --ranks ", ranks);
  RankShare share{.micro_batches = plan.micro_batches / ranks};
  for (int rank = 0; rank < ranks; ++rank) {
    const distributed::LeafRange leaves = distributed::leaves_of_rank(rank, ranks, plan.micro_batches);
    share.nodes = std::max(share.nodes, int(distributed::nodes_of(leaves.begin, leaves.end).size()));
    share.most_sums = std::max(share.most_sums, distributed::most_sums(leaves));
  }
  return share;
}

namespace {

double activation_bytes(const StepProfile& profile, bool recomputes) {
  double kept = 0, replayed = 0;
  for (const Layer& layer : profile.layers) {
    kept += layer.output_bytes;
    if (recomputes && layer.is_block)
      replayed = std::max(replayed, layer.saved_bytes);
    else
      kept += layer.saved_bytes;
  }
  return kept + replayed;
}

}  // namespace

RankMemory rank_memory(const StepProfile& profile, const TrainingPlan& plan, int ranks) {
  const double numel = double(profile.numel()), part = 1.0 / ranks;
  const RankShare share = rank_share(plan, ranks);
  int64_t largest_bucket = 0, largest_layer = 0;
  for (const SentBucket& bucket : sent_buckets(profile.layers, plan.buckets))
    largest_bucket = std::max(largest_bucket, bucket.numel);
  for (const Layer& layer : profile.layers) largest_layer = std::max(largest_layer, layer.numel());

  const bool shares_weights = plan.zero >= 3 && ranks > 1, is_alone = ranks == 1;
  const double shadows = plan.compute_bytes < plan.weight_bytes ? plan.compute_bytes : 0;
  RankMemory memory;
  memory.weights = numel * (plan.weight_bytes + shadows);
  if (shares_weights)
    memory.weights = numel * plan.weight_bytes * part + 2 * double(largest_layer) * plan.compute_bytes;
  // Partial sums of several micro-batches stay whole until the last one.
  const bool whole_gradients = plan.zero < 2 || share.micro_batches > 1;
  memory.gradients = 4 * numel * (whole_gradients ? 1 : part) + 4 * numel * double(share.most_sums);
  memory.optimizer = plan.optimizer_bytes * numel * (plan.zero >= 1 ? part : 1);
  memory.activations = activation_bytes(profile, plan.recomputes);
  // A bucket as it is sent, and the parts of it that the others have sent.
  memory.buckets = is_alone ? 0 : 2 * 4 * double(shares_weights ? largest_layer : largest_bucket);
  return memory;
}

}  // namespace reprise::apps::scale
