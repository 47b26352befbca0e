// What a run folder keeps of a run's options and data, and what may be other when the run goes on.
#pragma once

#include "reprise/apps/gpt/corpus.h"
#include "reprise/apps/gpt/options.h"

namespace reprise::apps::gpt {

/// For `--resume`: one Error with all options that differ from the run's, with both values, unless --change
/// was given and the weights allow it. `--data` is what the tokens are: another path to the same is none.
void check_changes(const TrainCommand& command, const Corpus& corpus);

/// Keeps the options, the tokenizer and the record of the data in the run folder, durably. If options of a
/// run at `first_step` changed, those before stay beside as config-until-step-N.toml.
void keep_options(const TrainCommand& command, const Corpus& corpus, int64_t first_step);

}  // namespace reprise::apps::gpt
