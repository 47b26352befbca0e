// A Gpt's options as a checkpoint keeps them.
#pragma once

#include "reprise/apps/common/models/description.h"
#include "reprise/nn/models/gpt.h"

namespace reprise::apps {

Description describe(const nn::GptOptions& options);
/// Error naming the entry that is missing or no number.
nn::GptOptions gpt_options_from(const Description& description);

}  // namespace reprise::apps
