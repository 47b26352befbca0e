// Chapter 6: several ranks. Each computes some of a step's micro-batches, and all have the bits of one process.
#include <reprise/reprise.h>

#include <cstdio>

namespace rp = reprise;

int main() {
  auto group = rp::distributed::ProcessGroup::join();  // of one, if no launcher says otherwise
  rp::manual_seed(1);
  rp::nn::Sequential net;
  net.add<rp::nn::Linear>(8, 64);
  net.add<rp::nn::Activate>(rp::Activation::gelu);
  net.add<rp::nn::Linear>(64, 1);
  rp::distributed::DataParallel parallel(net, *group);
  rp::optim::AdamW optimizer(net.parameters(), {.lr = 3e-3});

  for (int step = 0; step < 50; ++step) {
    optimizer.zero_grad();
    for (int64_t g : parallel.share(4)) {
      // The rows of micro-batch g of this step: a function of both, whoever computes them.
      rp::Generator rows(uint64_t(step * 4 + g));
      const rp::Tensor x = rp::randn({16, 8}, rp::DType::f32, {}, &rows);
      parallel.backward(rp::mse_loss(net(x), rp::sin(rp::sum(x, {1}, true))), g);
    }
    optimizer.step();
  }
  rp::Tensor total = rp::scalar(0, rp::DType::f64);
  for (const rp::Tensor& p : net.parameters()) total += rp::sum(rp::abs(p.detach().to(rp::DType::f64)));
  if (group->rank() == 0) std::printf("after 50 steps: %.17g\n", total.item());
  return 0;
}
