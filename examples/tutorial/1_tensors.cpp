// Chapter 1: tensors and gradients. A line is fitted to points, with nothing but tensors.
#include <reprise/reprise.h>

#include <cmath>
#include <cstdio>

namespace rp = reprise;

int main() {
  // 100 points near y = 3 x - 1.
  rp::manual_seed(1);
  const rp::Tensor x = rp::linspace(-1, 1, 100);
  const rp::Tensor y = x * 3 - 1 + rp::randn({100}) * 0.1;

  // What is learned: numbers that gradients are wanted for.
  rp::Tensor slope = rp::scalar(0), offset = rp::scalar(0);
  slope.set_requires_grad();
  offset.set_requires_grad();

  for (int step = 0; step < 200; ++step) {
    const rp::Tensor loss = rp::square(x * slope + offset - y).mean();
    loss.backward();
    {
      rp::NoGrad guard;
      slope -= slope.grad() * 0.1;
      offset -= offset.grad() * 0.1;
    }
    slope.set_grad({});
    offset.set_grad({});
    if (step % 50 == 0) std::printf("step %d: loss %.4f\n", step, loss.item());
  }
  std::printf("y = %.2f x + %.2f\n", slope.item(), offset.item());

  // Gradients of gradients: d2/dx2 of x^3 is 6 x.
  const rp::Tensor point = rp::scalar(2).set_requires_grad();
  const rp::Tensor first = rp::grad({point * point * point}, {point}, {}, {.create_graph = true})[0];
  const rp::Tensor second = rp::grad({first}, {point})[0];
  std::printf("of x^3 at 2: %.0f, then %.0f\n", first.item(), second.item());

  // Parts of a tensor: what is there, and other numbers put there.
  const rp::Tensor right_half = y[{rp::Slice(50, {})}], high = y[y > 1.5];
  std::printf("mean %.2f on the right; %d points above 1.5\n", right_half.mean().item(), int(high.numel()));
  rp::Tensor powers = rp::ones({4});
  for (int64_t i = 1; i < 4; ++i) powers[i] = powers[i - 1] * point;
  const double slope_of_sum = rp::grad({powers.sum()}, {point})[0].item();
  std::printf("1 + x + x^2 + x^3 at 2: %.0f, its slope %.0f\n", powers.sum().item(), slope_of_sum);

  const bool is_found = std::abs(slope.item() - 3) < 0.1 && std::abs(offset.item() + 1) < 0.1;
  return is_found && second.item() == 12 && slope_of_sum == 17 ? 0 : 1;
}
