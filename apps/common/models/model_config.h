// config.json and preprocessor_config.json: what timm and transformers keep beside weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/nn/transformers/rope_scaling.h"

namespace reprise::apps {

/// What no shape tells; empty or 0 where the files do not say.
struct ModelConfig {
  std::string file{};  ///< config.json; empty: there is none
  int64_t heads = 0;
  std::optional<double> norm_eps{}, crop{};
  std::string activation{};
  bool scaled_by_layer = false;  ///< attention scores of layer i by 1 / (i + 1)
  std::string model_type{};      ///< of transformers
  /// Of Llama-like models.
  int64_t kv_heads = 0, head_dim = 0, context = 0;
  /// sliding_window: tokens that a query sees at most, where it counts; 0: all before it.
  int64_t window = 0;
  std::optional<bool> uses_window{};            ///< use_sliding_window
  std::optional<int64_t> first_window_layer{};  ///< max_window_layers: those from here on have the window
  std::vector<std::string> layer_types{};       ///< of each layer
  std::optional<double> rope_theta{};
  std::string rope_type{};  ///< "default": turns are not scaled
  /// Its numbers, but for the kind, which is rope_type, and where nothing says them a factor and original_context of 0.
  nn::RopeScaling scaling{.factor = 0, .original_context = 0};
  double mscale = 0, mscale_all_dim = 0;          ///< of yarn; 0: not there
  std::optional<double> partial_rotary_factor{};  ///< part of a head's channels that is turned
  std::optional<bool> tied{};                     ///< the head is the token table
  std::vector<std::string> class_names{};
  std::vector<double> mean{}, deviation{};
};

/// Reads what is there of both files in `folder`. Error naming file and byte.
ModelConfig read_model_config(const std::string& folder);

}  // namespace reprise::apps
