// What other programs call the tensors of our models, and how they lay them out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/core/shape.h"

namespace reprise::nn {

/// The model that tensors are of: a Vit, a Gpt, ...
enum class Architecture : uint8_t { vit, gpt, resnet, unet, llama };

/// Whose names and layouts they have.
enum class Naming : uint8_t {
  /// Our own: timm's of a Vit, torchvision's of a ResNet, GPT-2's of a Gpt, Pytorch-UNet's, transformers' of a Llama; matrices are
  /// (out, in).
  reprise,
  hugging_face,  ///< transformers': query, key and value of a Vit apart, matrices of GPT-2 (in, out); of a Llama our own
};

/// What a file holds.
struct ModelKind {
  Architecture architecture = Architecture::vit;  ///< of the model
  Naming naming = Naming::reprise;                ///< of its tensors
  bool operator==(const ModelKind&) const = default;
};

/// Where a file has a tensor of ours.
struct Place {
  std::vector<std::string> names{};  ///< stacked one under the other; none: there is no place for it
  bool transposed = false;           ///< a matrix there has our columns as its rows

  /// The shape of each of them for our `shape`.
  Shape shape_there(const Shape& shape) const;
  /// Ours for that of the first of them.
  Shape shape_here(const Shape& first) const;
};
/// That of our tensor `name`.
Place place_of(ModelKind kind, const std::string& name);

/// What the names of block N begin with, before N: "blocks.".
std::string_view block_prefix(ModelKind kind);

/// The name by which `place_of` knows a tensor: DeiT III's `gamma_1` is `ls1.gamma`, and the modules of
/// transformers 5 are called as in its files; "vit." and "transformer." are left out.
std::string canonical_name(const std::string& name);

/// What a name in a written file begins with; transformers' models without a head have no prefix.
std::string written_prefix(ModelKind kind, const std::string& name, bool has_head);

}  // namespace reprise::nn
