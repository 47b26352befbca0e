// Writing of config.json and preprocessor_config.json, which timm and transformers keep beside weights.
#pragma once

#include <string>

#include "reprise/apps/common/models/classifier.h"
#include "reprise/apps/common/models/language_model.h"

namespace reprise::apps::convert {

/// config.json for timm: `timm.create_model("local-dir:FOLDER", pretrained=True)`.
/// Error for a ResNet that is not torchvision's 18, 34 or 50.
std::string timm_config(const Classifier& classifier);

/// config.json for transformers' `from_pretrained(FOLDER)`. `dtype`: of the weights; `end_tokens`: its eos_token_id; without any, a Gpt of
/// GPT-2's vocabulary has GPT-2's.
std::string hf_config(const Classifier& classifier, DType dtype);
std::string hf_config(const LanguageModelOptions& options, DType dtype,
                      const std::vector<int32_t>& end_tokens);
std::string hf_preprocessor(const Classifier& classifier);

}  // namespace reprise::apps::convert
