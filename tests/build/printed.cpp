// What gdb.py lets gdb print, in `stop`.
#include "reprise/reprise.h"

namespace rp = reprise;

struct Net : rp::nn::Module {
  rp::nn::Linear hidden{2, 3}, out{3, 1};
  Net() {
    register_module("hidden", hidden);
    register_module("out", out);
  }
};

[[gnu::noinline]] void stop() { asm volatile(""); }

int main() {
  const rp::Tensor x = rp::Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3}), turned = x.transpose(0, 1), none;
  const rp::Tensor leaf = rp::ones({12}, rp::DType::f64).set_requires_grad(), result = leaf * 0.5;
  const rp::Tensor half = x.to(rp::DType::bf16), small = x.to(rp::DType::f16), counts = rp::arange(3),
                   mask = x > 3.5;
  const rp::Shape shape{2, 3};
  const rp::DType dtype = rp::DType::bf16;
  const rp::Device device = rp::Device::cuda(1);
  Net net;
  rp::NoGrad guard;
  net.hidden.weight.fill_(0.25);
  const rp::nn::Module& module = net;
  const auto known = rp::autograd::find_meta(none.defined() ? none : leaf);  // so that its form is known
  stop();
  return none.defined() || module.training() == !known || half.rank() + small.rank() + counts.rank() == 0 ||
         mask.rank() + turned.rank() + result.rank() == 0 || shape.size() == 0 || dtype == rp::DType::f32 ||
         device.is_cpu();
}
