// Random tensors on CUDA: the maps from Philox words to numbers are those of random_fill.cpp. Uniform numbers
// have the CPU's bits; normal ones go through this device's log, cos and sin, each within 2 ulp of the exact
// value. Bytes: each element is written once; a quarter of a Philox block of some 80 instructions makes it.
#include "reprise/kernels/elementwise/random_fill.h"

#include <cmath>

#include "reprise/kernels/elementwise/normal.h"
#include "reprise/kernels/elementwise/random.cuh"
#include "reprise/kernels/elementwise/random_limits.h"

namespace reprise::kernels {
namespace {

using namespace device;

template <class C>
struct Uniform {
  double low, width;
  C limit;  // the largest result

  __device__ void operator()(const Words& words, C (&y)[numbers_per_block<C>]) const {
#pragma unroll
    for (int i = 0; i < numbers_per_block<C>; ++i) {
      const double unit =
          sizeof(C) == 8 ? double(upper_53_bits(words, i % 2)) * 0x1p-53 : to_unit_float(words[size_t(i)]);
      const C value = C(__dadd_rn(low, __dmul_rn(unit, width)));  // fused, it would round otherwise
      y[i] = limit < value ? limit : value;
    }
  }
};

template <class C>
struct Normal {
  C mean, stddev;

  __device__ void operator()(const Words& words, C (&y)[numbers_per_block<C>]) const {
    standard_normals(words, y);
#pragma unroll
    for (C& number : y) number = mean + stddev * number;
  }
};

template <class T, class C, class Draw>
struct FillFromBlocks {
  using Inputs = Types<>;
  using Outputs = Types<T>;
  static constexpr bool uses_index = true, by_element = false;
  uint64_t seed, offset;
  Draw draw;

  template <int N>
  __device__ void operator()(int64_t first, Pack<T, N>& y) const {
    C numbers[N];
    draw_items<numbers_per_block<C>>(seed, offset, first, draw, numbers);
#pragma unroll
    for (int i = 0; i < N; ++i) y.at[i] = from<T>(numbers[i]);
  }
};

void fill_uniform_cuda(const Stream& stream, const TensorView& y, double low, double high, uint64_t seed,
                       uint64_t offset) {
  check(low <= high && std::isfinite(high - low), "fill_uniform: no interval [", low, ", ", high, ")");
  dispatch_floating(y.dtype, "fill_uniform", [&]<class T>() {
    using C = ComputeType<T>;
    const C begin = C(low), end = C(high);
    const Uniform<C> draw = {double(begin), double(end) - double(begin), largest_below<T>(begin, end)};
    map("fill_uniform", stream, FillFromBlocks<Element<T>, C, Uniform<C>>{seed, offset, draw}, y);
  });
}

void fill_normal_cuda(const Stream& stream, const TensorView& y, double mean, double stddev, uint64_t seed,
                      uint64_t offset) {
  check(stddev >= 0 && std::isfinite(stddev), "fill_normal: stddev is ", stddev);
  dispatch_floating(y.dtype, "fill_normal", [&]<class T>() {
    using C = ComputeType<T>;
    const Normal<C> draw = {C(mean), C(stddev)};
    map("fill_normal", stream, FillFromBlocks<Element<T>, C, Normal<C>>{seed, offset, draw}, y);
  });
}

const OnCuda fill_uniform_on_cuda{fill_uniform, fill_uniform_cuda};
const OnCuda fill_normal_on_cuda{fill_normal, fill_normal_cuda};

}  // namespace
}  // namespace reprise::kernels
