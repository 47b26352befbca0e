// Kernels that work channel by channel on contiguous (N, C, ...). A block of 256 threads takes a piece of one
// channel, its threads side by side along the places and on to the next sample; where a channel has one value
// a sample, it takes 32 packs of channels and its threads run down the samples, 8 at a time. A thread works
// on packs of N elements. How the elements are dealt out depends on the shape and the dtype alone: an address
// that packs do not fit is read element by element by the same thread, so that alignment changes no bit of a
// sum.
#pragma once

#include <algorithm>

#include "reprise/kernels/cuda/divisor.cuh"
#include "reprise/kernels/cuda/rows.cuh"
#include "reprise/kernels/norm/batch_norm_checks.h"

namespace reprise::kernels::device {

inline constexpr int channel_threads = 256;
inline constexpr int64_t channel_chain = 64;     ///< packs of one thread, at most: sums of f32 stay short
inline constexpr int64_t channel_blocks = 1024;  ///< more pieces than this would not fill a GPU better
inline constexpr int64_t least_channel_chain = 4;

/// Packs of N elements; `columns`: one value per sample, packs lie along channels.
template <int N_, bool columns_>
struct ChannelCut {
  static constexpr int N = N_;
  static constexpr bool columns = columns_;
  static constexpr int channels = columns ? N : 1;           ///< of one thread
  static constexpr int across = columns ? warp_threads : 1;  ///< threads side by side on other channels
  static constexpr int down = channel_threads / across;      ///< threads that share channels
};

/// How a launch cuts (samples, channels, spatial).
struct ChannelPlan {
  int64_t channels, spatial;
  int64_t length;         ///< packs of a channel
  int64_t piece, pieces;  ///< packs of a piece; and how many
  bool aligned;           ///< whether packs fit the addresses
  int64_t step_samples;   ///< whole samples that `down` packs go on by
  Divisor row;            ///< packs of a channel in one sample
  Divisor by_pieces;

