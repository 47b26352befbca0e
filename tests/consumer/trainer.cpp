// A user's program on the training loop: points of three rings are told apart. Run again, it goes on for as many steps.
#include <reprise/reprise.h>
#include <reprise/train/checkpoint.h>
#include <reprise/train/trainer.h>

#include <cstdio>

namespace rp = reprise;

struct Net : rp::nn::Module {
  rp::nn::Linear hidden{2, 32}, out{32, 3};
  Net() {
    register_module("hidden", hidden);
    register_module("out", out);
  }
  rp::Tensor operator()(const rp::Tensor& x) { return out(rp::gelu(hidden(x))); }
};

struct Batch {
  rp::Tensor x, label;
};

// Points at distance 1, 2 or 3 of the origin, about.
Batch draw(int64_t count) {
  const rp::Tensor label = rp::randint(0, 3, {count});
  const rp::Tensor radius = label.to(rp::DType::f32) + 1 + rp::randn({count}) * 0.1;
  const rp::Tensor angle = rp::rand({count}) * 6.2832;
  return {rp::stack({radius * rp::cos(angle), radius * rp::sin(angle)}, 1), label};
}

int main() {
  const std::string folder = "runs/rings";
  const bool goes_on = rp::train::has_checkpoint(folder);
  rp::manual_seed(1);
  Net net;
  rp::optim::AdamW optimizer(net.parameters(), {.lr = 1e-2});
  const Batch held_out = draw(500);

  rp::train::Task task{.model = net, .optimizer = optimizer};
  task.unit = "points";
  task.units_per_step = 64;
  task.loss = [&](int64_t, int64_t) {
    const Batch batch = draw(64);  // of this step's seed
    return rp::cross_entropy(net(batch.x), batch.label);
  };
  task.validation_loss = [&](bool) {
    rp::NoGrad guard;
    const rp::Tensor logits = net(held_out.x);
    const double right = rp::equal(rp::argmax(logits), held_out.label).to(rp::DType::f32).mean().item();
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
