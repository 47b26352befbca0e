// The model that is converted: its weights under Reprise's names, and what no weight tells.
#pragma once

#include "reprise/apps/common/models/classifier.h"
#include "reprise/apps/common/models/language_model.h"
#include "reprise/nn/dialects/dialect.h"

namespace reprise::apps::convert {

struct Source {
  nn::ModelWeights weights;
  Classifier classifier{};            ///< of a Vit or ResNet
  LanguageModelOptions language{};    ///< of a Gpt or Llama
  std::vector<int32_t> end_tokens{};  ///< that end what a Gpt or Llama writes, where a file beside it says so
  std::vector<std::string> assumed{};  ///< sentences on what no file says, and was taken
};

/// Reads weights as `io::read_weights`, or the newest checkpoint of a run (averages where there are any), and what lies
/// beside them. `part`: of --part, or empty. `heads`: of --heads, or 0. Error naming the file and all that does not fit.
Source read_source(const std::string& path, const std::string& part, int64_t heads);

}  // namespace reprise::apps::convert
