// The state of an optimizer by the names of its parameters, as checkpoints hold it: "wte.weight:first_moment".
#pragma once

#include "reprise/nn/optim/optimizer.h"

namespace reprise::optim {

/// A state by place (Optimizer::state_dict), by the names of the parameters: "0.first_moment" becomes
/// "wte.weight:first_moment", and "updates" one number each, "wte.weight:updates". Of all parameters together "steps" and
/// "seed" stay as they are. Optimizers with a parameter that `parameters` do not name keep their state by place.
nn::NamedTensors state_by_name(const nn::NamedTensors& state, Optimizer& optimizer,
                               const nn::NamedTensors& parameters);

/// The other way round, for Optimizer::load_state_dict; a state that is by place already stays as it is. Error if there is
/// no parameter of a name, or if some have a number of updates and others do not.
nn::NamedTensors state_by_place(const nn::NamedTensors& state, Optimizer& optimizer,
                                const nn::NamedTensors& parameters);

}  // namespace reprise::optim
