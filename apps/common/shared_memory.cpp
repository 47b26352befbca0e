#include "reprise/apps/common/shared_memory.h"

#include <algorithm>

#include "reprise/core/no_compute.h"
#include "reprise/core/random.h"
#include "reprise/distributed/imagined/imagined_group.h"
#include "reprise/train/precision.h"

namespace reprise::apps {
namespace {

// Of weights, gradients and the optimizer's state.
size_t bytes_of_training(const MemoryStats& stats) {
  size_t bytes = 0;
  for (const MemoryCategory category :
       {MemoryCategory::parameters, MemoryCategory::gradients, MemoryCategory::optimizer})
    bytes += stats.by_category[size_t(category)];
  return bytes;
}

}  // namespace

struct SharedMemory::Imagined {
  // The allocator of the CPU without a limit, which is there for what is real.
  struct Unlimited {
    Allocator& memory = allocator(Device::cpu());
    const size_t limit = memory.limit();
    Unlimited() { memory.set_limit(0); }
    ~Unlimited() {
      memory.empty_cache();
      memory.reset_peaks();
      memory.set_limit(limit);
    }
    Unlimited(const Unlimited&) = delete;
  };

  struct SameGenerator {
    const Generator::State state = default_generator().state();
    SameGenerator() = default;
    ~SameGenerator() { default_generator().set_state(state); }
    SameGenerator(const SameGenerator&) = delete;
  };

  Imagined(const TrainingOptions& o, const TrainedModel& real, Device device)
      : before(allocator(Device::cpu()).stats()),
        held(allocator(device).stats()),
        precision(train::parse_precision(o.precision), Device::cpu()),
        group(distributed::imagined_group(real.parallel->group().rank(), real.parallel->group().size())),
        training(real.imagine(*group)),
        rank(*training.trained.parallel, training.trained.optimizer, training.trained.loss) {
    // What is held beside training: all that is held, less what the imagined training holds now. Where the real one holds more than
    // steps will (averages are whole before the first step), less its own bytes instead.
    const size_t rest = allocator(Device::cpu()).stats().held - before.held;
    beside =
        std::min(int64_t(held.held) - int64_t(rest), int64_t(held.held) - int64_t(bytes_of_training(held))) -
        int64_t(before.held);
  }

  const Unlimited unlimited{};
  const SameGenerator generator{};
  const NoCompute no_compute{};
  const MemoryStats before, held;  // of the CPU, and of the device
  const train::PrecisionScope precision;
  const std::unique_ptr<distributed::ProcessGroup> group;
  const ImaginedTraining training;
  ImaginedRank rank;
  int64_t beside = 0;  // bytes of the device, less those of the CPU before
};

bool shares_steps(const TrainingOptions& o, const TrainedModel& trained) {
  if (!trained.parallel || trained.parallel->group().size() == 1) return false;
  return o.zero >= 2 || trained.parallel->group().device().is_cpu();
}

SharedMemory::SharedMemory(const TrainingOptions& o, const TrainedModel& trained, Device device)
    : options_(o),
      trained_(trained),
      device_(device),
      imagined_(std::make_unique<Imagined>(o, trained, device)) {}

SharedMemory::~SharedMemory() = default;

nn::StepMemory SharedMemory::measure(const RecomputeStrategy& strategy, int64_t micro_batches) {
  imagined_->training.trained.set_recompute(strategy);
  return imagined_->rank.measure(trained_.smallest, micro_batches, device_, imagined_->beside);
}

nn::StepMemory SharedMemory::measure_sums(const RecomputeStrategy& strategy, int64_t sums) {
  invariant(sums <= 1, "measure_sums: ", sums, " sets of gradients");
  return measure(strategy, (sums + 1) * trained_.parallel->group().size());
}

nn::StepMemory SharedMemory::measure_evaluation() {
  return imagined_->rank.measure_evaluation(trained_.smallest, imagined_->training.trained.ema, device_,
                                            imagined_->beside);
}

int64_t SharedMemory::micro_batches() const {
  return options_.batch_auto ? 2 * trained_.parallel->group().size() : options_.trainer.accumulate;
}

std::array<size_t, memory_category_count> SharedMemory::most() {
  imagined_->training.trained.set_recompute({});
  const StepBytes step = imagined_->rank.step(trained_.smallest, micro_batches());
  std::array<size_t, memory_category_count> bytes = step.most;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] -= imagined_->before.by_category[i];
  return bytes;
}

std::vector<MeasuredStrategy> SharedMemory::measure_strategies(const std::string& own) {
  return nn::measure_strategies(
      own, trained_.set_recompute != nullptr,
      [&](const RecomputeStrategy& strategy) { return measure(strategy, micro_batches()); });
}

}  // namespace reprise::apps
