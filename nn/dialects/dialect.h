// Weights of other programs by their names: timm's, torchvision's and Pytorch-UNet's, Hugging Face's ViT, GPT-2 and Llama.
#pragma once

#include "reprise/nn/dialects/inferred.h"

namespace reprise::nn {

/// Weights as a state dict of Reprise has them.
struct ModelWeights {
  ModelKind kind{};  ///< what they were read as
  /// Under the names of the model's `state_dict`, in its shapes and order; the dtypes are those given.
  NamedTensors tensors{};
  /// The model's options, as far as shapes tell: not heads (1), groups, norm_eps, dropout, how positions were made, and the context of
  /// a Llama.
  ModelOptions options{};
  /// Names of what the model does not need: mask buffers, the pooler, a tied head.
  std::vector<std::string> left_out{};
};

/// Recognises the model by its names and translates them; dtypes stay. Prefixes that all names have, "module." and
/// "encoder.", are left out.
///
///   rp::nn::Vit model(rp::nn::vit_preset("small"));
///   rp::nn::load_pretrained(model, rp::nn::read_dialect(rp::io::read_weights("model.safetensors").tensors).tensors);
///
/// Error if there is no such model here; one Error lists every missing, unknown and misshapen name, as the file has
/// them.
ModelWeights read_dialect(NamedTensors tensors);

/// The tensors of one of several networks, without its name before theirs: "target_encoder" of a Jepa's, which are a
/// Vit's. None if no name begins so.
NamedTensors part_of(const NamedTensors& tensors, std::string_view part);

/// The tensors of a state dict of Reprise as `kind` has them; some are views of those given, and not contiguous. One
/// Error lists all names for which there is no place.
NamedTensors write_dialect(const NamedTensors& tensors, ModelKind kind);

}  // namespace reprise::nn
