// Rotary positions on CUDA: a map from both halves of the rows and the tables to the halves of the result. As the tables are f32, packs
// are 4 elements: 16 bytes of f32, 8 of half types. A pair of elements takes 6 operations, and of bf16 8 bytes are read and written
// for it, or 16 of f32: memory is what it takes. Adjacent pairs are two views that lie one in the other, which no packs fit: they go
// element by element.
#include "reprise/kernels/attention/rotary.h"

#include "reprise/kernels/elementwise/elementwise.cuh"

namespace reprise::kernels {
namespace {

using namespace device;

// T may be AnyFloat: then what is read and what is written have dtypes of their own.
template <class T, class C>
struct Turn {
  using Inputs = Types<T, T, C, C>;
  using Outputs = Types<T, T>;
  static constexpr bool uses_index = false, by_element = false;

  template <int N>
  __device__ void operator()(int64_t, const Pack<Kept<T>, N>& a, const Pack<Kept<T>, N>& b,
                             const Pack<C, N>& cosines, const Pack<C, N>& sines, Pack<Kept<T>, N>& turned_a,
                             Pack<Kept<T>, N>& turned_b) const {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const C p = to<C>(a.at[i]), q = to<C>(b.at[i]), c = cosines.at[i], s = sines.at[i];
      turned_a.at[i] = from<Kept<T>>(p * c - q * s);
      turned_b.at[i] = from<Kept<T>>(q * c + p * s);
    }
  }
};

void rotary_cuda(const Stream& stream, const RotaryArguments& arguments) {
  const RotaryParts v = rotary_parts(arguments);
  auto turn = [&](const auto& op) {
    map("rotary", stream, op, v.a, v.b, v.cosines, v.sines, v.turned_a, v.turned_b);
  };
  if (v.a.dtype != v.turned_a.dtype) return turn(Turn<AnyFloat, float>{});
  dispatch_floating(v.a.dtype, "rotary", [&]<class T>() { turn(Turn<Element<T>, Accumulator<T>>{}); });
}

const OnCuda rotary_on_cuda{rotary, rotary_cuda};

}  // namespace
}  // namespace reprise::kernels
