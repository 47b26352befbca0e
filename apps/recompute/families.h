// Families of models that `--model` names. Another one is a file that defines its family, and a line in
// families.cpp.
#pragma once

#include "reprise/apps/recompute/workload.h"

namespace reprise::apps::recompute {

struct ModelFamily {
  std::vector<std::string> names;    ///< of --model
  std::vector<std::string> options;  ///< that its models have, among those that some lack: "--heads"
  std::unique_ptr<Workload> (*make)(const WorkloadOptions& options);
};

ModelFamily gpt_family();
ModelFamily llama_family();
ModelFamily vit_family();
ModelFamily resnet_family();
ModelFamily unet_family();
ModelFamily jepa_family();

/// Of all families.
std::vector<std::string> model_names();

/// Error naming the option that does not fit.
std::unique_ptr<Workload> make_workload(const WorkloadOptions& options);

/// A number of an option, or the preset's where none was given.
inline int64_t or_else(int64_t given, int64_t preset) { return given > 0 ? given : preset; }

}  // namespace reprise::apps::recompute
