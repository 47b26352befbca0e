// Checkpoints of one precision for a run in another one.
#pragma once

#include <string>

#include "reprise/nn/module.h"
#include "reprise/nn/optim/optimizer.h"
#include "reprise/train/checkpoint.h"

namespace reprise::train {

/// Gives the weights and the optimizer's state, named or by place, the form that the model and its optimizer need, on the
/// CPU; what has it already keeps its bits. A weight is converted from what the checkpoint knows most exactly: its copy in
/// f32, both of its halves, or itself; to 16 bits it is rounded to nearest, half up where its lower half is kept. Moments
/// are converted, and where a copy or a lower half is to be kept beside a weight that had no update yet, they are zeros.
/// Returns what was converted, "12 weights from bf16 to f32, from their f32 copies; ..."; empty: nothing. Error if a weight
/// does not fit f16. The optimizer makes its state (Optimizer::allocate_state), which loading replaces.
std::string convert_precision(Checkpoint& checkpoint, const nn::Module& model, optim::Optimizer& optimizer);

}  // namespace reprise::train
