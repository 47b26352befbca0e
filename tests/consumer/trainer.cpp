// A user's program on the training loop: points around three places are told apart. Run again, it goes on for as many steps.
#include <reprise/reprise.h>

#include <cstdio>

namespace rp = reprise;

struct Batch {
  rp::Tensor x, label;

  // Points around (0, 0), (2, 2) and (4, 4).
  explicit Batch(int64_t count) : label(rp::randint(0, 3, {count})) {
    x = rp::randn({count, 2}) * 0.5 + label.to(rp::DType::f32).reshape({count, 1}) * 2.0;
  }
};

int main() {
  const std::string folder = "runs/places";
  const bool goes_on = rp::train::has_checkpoint(folder);
  rp::manual_seed(1);
  rp::nn::Sequential net;
  net.add<rp::nn::Linear>(2, 32);
  net.add([](const rp::Tensor& x) { return rp::gelu(x); });
  net.add<rp::nn::Linear>(32, 3);
  rp::optim::AdamW optimizer(net.parameters(), {.lr = 1e-2});
  const Batch held_out(500);

  rp::train::Task task{.model = net, .optimizer = optimizer};
  task.unit = "points";
  task.units_per_step = 64;
  task.loss = [&](int64_t, int64_t) {
    const Batch batch(64);  // of this step's seed
    return rp::cross_entropy(net.forward(batch.x), batch.label);
  };
  task.validation_loss = [&](bool) {
    rp::NoGrad guard;
    const rp::Tensor logits = net.forward(held_out.x);
    const double right = rp::equal(rp::argmax(logits, -1), held_out.label).to(rp::DType::f32).mean().item();
    return rp::train::Validation(rp::cross_entropy(logits, held_out.label).item(), right);
  };

  const rp::train::TrainingResult result = rp::train::train(
      task, {.run_folder = folder,
             .resume = goes_on,
             .schedule = {.lr = 1e-2, .min_lr = 1e-3, .warmup = 10, .steps = goes_on ? 600 : 300},
             .eval_every = 100});
  std::printf("step %d: %.1f %% right\n", int(result.step), 100 * result.validation_accuracy.value_or(0));
  return result.step == (goes_on ? 600 : 300) && result.validation_accuracy > 0.9 ? 0 : 1;
}
