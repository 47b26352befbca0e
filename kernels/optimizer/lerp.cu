// average = decay average + (1 - decay) value on CUDA: all tensors of one dtype in one launch (tensor_table.cuh).
//
// Bytes: an average is read and written once, its value read once: 12 for each number in f32. Operations: 2. A block has
// 16,384 numbers of one tensor, a thread packs of 16 bytes of them, side by side in a warp. Integers are copied.
#include <cmath>
#include <vector>

#include "reprise/kernels/cuda/pack.cuh"
#include "reprise/kernels/cuda/tensor_table.cuh"
#include "reprise/kernels/elementwise/copy.h"
#include "reprise/kernels/optimizer/lerp_checks.h"

namespace reprise::kernels {
namespace {

using namespace device;

constexpr int block_threads = 256;
constexpr int64_t piece_size = 1 << 14;

struct LerpEntry : TableEntry {
  void* average;
  const void* value;
};

/// The product with `decay` is rounded to the average's dtype before the sum.
template <class E, class C>
__device__ __forceinline__ E mixed(E average, E value, C decay, C share) {
  const E kept = from<E>(decay * to<C>(average));
  return from<E>(std::fma(share, to<C>(value), to<C>(kept)));
}

template <class E, class C>
__global__ void __launch_bounds__(block_threads)
    lerp_kernel(const __grid_constant__ TensorTable<LerpEntry> table, C decay, C share) {
  constexpr int N = pack_size<E>;
  const Piece piece = piece_of_block(table, piece_size);
  const LerpEntry& entry = table.entries[piece.entry];
  E* average = static_cast<E*>(entry.average);
  const E* value = static_cast<const E*>(entry.value);
  const bool packed = fits_packs<N>(average) && fits_packs<N>(value);
  const int64_t packs_end = packed ? piece.end - (piece.end - piece.begin) % N : piece.begin;
  for (int64_t i = piece.begin + int64_t(threadIdx.x) * N; i < packs_end; i += block_threads * N) {
    Pack<E, N> to_change = load_pack<N>(average + i);
    const Pack<E, N> values = load_pack<N>(value + i);
#pragma unroll
    for (int e = 0; e < N; ++e) to_change.at[e] = mixed<E, C>(to_change.at[e], values.at[e], decay, share);
    store_pack(average + i, to_change);
  }
  for (int64_t i = packs_end + threadIdx.x; i < piece.end; i += block_threads)
    average[i] = mixed<E, C>(average[i], value[i], decay, share);
}

void lerp_cuda(const Stream& stream, std::span<const LerpTensor> tensors, double decay) {
  check_lerp(tensors, decay);
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    dispatch_floating(dtype, "lerp", [&]<class T>() {
      using E = Element<T>;
      using C = Accumulator<T>;
      std::vector<LerpEntry> entries;
      for (const auto& [average, value] : tensors)
        if (average.dtype == dtype) entries.push_back({{average.numel(), 0}, average.data, value.data});
      for_each_table<LerpEntry>(
          entries, piece_size, [&](const TensorTable<LerpEntry>& table, int64_t blocks) {
            simt::launch({.name = "lerp", .grid = unsigned(blocks), .block = block_threads, .stream = stream},
                         lerp_kernel<E, C>, table, C(decay), C(1 - decay));
          });
    });
  for (const auto& [average, value] : tensors)
    if (!is_floating(average.dtype) && average.numel() > 0) copy(stream, value, average);
}

const OnCuda lerp_on_cuda{lerp, lerp_cuda};

}  // namespace
}  // namespace reprise::kernels
