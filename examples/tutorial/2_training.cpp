// Chapter 2: a model, an optimizer and a loop. Points of three rings are told apart, and the model is kept in a file.
#include <reprise/reprise.h>

#include <cstdio>

namespace rp = reprise;

struct Net : rp::nn::Module {
  rp::nn::Linear hidden{2, 32}, middle{32, 32}, out{32, 3};
  Net() {
    register_module("hidden", hidden);
    register_module("middle", middle);
    register_module("out", out);
  }
  rp::Tensor operator()(const rp::Tensor& x) { return out(rp::gelu(middle(rp::gelu(hidden(x))))); }
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

double accuracy(Net& net, const Batch& batch) {
  rp::NoGrad guard;
  return rp::equal(rp::argmax(net(batch.x), -1), batch.label).to(rp::DType::f32).mean().item();
}

int main() {
  rp::manual_seed(1);
  Net net;
  rp::optim::AdamW optimizer(net.parameters(), {.lr = 1e-2});
  for (int step = 0; step < 300; ++step) {
    const Batch batch = draw(64);
    const rp::Tensor loss = rp::cross_entropy(net(batch.x), batch.label);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 100 == 0) std::printf("step %d: loss %.3f\n", step, loss.item());
  }
  const Batch unseen = draw(1000);
  std::printf("right: %.1f %%\n", 100 * accuracy(net, unseen));

  rp::save("rings.safetensors", net);
  Net read;
  rp::load("rings.safetensors", read);
  const bool is_same = accuracy(read, unseen) == accuracy(net, unseen);
  std::printf("read back: %s\n", is_same ? "the same" : "another");
  return accuracy(net, unseen) > 0.95 && is_same ? 0 : 1;
}
