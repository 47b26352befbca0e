// A user's own vector kernel, compiled with every warning as an error.
#include "vector_kernel.h"

#include <reprise/kernels/cpu/simd.h>

namespace simd = reprise::kernels::simd;

void triple(std::vector<float>& x) {
  simd::run([&]<int W>() {
    using V = simd::Vector<float, W>;
    std::size_t i = 0;
    for (; i + W <= x.size(); i += W) simd::store(&x[i], simd::load<V>(&x[i]) * 3.0f);
    for (; i < x.size(); ++i) x[i] *= 3.0f;
  });
}
