// Checkpoints: everything a run needs to go on bit for bit, in a folder that is whole or not there.
//
//   DIR/checkpoints/step-00002000/model.safetensors      parameters and buffers; in its metadata the step,
//   the random
//                                                        state and what builds the model again
//                                 optimizer.safetensors  moments and step count
//                                 ema.safetensors        if averages are kept
//                                 loss_scale.safetensors if the loss has a scale
//                                 manifest.json          name, bytes and CRC-32C of each file above
//   DIR/checkpoints/LATEST                               the name of the newest whole checkpoint
#pragma once

#include <map>
#include <string>

#include "reprise/core/random.h"
#include "reprise/nn/module.h"

namespace reprise::train {

struct Checkpoint {
  std::string path{};  ///< once read: its folder, or the file that the weights are from
  int64_t step = 0;    ///< updates done
  Generator::State random{};
  std::map<std::string, std::string> model{};  ///< what the app needs to build the model again
  nn::NamedTensors parameters{}, optimizer{}, ema{}, loss_scale{};
};

/// Writes a checkpoint, makes it the newest, then removes all but the newest `keep`. A crash at any point
/// leaves the previous newest one whole. Errors name the path. Once the checkpoint is in place nothing is an
/// Error: returns what could not be removed, and why; empty if nothing. What this program did not make, and a
/// checkpoint that a user put a file into, is neither counted nor removed.
std::string save_checkpoint(const std::string& run_folder, const Checkpoint& checkpoint, int keep);

/// Whether the run folder has a checkpoint.
bool has_checkpoint(const std::string& run_folder);

/// Whether the newest checkpoint of the run folder has a loss scale.
bool has_loss_scale(const std::string& run_folder);

/// Reads the newest checkpoint of a run folder, one named by its own folder, or (weights only) a file that
/// `io::read_weights` takes. Error naming what is missing or wrong. `with_optimizer`: sampling and evaluation need no moments.
Checkpoint load_checkpoint(const std::string& path, bool with_optimizer);

}  // namespace reprise::train
