// Groups of a module's parameters: which decay, and which learn more slowly.
#pragma once

#include <functional>
#include <string>

#include "reprise/nn/optim/optimizer.h"

namespace reprise::optim {

/// Two groups: matrices and tables decay; vectors (biases, norms) and what the module's `no_weight_decay()`
/// names do not. Frozen parameters are in neither.
std::vector<ParameterGroup> decay_matrices(const nn::Module& module, double lr, double weight_decay);

/// What `layer_decay` gives its groups.
struct LayerDecayOptions {
  double lr = 1e-3;         ///< of the last layer
  double weight_decay = 0;  ///< of matrices and tables
  double decay = 0.75;      ///< of the rate, from a layer to the one below
};

/// The groups of `decay_matrices` for each layer: `layer_of` tells a parameter's, and those of layer i get
/// lr_scale decay^(L - i), with L the last layer (Clark et al. 2020, "ELECTRA"; BEiT, timm). Error unless decay
/// is in (0, 1].
///
///   AdamW optimizer(layer_decay(vit, [&](const std::string& name) { return vit.layer_of(name); }, {.lr = 1e-3}));
std::vector<ParameterGroup> layer_decay(const nn::Module& module,
                                        const std::function<int64_t(const std::string& name)>& layer_of,
                                        const LayerDecayOptions& options = {});

}  // namespace reprise::optim
