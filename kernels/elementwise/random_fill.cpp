// Random tensors from Philox. Note [Draws of element i], row-major, with w = philox_block(seed, offset,
// block):
//
//   f32, bf16, f16   block i / 4, words w[i % 4]
//     uniform        u = (w >> 8) 2^-24; y = low + u (high - low), computed in f64 and rounded once to f32
//     normal         words 2p and 2p + 1 of the block make the pair p = (i % 4) / 2:
//                    r = sqrt(-2 log((float(w[2p]) + 0.5) 2^-32)), a = 2 pi (w[2p + 1] >> 8) 2^-24,
//                    r cos a for even i, r sin a for odd i, all in f32; y = mean + stddev times that
//   f64              block i / 2, q[k] = w[2k + 1] 2^32 + w[2k] for k = 0, 1
//     uniform        u = (q[i % 2] >> 11) 2^-53; y = low + u (high - low)
//     normal         r = sqrt(-2 log(((q[0] >> 11) + 0.5) 2^-53)), a = 2 pi (q[1] >> 11) 2^-53, as above
//
// A uniform value that rounding has carried to `high` becomes the largest number of the dtype below it. low,
// high, mean and stddev are rounded to the compute type first. Box and Muller, "A note on the generation of
// random normal deviates", 1958.
#include "reprise/kernels/elementwise/random_fill.h"

#include <cmath>

#include "reprise/kernels/elementwise/normal.h"
#include "reprise/kernels/elementwise/random_limits.h"
#include "reprise/kernels/strided.h"

namespace reprise::kernels {
namespace {

using Words = std::array<uint32_t, 4>;

template <class C>
struct Uniform {
  double low, width;
  C limit;  // the largest result

  void operator()(const Words& words, C* y) const {
    for (int i = 0; i < numbers_per_block<C>; ++i) {
      double unit =
          sizeof(C) == 8 ? double(upper_53_bits(words, i % 2)) * 0x1p-53 : to_unit_float(words[size_t(i)]);
      y[i] = std::min(C(low + unit * width), limit);
    }
  }
};

template <class C>
struct Normal {
  C mean, stddev;

  void operator()(const Words& words, C* y) const {
    standard_normals(words, y);
    for (int i = 0; i < numbers_per_block<C>; ++i) y[i] = mean + stddev * y[i];
  }
};

/// Fills y with `draw(words, C* numbers)`, numbers_per_block numbers for each block of words.
template <class C, class Draw>
void fill_from_blocks(const TensorView& y, uint64_t seed, uint64_t offset, const Draw& draw) {
  constexpr int64_t per_block = numbers_per_block<C>;
  static_assert(kChunk % per_block == 0);
  parallel_for(y.numel(), kPiece, [&](int64_t begin, int64_t end) {
    Writer<C> writer(y, begin);
    C numbers[kChunk];
    for_each_chunk(begin, end, [&](int64_t first, int64_t count) {
      for (int64_t i = 0; i < count; i += per_block)
        draw(philox_block(seed, offset, uint64_t((first + i) / per_block)), numbers + i);
      writer.write(numbers, count);
    });
  });
}

void fill_uniform_cpu(const Stream&, const TensorView& y, double low, double high, uint64_t seed,
                      uint64_t offset) {
  check(low <= high && std::isfinite(high - low), "fill_uniform: no interval [", low, ", ", high, ")");
  dispatch_floating(y.dtype, "fill_uniform", [&]<class T>() {
    using C = ComputeType<T>;
    C from = C(low), to = C(high);
    Uniform<C> draw = {double(from), double(to) - double(from), largest_below<T>(from, to)};
    fill_from_blocks<C>(y, seed, offset, draw);
  });
}

void fill_normal_cpu(const Stream&, const TensorView& y, double mean, double stddev, uint64_t seed,
                     uint64_t offset) {
  check(stddev >= 0 && std::isfinite(stddev), "fill_normal: stddev is ", stddev);
  dispatch_floating(y.dtype, "fill_normal", [&]<class T>() {
    using C = ComputeType<T>;
    fill_from_blocks<C>(y, seed, offset, Normal<C>{C(mean), C(stddev)});
  });
}

}  // namespace

decltype(fill_uniform) fill_uniform{"fill_uniform", fill_uniform_cpu};
decltype(fill_normal) fill_normal{"fill_normal", fill_normal_cpu};

}  // namespace reprise::kernels
