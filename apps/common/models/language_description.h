// A language model's options as a checkpoint keeps them.
#pragma once

#include "reprise/apps/common/models/description.h"
#include "reprise/apps/common/models/language_model.h"

namespace reprise::apps {

Description describe(const LanguageModelOptions& options);
/// Error naming the entry that is missing or no number.
LanguageModelOptions language_options_from(const Description& description);

}  // namespace reprise::apps