  /// The block's channel, or group of 32 threads' channels.
  __device__ int64_t group() const { return by_pieces.narrow_quotient(blockIdx.x); }
  __device__ int64_t piece_index() const { return int64_t(blockIdx.x) - group() * pieces; }
  /// The sample of pack i.
  __device__ int64_t sample(int64_t i) const {
    return length <= Divisor::narrow_limit ? row.narrow_quotient(i) : row.wide_quotient(i);
  }
};

template <class Cut>
ChannelPlan channel_plan(const ChannelShape& shape, std::initializer_list<const TensorView*> views) {
  const int64_t row = Cut::columns ? 1 : shape.spatial / Cut::N, length = shape.samples * row;
  const int64_t groups = ceil_div(shape.channels, int64_t(Cut::channels * Cut::across));
  constexpr int64_t down = Cut::down;
  int64_t pieces = std::min(ceil_div(channel_blocks, std::max<int64_t>(groups, 1)),
                            ceil_div(length, down * least_channel_chain));
  pieces = std::max(pieces, ceil_div(length, down * channel_chain));
  const int64_t piece = length == 0 ? 0 : ceil_div(ceil_div(length, pieces), down) * down;
  bool aligned = true;
  for (const TensorView* view : views) aligned &= reinterpret_cast<uintptr_t>(view->data) % 16 == 0;
  pieces = length == 0 ? 0 : ceil_div(length, piece);
  const Divisor by_row(std::max<int64_t>(row, 1)), by_pieces(std::max<int64_t>(pieces, 1));
  return {.channels = shape.channels,
          .spatial = shape.spatial,
          .length = length,
          .piece = piece,
          .pieces = pieces,
          .aligned = aligned,
          .step_samples = down / by_row.value(),
          .row = by_row,
          .by_pieces = by_pieces};
}

/// Blocks for all pieces of all channels.
template <class Cut>
unsigned channel_grid(const ChannelPlan& plan) {
  return unsigned(ceil_div(plan.channels, int64_t(Cut::channels * Cut::across)) * plan.pieces);
}

/// Calls body.operator()<Cut>() with the packs that fit (N, C, ...) of element type T.
template <class T, class Body>
void dispatch_channels(const ChannelShape& shape, Body&& body) {
  constexpr int N = sizeof(T) <= 4 ? pack_size<T> : 1;
  const bool columns = shape.spatial == 1;
  const bool packed = (columns ? shape.channels : shape.spatial) % N == 0;
  if (columns)
    packed ? body.template operator()<ChannelCut<N, true>>()
           : body.template operator()<ChannelCut<1, true>>();
  else
    packed ? body.template operator()<ChannelCut<N, false>>()
           : body.template operator()<ChannelCut<1, false>>();
}

/// The first channel of this thread; plan.channels or more if it has none.
template <class Cut>
__device__ __forceinline__ int64_t first_channel(const ChannelPlan& plan) {
  if constexpr (!Cut::columns) return plan.group();
  return (plan.group() * warp_threads + int(threadIdx.x) % warp_threads) * Cut::N;
}

/// Whether this thread is the first of those that share its channels.
template <class Cut>
__device__ __forceinline__ bool leads_channel() {
  return int(threadIdx.x) < Cut::across;
}

/// Calls body(at) for each pack of this thread: the offset of its first element.
template <class Cut, class Body>
__device__ __forceinline__ void each_place(const ChannelPlan& plan, int64_t channel, Body&& body) {
  if (channel >= plan.channels) return;
  int64_t i = plan.piece_index() * plan.piece + int(threadIdx.x) / Cut::across;
  const int64_t end = min(plan.length, (plan.piece_index() + 1) * plan.piece);
  if constexpr (Cut::columns) {
    for (; i < end; i += Cut::down) body(i * plan.channels + channel);
  } else {
    // A step goes on by so many samples and places; past the end of a sample's places, to the next sample.
    const int64_t row = plan.row.value();
    const int64_t samples = plan.step_samples, places = Cut::down - samples * row;
    const int64_t sample = plan.sample(i);
    int64_t place = i - sample * row;
    int64_t at = (sample * plan.channels + channel) * plan.spatial + place * Cut::N;
    for (; i < end; i += Cut::down) {
      body(at);
      place += places;
      at += samples * plan.channels * plan.spatial + places * Cut::N;
      if (place < row) continue;
      place -= row;
      at += (plan.channels - 1) * plan.spatial;
    }
  }
}

/// The pack at `from`.
template <class Cut, class C, class T>
__device__ __forceinline__ Numbers<C, Cut::N> channel_numbers(const ChannelPlan& plan, const T* from) {
  if (plan.aligned) return numbers_of<C>(load_pack<Cut::N>(from));
  Numbers<C, Cut::N> result;
#pragma unroll
  for (int i = 0; i < Cut::N; ++i) result.at[i] = to<C>(from[i]);
  return result;
}

template <class Cut, class T, class C>
__device__ __forceinline__ void store_channel_numbers(const ChannelPlan& plan, T* into,
                                                      const Numbers<C, Cut::N>& numbers) {
  const Pack<T, Cut::N> pack = pack_of<T>(numbers);
  if (plan.aligned) return store_pack(into, pack);
#pragma unroll
  for (int i = 0; i < Cut::N; ++i) into[i] = pack.at[i];
}

/// `join` over the threads of a block that share channels, in the first of them. `scratch` holds a value for
/// each thread; it may be used again at once.
template <class Cut, class V>
__device__ __forceinline__ V join_threads(V value, V* scratch) {
  const int thread = int(threadIdx.x);
  scratch[thread] = value;
#pragma unroll
  for (int half = channel_threads / 2; half >= Cut::across; half /= 2) {
    __syncthreads();
    if (thread < half) scratch[thread] = value = join(value, scratch[thread + half]);
  }
  __syncthreads();  // scratch may be written again
  return value;
}

}  // namespace reprise::kernels::device
