// Dropout on CUDA: 2 elements moved and a quarter of a Philox block for each element. A block is some 80
// instructions, so bf16 is bound by arithmetic: 20 instructions an element against the 24 that an H200 has
// time for while it moves 4 bytes.
#include "reprise/kernels/elementwise/dropout.h"

#include <cmath>

#include "reprise/kernels/elementwise/random.cuh"

namespace reprise::kernels {
namespace {

using namespace device;

template <class T, class C>
struct Drop {
  using Inputs = Types<T>;
  using Outputs = Types<T>;
  static constexpr bool uses_index = true, by_element = false;
  uint64_t seed, offset;
  uint32_t threshold;  // kept if the upper 24 bits of the draw are at least this: exactly draw >= p
  C scale;

  template <int N>
  __device__ void operator()(int64_t first, const Pack<T, N>& x, Pack<T, N>& y) const {
    bool keep[N];
    if constexpr (N == 2) {  // f64: half a block
      const Words words = philox_block(seed, offset, uint64_t(first) / 4);
      const bool upper = first % 4 != 0;
      keep[0] = ((upper ? words[2] : words[0]) >> 8) >= threshold;
      keep[1] = ((upper ? words[3] : words[1]) >> 8) >= threshold;
    } else {
      draw_items<4>(
          seed, offset, first,
          [this](const Words& words, bool(&items)[4]) {
#pragma unroll
            for (int k = 0; k < 4; ++k) items[k] = (words[size_t(k)] >> 8) >= threshold;
          },
          keep);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) y.at[i] = from<T>(keep[i] ? to<C>(x.at[i]) * scale : C(0));
  }
};

void dropout_cuda(const Stream& stream, const TensorView& x, double p, uint64_t seed, uint64_t offset,
                  const TensorView& y) {
  constexpr auto op = "dropout";
  check(p >= 0 && p < 1, op, ": p is ", p, ", should be in [0, 1)");
  check_same_shape(op, x, y);
  check_same_dtype(op, x, y);
  dispatch_floating(x.dtype, op, [&]<class T>() {
    using C = Accumulator<T>;
    map(op, stream, Drop<Element<T>, C>{seed, offset, uint32_t(std::ceil(p * 0x1p24)), C(1 / (1 - p))}, x, y);
  });
}

const OnCuda dropout_on_cuda{dropout, dropout_cuda};

}  // namespace
}  // namespace reprise::kernels
