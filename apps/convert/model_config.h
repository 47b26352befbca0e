// config.json and preprocessor_config.json: what timm and transformers keep beside weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/apps/common/models/classifier.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/models/resnet.h"

namespace reprise::apps::convert {

/// What no shape tells; empty or 0 where the files do not say.
struct ModelConfig {
  std::string file{};  ///< config.json; empty: there is none
  int64_t heads = 0;
  std::optional<double> norm_eps{}, crop{};
  std::string activation{};
  bool scaled_by_layer = false;  ///< attention scores of layer i by 1 / (i + 1)
  std::vector<std::string> class_names{};
  std::vector<double> mean{}, deviation{};
};

/// Reads what is there of both files in `folder`. Error naming file and byte.
ModelConfig read_model_config(const std::string& folder);

/// config.json for timm: `timm.create_model("local-dir:FOLDER", pretrained=True)`.
std::string timm_config(const Classifier& classifier);
/// Error unless it is torchvision's ResNet-18, 34 or 50.
std::string timm_config(const nn::ResNetOptions& options);

/// config.json for transformers' `from_pretrained(FOLDER)`. `dtype`: of the weights.
std::string hf_config(const Classifier& classifier, DType dtype);
std::string hf_config(const nn::GptOptions& options, DType dtype);
std::string hf_preprocessor(const Classifier& classifier);

}  // namespace reprise::apps::convert
