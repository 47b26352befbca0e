// Starting a model from weights that are not quite its own: of other dtypes, of a Vit or ResNet for other images
// or classes.
#pragma once

#include <string>
#include <vector>

#include "reprise/nn/models/resnet.h"
#include "reprise/nn/models/vit.h"

namespace reprise::nn {

/// `tensors` with the floating dtypes that the model's state dict has under the same names.
NamedTensors with_dtypes_of(const Module& model, NamedTensors tensors);

/// @{
/// Copies weights in, by the names of `state_dict`, as timm does: dtypes become the model's, and a head for other
/// classes, or none, leaves the model's own as it was made. Of a Vit, positions of another image size are resampled
/// (`resample_positions`), and a norm of the tokens becomes the one of their mean where the model has that. Returns a
/// sentence for each such change, dtypes apart. Error listing all else that does not fit; the model is then unchanged.
std::vector<std::string> load_pretrained(Vit& model, NamedTensors weights);
std::vector<std::string> load_pretrained(ResNet& model, NamedTensors weights);
/// @}

}  // namespace reprise::nn
