// A trainee: its steps.
#include "reprise/apps/recompute/workload.h"

#include <chrono>

#include "reprise/nn/optim/groups.h"

namespace reprise::apps::recompute {
namespace {

Workload::Model seeded_model(const Workload& workload) {
  manual_seed(workload.seed);
  return workload.make_model();
}

}  // namespace

Trainee::Trainee(const Workload& workload)
    : model(seeded_model(workload)),
      workload_(workload),
      optimizer_(optim::decay_matrices(*model.module, 1e-3, 0.1), {.beta1 = 0.9, .beta2 = 0.95}) {}

Tensor Trainee::forward(int64_t step, const Batch& batch) {
  manual_seed(workload_.seed + 1 + uint64_t(step));
  return model.loss(batch);
}

void Trainee::update() {
  optimizer_.step();
  optimizer_.zero_grad();
}

double Trainee::step(int64_t step, const Batch& batch) {
  using Clock = std::chrono::steady_clock;
  auto begin = Clock::now();
  forward(step, batch).backward();
  update();
  synchronize(workload_.device);
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

nn::NamedTensors Trainee::gradients() const {
  nn::NamedTensors all = model.module->named_parameters();
  for (auto& [name, tensor] : all) tensor = tensor.grad();
  return all;
}

}  // namespace reprise::apps::recompute
