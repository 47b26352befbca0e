// What the commands train: a GPT, its optimizer, and batches of tokens.
#pragma once

#include <optional>

#include "reprise/apps/recompute/options.h"
#include "reprise/io/text/token_batches.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/optim/adamw.h"

namespace reprise::apps::recompute {

class Workload {
 public:
  /// Error naming the option that does not fit.
  explicit Workload(const WorkloadOptions& options);

  /// The batch of a step, a pure function of the seed: rows of `length` tokens, on the device.
  io::TokenBatch batch(int64_t step, int64_t rows) const;
  /// "GPT: 6 layers, width 384, ...".
  std::string to_string() const;

  nn::GptOptions model;
  int64_t rows = 0;    ///< sequences a step
  int64_t length = 0;  ///< tokens a sequence
  Device device;
  uint64_t seed = 0;

 private:
  void read_text(const std::string& path);

  std::optional<io::TokenDataset> text_;
};

/// A model in training. Two that train on the same batches go through the same bits.
class Trainee {
 public:
  explicit Trainee(const Workload& workload);

  /// The loss, with the random numbers of this step.
  Tensor forward(int64_t step, const io::TokenBatch& batch);
  void update();  ///< from the gradients, which are gone then
  /// All of a step; returns the seconds it took.
  double step(int64_t step, const io::TokenBatch& batch);
  nn::NamedTensors gradients() const;

  nn::Gpt model;

 private:
  const Workload& workload_;
  optim::AdamW optimizer_;
};

}  // namespace reprise::apps::recompute
