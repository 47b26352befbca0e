// What workloads share; a trainee's steps.
#include "reprise/apps/recompute/workload.h"

#include <chrono>

#include "reprise/apps/common/training_run.h"
#include "reprise/core/no_compute.h"
#include "reprise/core/parallel.h"
#include "reprise/core/random.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/train/option_error.h"

namespace reprise::apps::recompute {
Workload::Workload(const WorkloadOptions& o)
    : device(Device::parse(o.device)),
      precision(train::parse_precision(o.precision)),
      seed(uint64_t(o.seed)) {
  if (o.threads > 0) train::under_option("--threads", [&] { set_num_threads(o.threads); });
}

std::string Workload::per_step(const std::string& what) const {
  if (NoCompute::is_on()) return what + " per step";
  return reprise::detail::join(what, " per step, on ", device, " (", num_threads(), " threads)");
}

Workload::Model seeded_model(const Workload& workload) {
  manual_seed(workload.seed);
  Workload::Model model = workload.make_model();
  train::to_precision(*model.module, workload.precision);
  train::use_main_gradients(*model.module);
  return model;
}

void set_recompute(const Workload::Model& model, const Prepared& prepared) {
  model.blocks.set_recompute(prepared.blocks.plan, prepared.blocks.options);
  if (model.predictor) model.predictor->set_recompute(prepared.predictor->plan, prepared.predictor->options);
}

optim::AdamWOptions adamw_options(const StorageOptions& storage) {
  optim::AdamWOptions adamw{.beta1 = 0.9, .beta2 = 0.95};
  set_storage(adamw, storage.master, storage.moments);
  return adamw;
}

Trainee::Trainee(const Workload& the_workload, const StorageOptions& storage)
    : workload(the_workload),
      model(seeded_model(workload)),
      optimizer_(optim::decay_matrices(*model.module, 1e-3, 0.1), adamw_options(storage)) {}

Tensor Trainee::forward(int64_t step, const Batch& batch) {
  manual_seed(workload.seed + 1 + uint64_t(step));
  return model.loss(batch);
}

void Trainee::update() {
  optimizer_.step();
  optimizer_.zero_grad();
}

nn::TrainingStepCase Trainee::step_case(const Batch& batch) {
  return {.model = *model.module,
          .loss = [this, &batch](int64_t) { return forward(0, batch); },
          .blocks = &model.blocks,
          .rows = workload.rows,
          .smallest = workload.least_rows,
          .update = [this] { update(); }};
}

double Trainee::step(int64_t step, const Batch& batch) {
  using Clock = std::chrono::steady_clock;
  auto begin = Clock::now();
  forward(step, batch).backward();
  update();
  synchronize(workload.device);
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

nn::NamedTensors Trainee::gradients() const {
  nn::NamedTensors all = model.module->named_parameters();
  for (auto& [name, tensor] : all) tensor = tensor.grad();
  return all;
}

}  // namespace reprise::apps::recompute
