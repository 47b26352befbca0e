// What the names and shapes of tensors tell of the model that they are from.
#pragma once

#include <functional>
#include <optional>
#include <variant>

#include "reprise/nn/dialects/names.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/models/llama.h"
#include "reprise/nn/models/resnet.h"
#include "reprise/nn/models/unet.h"
#include "reprise/nn/models/vit.h"

namespace reprise::nn {

/// The shape of a tensor by its name in Reprise; nothing if there is none.
using ShapeOf = std::function<std::optional<Shape>(const std::string& name)>;

/// All but what no shape tells: heads (1), groups, norm_eps, how positions were made, dropout. `layers`: of which there are
/// tensors. Error naming the tensor without which nothing is known, or whose shape has no such model.
/// @{
VitOptions vit_options_of(const ShapeOf& shape_of, int64_t layers);
GptOptions gpt_options_of(const ShapeOf& shape_of, int64_t layers);
ResNetOptions resnet_options_of(const ShapeOf& shape_of);
UNetOptions unet_options_of(const ShapeOf& shape_of);
/// @}
/// Beside heads, the context, rope_theta and the window too are told by no shape. Heads are as wide as
/// qk_norm says; without it, as those of queries and keys can be at most.
LlamaOptions llama_options_of(const ShapeOf& shape_of, int64_t layers);

/// Names and shapes of a state dict, in its order.
using NamedShapes = std::vector<std::pair<std::string, Shape>>;

/// What a model that is known by its tensors is built from.
using ModelOptions = std::variant<VitOptions, GptOptions, ResNetOptions, UNetOptions, LlamaOptions>;

/// The state dict of such a model. A Vit, Gpt or Llama is made with one layer for it, as all are alike; nothing is drawn from the
/// thread's generator.
NamedShapes state_of(const ModelOptions& options);

}  // namespace reprise::nn
