// A vision transformer that tells waves apart.
#include "example.h"

int main() {
  rp::nn::Vit model(
      {.image = 8, .patch = 4, .channels = 1, .classes = 4, .width = 32, .layers = 2, .heads = 4});
  fill(model.parameters());
  rp::TensorList images;
  for (int i = 0; i < 32; ++i) images.push_back(wave({1, 8, 8}, 0.2 + 0.4 * (i % 4) + 0.001 * i));
  const rp::Tensor x = rp::stack(images, 0), labels = rp::arange(4).expand({8, 4}).reshape({32});

  rp::optim::AdamW optimizer(model.parameters(), {.lr = 1e-3, .weight_decay = 0.05});
  for (int step = 0; step < 60; ++step) {
    const rp::Tensor loss = rp::cross_entropy(model(x), labels);
    optimizer.zero_grad();
    loss.backward();
    rp::optim::clip_grad_norm(model.parameters(), 1.0);
    optimizer.step();
    if (step % 15 == 0) report("loss", loss.item());
  }
  rp::NoGrad guard;
  report("accuracy", rp::equal(rp::argmax(model(x), -1), labels).to(rp::DType::f32).mean().item());
}
