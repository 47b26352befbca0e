// Weights from wherever a user has them, with what lies beside them: a run, a checkpoint, a file, a folder of another program.
#pragma once

#include <string>
#include <vector>

#include "reprise/apps/common/models/description.h"
#include "reprise/apps/common/models/language_model.h"
#include "reprise/apps/common/models/model_config.h"
#include "reprise/nn/dialects/dialect.h"

namespace reprise::apps {

/// Tensors as a file has them, and what it says of the model.
struct GivenWeights {
  nn::NamedTensors tensors{};
  Description description{};  ///< of a checkpoint of Reprise; else empty
  int64_t heads = 0;          ///< where the format says so (llm.c)
  std::string path{};         ///< what was read: a checkpoint's folder, a file, a folder of another program
  std::string folder{};       ///< of the run's checkpoint, or where the file lies: what is beside it
};

/// Reads a run or checkpoint (its averages, where it keeps them), or what `io::read_weights` takes. Error naming what is missing
/// or wrong.
GivenWeights read_given_weights(const std::string& path);

/// Of the command line (`told`, 0 for nothing), the description, the config or the header; else of 64 numbers each, as all models
/// no wider than `widest` have of these sizes, which `assumed` then says.
int64_t heads_of(const GivenWeights& given, const ModelConfig& config, int64_t told, int64_t width,
                 int64_t widest, std::vector<std::string>& assumed);

/// Whether weights were read as those of a language model.
bool is_language_model(const nn::ModelOptions& shapes);

/// What the description or the config adds to what the shapes of a language model's tensors tell. Error naming what there is no
/// model of here for.
LanguageModelOptions language_options_of(const GivenWeights& given, const ModelConfig& config,
                                         const nn::ModelOptions& shapes, int64_t told_heads,
                                         std::vector<std::string>& assumed);

/// Takes away the head of a model whose config says that it is the token table.
void leave_out_tied_head(GivenWeights& given, const ModelConfig& config);

}  // namespace reprise::apps
