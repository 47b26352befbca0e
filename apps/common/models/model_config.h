// config.json and preprocessor_config.json: what timm and transformers keep beside weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise::apps {

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

}  // namespace reprise::apps
