// Dropout on the CPU: 2 elements moved and a quarter of a Philox block for each element.
#include "reprise/kernels/elementwise/dropout.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "reprise/kernels/cpu/simd_random.h"
#include "reprise/kernels/cpu/simd_rows.h"
#include "reprise/kernels/strided.h"

namespace reprise::kernels {
namespace {

struct Rule {
  uint64_t seed, offset;
  uint32_t threshold;  // kept if the upper 24 bits of the draw are at least this: exactly draw >= p
  double scale;
};

/// The same size as C, for masks.
template <class C>
using MaskOf = std::conditional_t<sizeof(C) == 8, int64_t, int32_t>;

/// `first` is the row-major number of x[0], a multiple of 4.
template <class C>
void drop_chunk(const Rule& rule, const C* x, C* y, int64_t first, int64_t n) {
  simd::run([&]<int W>() {
    using V = simd::Vector<C, W>;
    simd::Vector<uint32_t, W> draws[4];
    C scale = C(rule.scale);
    for (int64_t i = 0; i < n; i += 4 * W) {
      simd::philox_draws<W>(rule.seed, rule.offset, uint64_t(first + i) / 4, draws);
      for (int quarter = 0; quarter < 4; ++quarter) {
        int64_t at = i + quarter * W, count = std::min<int64_t>(W, n - at);
        if (count <= 0) break;
        auto keep =
            __builtin_convertvector((draws[quarter] >> 8) >= rule.threshold, simd::Vector<MaskOf<C>, W>);
        C padded[W] = {};
        if (count < W) std::copy(x + at, x + n, padded);
        V kept = keep ? simd::load<V>(count < W ? padded : x + at) * scale : V{};
        if (count == W) {
          simd::store(y + at, kept);
        } else {
          simd::store(padded, kept);
          std::copy(padded, padded + count, y + at);
        }
      }
    }
  });
}

void dropout_cpu(const Stream&, const TensorView& x, double p, uint64_t seed, uint64_t offset,
                 const TensorView& y) {
  constexpr auto op = "dropout";
  check(p >= 0 && p < 1, op, ": p is ", p, ", should be in [0, 1)");
  check_same_shape(op, x, y);
  check_same_dtype(op, x, y);
  static_assert(kChunk % 4 == 0 && kPiece % kChunk == 0);
  Rule rule = {seed, offset, uint32_t(std::ceil(p * 0x1p24)), 1 / (1 - p)};
  dispatch_floating(x.dtype, op, [&]<class T>() {
    using C = Accumulator<T>;
    parallel_for(x.numel(), kPiece, [&](int64_t begin, int64_t end) {
      Reader<C> inputs(x, begin);
      Writer<C> results(y, begin);
      for_each_chunk(begin, end, [&](int64_t first, int64_t count) {
        drop_chunk(rule, inputs.read(count), results.next(count), first, count);
        results.commit(count);
      });
    });
  });
}

}  // namespace

decltype(dropout) dropout{"dropout", dropout_cpu};

}  // namespace reprise::kernels
