#include "reprise/apps/common/imagined_rank.h"

#include "reprise/distributed/sharded/evaluated_weights.h"
#include "reprise/nn/eval_scope.h"
#include "reprise/nn/memory/memory_timeline.h"

namespace reprise::apps {

ImaginedRank::ImaginedRank(distributed::DataParallel& parallel, optim::Optimizer& optimizer,
                           std::function<Tensor(int64_t rows)> loss)
    : parallel_(parallel),
      optimizer_(optimizer),
      shared_(dynamic_cast<distributed::SharedOptimizer&>(optimizer)),
      loss_(std::move(loss)) {}

StepBytes ImaginedRank::step(int64_t rows, int64_t micro_batches) {
  begin(rows, micro_batches);
  nn::MemoryRecorder recorder(Device::cpu());
  update(rows, micro_batches);
  const MemoryStats stats = memory_.stats();
  return {stats.peak_held, recorder.finish().peak_activations(), stats.peak_by_category};
}

nn::StepMemory ImaginedRank::measure(int64_t smallest, int64_t micro_batches, Device device, int64_t beside) {
  return nn::measure_small_steps(device, smallest, [&](int64_t rows) {
    begin(rows, micro_batches);
    nn::MeasuredStep step{rows, size_t(int64_t(memory_.stats().held) + beside), {}};
    memory_.start_recording();
    update(rows, micro_batches);
    step.events = memory_.stop_recording();
    return step;
  });
}

nn::StepMemory ImaginedRank::measure_evaluation(int64_t smallest, const optim::Ema* ema, Device device,
                                                int64_t beside) {
  begin(smallest, parallel_.group().size());  // what a step leaves is there
  return nn::measure_small_steps(device, smallest, [&](int64_t rows) {
    nn::MeasuredStep step{rows, size_t(int64_t(memory_.stats().held) + beside), {}};
    memory_.start_recording();
    {
      const distributed::EvaluatedWeights weights(parallel_, ema);
      const nn::EvalScope evaluation(parallel_.model());
      loss_(rows);
    }
    step.events = memory_.stop_recording();
    return step;
  });
}

// Makes what is made once.
void ImaginedRank::begin(int64_t rows, int64_t micro_batches) {
  update(rows, micro_batches);
  memory_.reset_peaks();
}

void ImaginedRank::update(int64_t rows, int64_t micro_batches) {
  for (const int64_t g : parallel_.share(micro_batches)) parallel_.backward(loss_(rows), g);
  optimizer_.step(optim::clip_scale(shared_.grad_norm(), 1.0));
  optimizer_.zero_grad();
}

}  // namespace reprise::apps
