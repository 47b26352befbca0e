// Sizes of models and batches against the machine, before anything is made.
#pragma once

#include "reprise/nn/models/gpt.h"

namespace reprise::train {

/// Error that names the options unless memory could hold what training such a model on `rows` x `length`
/// tokens needs at the least: weights, gradients, two moments, and the logits. Most that is far too large is
/// found here; the rest is told by the allocator.
void check_fits(const nn::GptOptions& model, int64_t rows, int64_t length, Device device);

}  // namespace reprise::train
