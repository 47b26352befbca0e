// The blocks of a model: what ZeRO's stage 3 gathers and frees at once.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "reprise/nn/module.h"

namespace reprise::distributed {

/// A layer, and which of the trained parameters are its alone, by place.
struct Block {
  std::string name;
  nn::Layer* layer;
  std::vector<size_t> parameters;
};

/// The outermost layers of `model` that have a number for a name, such as "h.0", in their order: those of BlockStacks,
/// Sequentials and ModuleLists. `leaves`: what is trained. Without those that have fewer than `least` elements.
std::vector<Block> numbered_blocks(nn::Module& model, const TensorList& leaves, int64_t least);

/// These layers. Error unless they are different ones below `model`, and none is within another one. Parameters that two of
/// them have, or one and what is around it, are no block's; blocks without any are left out.
std::vector<Block> blocks_of(nn::Module& model, const TensorList& leaves,
                             const std::vector<nn::Layer*>& layers);

/// The layer of `model` that has all of `tensors` and the fewest parameters, and its name. Error if there is none.
std::pair<std::string, nn::Layer*> layer_with(nn::Module& model, const TensorList& tensors);

}  // namespace reprise::distributed
