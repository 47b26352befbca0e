// Epilogue::accumulate on the CPU: the sum over K is complete before C is added to it, once.
#include <gtest/gtest.h>

#include "reprise/core/tensor.h"
#include "reprise/kernels/elementwise/elementwise.h"
#include "reprise/kernels/elementwise/random_fill.h"
#include "reprise/kernels/gemm/gemm.h"

namespace reprise {
namespace {

Tensor random(Shape shape, DType dtype, uint64_t seed) {
  Tensor x = Tensor::empty(shape, dtype, Device::cpu());
  kernels::fill_normal(current_stream(x.device()), x, 0, 1, seed, 0);
  return x;
}

// K in one panel, in several, and in several rounds (blocks.h); few rows, which have a product of their own.
TEST(GemmAccumulate, HasTheBitsOfProductAndSum) {
  const Stream stream = current_stream(Device::cpu());
  for (DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (int64_t m : {3, 70})
      for (int64_t k : {1, 65, 700, 3000}) {
        const Tensor a = random({m, k}, dtype, 1), b = random({33, k}, dtype, 2),
                     c = random({m, 33}, DType::f32, 3);
        const Tensor at_once = c.clone(), product = Tensor::empty({m, 33}, DType::f32), apart = c.clone();
        const TensorView across = transpose(b.view(), 0, 1);
        kernels::gemm(stream, {.a = a, .b = across, .c = at_once, .epilogue = {.accumulate = true}});
        kernels::gemm(stream, {.a = a, .b = across, .c = product});
        kernels::add_scaled(stream, product, 1.0, apart);
        EXPECT_EQ(at_once.to_vector<float>(), apart.to_vector<float>())
            << dtype << ", m " << m << ", k " << k;
      }
}

}  // namespace
}  // namespace reprise
