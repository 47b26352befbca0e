// average = decay average + (1 - decay) value on CUDA: all tensors of one dtype and kind of value in one
// launch (tensor_table.cuh).
//
// Bytes: an average is read and written once, its value read once: 12 for each number in f32. Operations: 2. A block has
// 16,384 numbers of one tensor, a thread packs of 16 bytes of them, side by side in a warp. Integers are copied.
#include <cmath>
#include <map>
#include <tuple>
#include <type_traits>
#include <vector>

#include "reprise/kernels/cuda/pack.cuh"
#include "reprise/kernels/cuda/tensor_table.cuh"
#include "reprise/kernels/optimizer/lerp_checks.h"
#include "reprise/kernels/optimizer/rounding.h"

namespace reprise::kernels {
namespace {

using namespace device;

constexpr int block_threads = 256;
constexpr int64_t piece_size = 1 << 14;

struct LerpEntry : TableEntry {
  void* average;
  const void* value;
  const int16_t* rest;  ///< the lower halves of values in bf16; null: none
};

/// The value as the average's type of computation; `V` is its element, or SplitValue.
template <class V, class C>
__device__ __forceinline__ C value_at(const LerpEntry& entry, int64_t i) {
  if constexpr (std::is_same_v<V, SplitValue>)
    return __uint_as_float(joined({static_cast<const uint16_t*>(entry.value)[i], entry.rest[i]}));
  else
    return to<C>(static_cast<const V*>(entry.value)[i]);
}

/// The product with `decay` is rounded to the average's dtype before the sum.
template <class E, class C>
__device__ __forceinline__ E mixed(E average, C value, C decay, C share) {
  const E kept = from<E>(decay * to<C>(average));
  return from<E>(std::fma(share, value, to<C>(kept)));
}

/// One pass over averages of type E: packs where average and value are alike, else single elements.
template <class E, class V, class C>
__global__ void __launch_bounds__(block_threads)
    lerp_kernel(const __grid_constant__ TensorTable<LerpEntry> table, const int32_t* skip, C decay, C share) {
  if (skip && *skip != 0) return;
  constexpr int N = pack_size<E>;
  const Piece piece = piece_of_block(table, piece_size);
  const LerpEntry& entry = table.entries[piece.entry];
  E* average = static_cast<E*>(entry.average);
  int64_t packs_end = piece.begin;
  if constexpr (std::is_same_v<E, V>) {
    const E* value = static_cast<const E*>(entry.value);
    if (fits_packs<N>(average) && fits_packs<N>(value)) packs_end = piece.end - (piece.end - piece.begin) % N;
    for (int64_t i = piece.begin + int64_t(threadIdx.x) * N; i < packs_end; i += block_threads * N) {
      Pack<E, N> to_change = load_pack<N>(average + i);
      const Pack<E, N> values = load_pack<N>(value + i);
#pragma unroll
      for (int e = 0; e < N; ++e)
        to_change.at[e] = mixed<E, C>(to_change.at[e], to<C>(values.at[e]), decay, share);
      store_pack(average + i, to_change);
    }
  }
  for (int64_t i = packs_end + threadIdx.x; i < piece.end; i += block_threads)
    average[i] = mixed<E, C>(average[i], value_at<V, C>(entry, i), decay, share);
}

/// Of what is not floating: elements are copied.
template <class T>
__global__ void __launch_bounds__(block_threads)
    copy_kernel(const __grid_constant__ TensorTable<LerpEntry> table, const int32_t* skip) {
  if (skip && *skip != 0) return;
  const Piece piece = piece_of_block(table, piece_size);
  const LerpEntry& entry = table.entries[piece.entry];
  for (int64_t i = piece.begin + threadIdx.x; i < piece.end; i += block_threads)
    static_cast<T*>(entry.average)[i] = static_cast<const T*>(entry.value)[i];
}

LerpEntry entry_of(const LerpTensor& t) {
  return {{t.average.numel(), 0},
          t.average.data,
          t.value.data,
          t.remainder ? static_cast<const int16_t*>(t.remainder.data) : nullptr};
}

void lerp_cuda(const Stream& stream, std::span<const LerpTensor> tensors, const LerpOptions& options) {
  check_lerp(tensors, options);
  const int32_t* skip = data_of<int32_t>(options.skip);
  std::map<std::tuple<DType, DType, bool>, std::vector<size_t>> kinds;
  for (size_t t = 0; t < tensors.size(); ++t)
    kinds[{tensors[t].average.dtype, tensors[t].value.dtype, bool(tensors[t].remainder)}].push_back(t);
  for (const auto& [kind, places] : kinds) {
    std::vector<LerpEntry> entries;
    for (size_t t : places) entries.push_back(entry_of(tensors[t]));
    dispatch_lerp(tensors[places[0]], [&]<class T, class V>() {
      for_each_table<LerpEntry>(
          entries, piece_size, [&](const TensorTable<LerpEntry>& table, int64_t blocks) {
            const simt::Launch launch{
                .name = "lerp", .grid = unsigned(blocks), .block = block_threads, .stream = stream};
            if constexpr (std::is_integral_v<T>) {
              simt::launch(launch, copy_kernel<T>, table, skip);
            } else {
              using C = Accumulator<T>;
              simt::launch(launch, lerp_kernel<Element<T>, Element<V>, C>, table, skip, C(options.decay),
                           C(1 - options.decay));
            }
          });
    });
  }
}

const OnCuda lerp_on_cuda{lerp, lerp_cuda};

}  // namespace
}  // namespace reprise::kernels
