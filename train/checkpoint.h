// Checkpoints: everything a run needs to go on bit for bit, in a folder that is whole or not there.
//
//   DIR/checkpoints/step-00002000/model.safetensors      parameters and buffers; in its metadata the step,
//   the random
//                                                        state and what builds the model again
//                                 optimizer.safetensors  moments and step count; where ranks share them, a file of
//                                                        each: optimizer-00002-of-00004.safetensors
//                                 ema.safetensors        if averages are kept
//                                 loss_scale.safetensors if the loss has a scale
//                                 bucket_order.safetensors  if ranks send gradients in the order of arrival
//                                 manifest.json          name, bytes and CRC-32C of each file above
//   DIR/checkpoints/LATEST                               the name of the newest whole checkpoint
#pragma once

#include <map>
#include <string>

#include "reprise/core/random.h"
#include "reprise/distributed/sharded/shared_tensors.h"
#include "reprise/nn/module.h"
#include "reprise/train/checkpoint/checkpoint_folder.h"

namespace reprise::train {

/// What a checkpoint holds.
struct Checkpoint {
  std::string path{};         ///< once read: its folder, or the file that the weights are from
  int64_t step = 0;           ///< updates done
  Generator::State random{};  ///< of the thread's generator
  std::map<std::string, std::string> model{};  ///< what the app needs to build the model again
  /// @{
  /// The state of the model, the optimizer, the averages and the loss scale, by names; the last two may be empty.
  nn::NamedTensors parameters{}, optimizer{}, ema{}, loss_scale{};
  /// @}
  nn::NamedTensors bucket_order{};  ///< see train/ranks/bucket_order.h; may be empty
  /// @{
  /// With more than one rank `optimizer` is this rank's part of a state that they share.
  int rank = 0, ranks = 1;
  /// @}
  /// Gives rank 0, as it writes, the hollow ones of `parameters` and `ema`, one at a time; null: there are none.
  const distributed::SharedTensors* shared = nullptr;
  /// How ranks made that state (train/ranks/state_origin.h), which their files keep; empty where it is not shared.
  std::map<std::string, std::string> origin{};
};

/// A checkpoint on its way: a folder under a name that is none of a checkpoint's, until it is whole.
class NewCheckpoint {
 public:
  /// Makes the folder. Error with the path.
  NewCheckpoint(const std::string& run_folder, int64_t step);
  ~NewCheckpoint();  ///< removes it unless it was finished: on a full disk its bytes are missed
  NewCheckpoint(const NewCheckpoint&) = delete;

  const std::string& path() const { return path_; }  ///< of the folder, to write into
  /// Makes it the newest, of the files that `manifests` list (write_parts); then removes all but the newest `keep`. A crash at
  /// any point leaves the previous newest one whole. Errors name the path. Once it is in place nothing is an Error: returns what
  /// could not be removed, and why; empty if nothing. What this program did not make, and a checkpoint that a user put a file into, is neither counted nor removed.
  std::string finish(const std::vector<std::string>& manifests, int keep);

 private:
  const CheckpointFolder folder_;
  std::string name_, path_;
  bool is_finished_ = false;
};

/// Writes what this rank has into the folder of a NewCheckpoint; rank 0 has all that ranks do not share, and what is `shared`.
/// Returns what the manifest says of the files.
std::string write_parts(const std::string& folder, const Checkpoint& checkpoint);

/// Calls `read` with what gives rank 0's hollow tensors, on rank 0 alone; on the others that are given by this call.
void read_on_rank_0(const Checkpoint& checkpoint,
                    const std::function<void(const distributed::WholeOf& whole)>& read);

/// A NewCheckpoint, written and finished by one rank. Errors and result as there.
std::string save_checkpoint(const std::string& run_folder, const Checkpoint& checkpoint, int keep);

/// Writes the checkpoint at `path`, as load_checkpoint finds it, into the new folder `out` as one process writes it, whatever
/// ranks it is from. Error if `out` is there.
void consolidate_checkpoint(const std::string& path, const std::string& out);

/// Whether the run folder has a checkpoint.
bool has_checkpoint(const std::string& run_folder);

/// Whether the newest checkpoint of the run folder has a loss scale.
bool has_loss_scale(const std::string& run_folder);

/// Reads the newest checkpoint of a run folder, one named by its own folder, or (weights only) a file that
/// `io::read_weights` takes. Error naming what is missing or wrong. `with_optimizer`: sampling and evaluation need no moments.
/// `own`: of the states that it has parts of (Optimizer::own_state_dict), those parts alone are read.
Checkpoint load_checkpoint(const std::string& path, bool with_optimizer, const nn::NamedTensors& own = {});

}  // namespace reprise::train
