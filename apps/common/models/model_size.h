// Sizes of language models and batches against the machine, before anything is made.
#pragma once

#include "reprise/apps/common/models/language_model.h"

namespace reprise::apps {

/// What training takes at the least, in f32 where nothing else is said: of a parameter with its gradient, two moments and
/// what else is kept of it, and of a logit.
struct LeastBytes {
  double parameter = 16, logit = 4;
};

/// Error that names the options unless memory could hold what training such a model on `rows` x `length`
/// tokens needs at the least. Most that is far too large is found here; the rest is told by the allocator.
void check_fits(const LanguageModelOptions& model, int64_t rows, int64_t length, Device device,
                const LeastBytes& bytes = {});

}  // namespace reprise::apps
