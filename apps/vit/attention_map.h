// Where a vision transformer looks: the weights of its attention over the patches.
#pragma once

#include "reprise/nn/models/vit.h"

namespace reprise::apps::vit {

/// Weights of the patches, (B, patches) each, rows adding up to at most 1. The query is the class token, or the mean of the
/// patches' queries where there is none.
struct AttentionMaps {
  Tensor last;     ///< of the last block, mean of its heads
  Tensor rollout;  ///< of all blocks with their residual paths (Abnar and Zuidema 2020)
};

/// Runs the model in evaluation mode, with its attention as a matrix, for a few images.
AttentionMaps attention_maps(nn::Vit& model, const Tensor& images);

}  // namespace reprise::apps::vit
