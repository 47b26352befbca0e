// The one kernel behind all elementwise CUDA ops: y = op(x...) over views of one shape and any strides.
//
// Bytes: every element of an input is read once, every element of an output written once; an input that is
// broadcast along rows (a bias) comes from cache. A thread takes `map_unrolled` packs of up to 16 bytes, all
// loads first: the 1024 threads that fit a multiprocessor at 64 registers keep 32 KB or more in flight, and
// an H200 needs about 25 KB (4.8 TB/s times 0.7 us of latency, over 132 multiprocessors).
//
// Packs are taken along the innermost dimension, where every view has stride 1 and aligned rows, or is an
// input with stride 0 there. All other views, and what is left over of a row of a contiguous view, go element
// by element.
//
// An op is a struct that says what it reads and writes and works on packs of any size:
//
//   struct Scale {
//     using Inputs = Types<float>;
//     using Outputs = Types<float>;
//     static constexpr bool uses_index = false;  // true: `first` must be the row-major number of the element
//     static constexpr bool by_element = false;  // true: no packs, for formulas too long to be unrolled
//     float factor;
//     template <int N>
//     __device__ void operator()(int64_t first, const Pack<float, N>& x, Pack<float, N>& y) const {
//       for (int i = 0; i < N; ++i) y.at[i] = x.at[i] * factor;
//     }
//   };
//   map("scale", stream, Scale{2}, x, y);
//
// In the place of an element type AnyFloat stands for f32 and 16 bits, as the view says when the kernel runs; the op sees packs
// of f32.
#pragma once

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "reprise/kernels/cuda/any_float.cuh"
#include "reprise/kernels/cuda/cuts.h"
#include "reprise/kernels/cuda/divisor.cuh"
#include "reprise/kernels/cuda/pack.cuh"
#include "reprise/kernels/strided.h"

namespace reprise::kernels::device {

inline constexpr int map_unrolled = 2;
inline constexpr int map_threads = kMapPacks / map_unrolled;

/// The element types of an op's inputs or outputs, AnyFloat among them.
template <class... T>
struct Types {
  static constexpr int count = sizeof...(T);
  static constexpr int largest = int(std::max({size_t(1), sizeof(T)...}));  ///< in bytes
};

/// Where the elements of N views of one shape are. Items are what a thread takes at a time: first the packs,
/// then single elements.
template <int N>
struct MapPlan {
  int64_t packs = 0;
  int64_t items = 0;
  int rank = 1;
  Divisor sizes[8];  ///< innermost first; the innermost in items
  std::array<void*, size_t(N)> data = {};
  AnyFloatPointer any[N] = {};  ///< the same, for elements of AnyFloat
  int64_t strides[N][8] = {};   ///< innermost first, in elements
};

/// Whether packs of `width` elements fit all rows of a collapsed view; of an input also if one element stands
/// for each row.
inline bool packs_fit(const TensorView& view, int64_t width, bool is_input) {
  const int last = view.rank() - 1;
  if (is_input && view.strides[last] == 0) return true;
  if (view.strides[last] != 1) return false;
  for (int dim = 0; dim < last; ++dim)
    if (view.strides[dim] % width != 0) return false;
  return reinterpret_cast<uintptr_t>(view.data) % (uintptr_t(width) * size_of(view.dtype)) == 0;
}

/// `views` are collapsed, the inputs first.
template <size_t N>
MapPlan<int(N)> plan_map(const std::array<TensorView, N>& views, size_t inputs, int64_t width) {
  MapPlan<int(N)> plan;
  const Shape& shape = views[0].shape;
  const int64_t row = shape.back(), count = numel_of(shape);
  plan.rank = shape.size();
  bool packed = plan.rank == 1 || row % width == 0;
  for (size_t k = 0; k < N; ++k) packed = packed && packs_fit(views[k], width, k < inputs);
  plan.packs = packed ? count / width : 0;
  plan.items = plan.packs + (count - plan.packs * width);
  for (int d = 0; d < plan.rank; ++d) plan.sizes[d] = Divisor(shape[plan.rank - 1 - d]);
  if (packed && plan.rank > 1) plan.sizes[0] = Divisor(row / width);
  for (size_t k = 0; k < N; ++k) {
    plan.data[k] = views[k].data;
    plan.any[k] = AnyFloatPointer(views[k]);
    for (int d = 0; d < plan.rank; ++d) plan.strides[k][d] = views[k].strides[plan.rank - 1 - d];
  }
  return plan;
}

/// The offsets of the item `i` in each view; `width` is the number of elements in the items of a row.
template <int N>
__device__ __forceinline__ void find_item(const MapPlan<N>& plan, int64_t i, int64_t width,
                                          int64_t (&offsets)[N]) {
  const bool narrow = plan.items <= Divisor::narrow_limit;
  int64_t scale = width;
#pragma unroll
  for (int k = 0; k < N; ++k) offsets[k] = 0;
#pragma unroll 1
  for (int d = 0; d + 1 < plan.rank; ++d) {
    const int64_t rest = narrow ? plan.sizes[d].narrow_quotient(i) : plan.sizes[d].wide_quotient(i);
    const int64_t index = (i - rest * plan.sizes[d].value()) * scale;
#pragma unroll
    for (int k = 0; k < N; ++k) offsets[k] += index * plan.strides[k][d];
    i = rest;
    scale = 1;
  }
#pragma unroll
  for (int k = 0; k < N; ++k) offsets[k] += i * scale * plan.strides[k][plan.rank - 1];
}

/// The element of view `k` at `offset`.
template <class T, int N>
__device__ __forceinline__ Pointer<T> element_at(const MapPlan<N>& plan, size_t k, int64_t offset) {
  if constexpr (std::is_same_v<T, AnyFloat>)
    return plan.any[k] + offset;
  else
    return static_cast<T*>(plan.data[k]) + offset;
}

/// A pack of one input of T; with stride 0 one element stands for all.
template <class T, int Width>
__device__ __forceinline__ Pack<Kept<T>, Width> load_item(Pointer<T> from, int64_t stride) {
  if (Width == 1 || stride != 0) return load_pack<Width>(from);
  Pack<Kept<T>, Width> pack;
  const Kept<T> value = from[0];
#pragma unroll
  for (int i = 0; i < Width; ++i) pack.at[i] = value;
  return pack;
}

template <class Op, class Inputs = typename Op::Inputs, class Outputs = typename Op::Outputs>
struct Mapper;

template <class Op, class... X, class... Y>
struct Mapper<Op, Types<X...>, Types<Y...>> {
  static constexpr int n_inputs = sizeof...(X), n_views = n_inputs + int(sizeof...(Y));
  static constexpr int width = Op::by_element ? 1 : 16 / std::max(Types<X...>::largest, Types<Y...>::largest);
  using Offsets = int64_t[n_views];

  template <int Width, size_t... I>
  static __device__ __forceinline__ std::tuple<Pack<Kept<X>, Width>...> load(const MapPlan<n_views>& plan,
                                                                             const Offsets& offsets,
                                                                             std::index_sequence<I...>) {
    return {load_item<X, Width>(element_at<X>(plan, I, offsets[I]), plan.strides[I][0])...};
  }

  template <int Width, size_t... I, size_t... O>
  static __device__ __forceinline__ void finish(const Op& op, const MapPlan<n_views>& plan,
                                                const Offsets& offsets, int64_t first,
                                                const std::tuple<Pack<Kept<X>, Width>...>& x,
                                                std::index_sequence<I...>, std::index_sequence<O...>) {
    std::tuple<Pack<Kept<Y>, Width>...> y;
    op(first, std::get<I>(x)..., std::get<O>(y)...);
    (store_pack(element_at<Y>(plan, n_inputs + O, offsets[n_inputs + O]), std::get<O>(y)), ...);
  }

  /// This thread's items of [begin, end): the packs, from 0, or the single elements that follow `begin`
  /// packs.
  template <int Width>
  static __device__ __forceinline__ void run(const Op& op, const MapPlan<n_views>& plan, int64_t begin,
                                             int64_t end) {
    constexpr auto inputs = std::make_index_sequence<sizeof...(X)>();
    constexpr auto outputs = std::make_index_sequence<sizeof...(Y)>();
    const int64_t start = int64_t(blockIdx.x) * kMapPacks + threadIdx.x;
    std::tuple<Pack<Kept<X>, Width>...> x[map_unrolled];
    Offsets offsets[map_unrolled];
#pragma unroll
    for (int u = 0; u < map_unrolled; ++u) {
      const int64_t item = start + u * map_threads;
      if (item < begin || item >= end) continue;
      // Single elements that follow packs are the end of a view of rank 1: their number is their index.
      const int64_t number = item + begin * (width - 1);
      find_item(plan, number, Width, offsets[u]);
      x[u] = load<Width>(plan, offsets[u], inputs);
    }
#pragma unroll
    for (int u = 0; u < map_unrolled; ++u) {
      const int64_t item = start + u * map_threads;
      if (item < begin || item >= end) continue;
      finish<Width>(op, plan, offsets[u], (item + begin * (width - 1)) * Width, x[u], inputs, outputs);
    }
  }
};

template <class Op>
__global__ void __launch_bounds__(map_threads)
    map_kernel(const __grid_constant__ Op op, const __grid_constant__ MapPlan<Mapper<Op>::n_views> plan) {
  using Mapper = Mapper<Op>;
  if (plan.packs > 0) Mapper::template run<Mapper::width>(op, plan, 0, plan.packs);
  if (plan.items > plan.packs) Mapper::template run<1>(op, plan, plan.packs, plan.items);
}

/// Runs `op` over views of one shape whose dtypes are those the op names: its inputs, then its outputs. An
/// output may be one of the inputs.
template <class Op, std::same_as<TensorView>... Views>
void map(const char* name, const Stream& stream, const Op& op, const Views&... views) {
  using Mapper = Mapper<Op>;
  static_assert(sizeof...(Views) == Mapper::n_views);
  std::array<TensorView, sizeof...(Views)> all = {views...};
  if (all.back().numel() == 0) return;
  if (!Op::uses_index) order_like_last(all);
  collapse(all);
  const auto plan = plan_map(all, Mapper::n_inputs, Mapper::width);
  const int64_t blocks = ceil_div<int64_t>(plan.items, kMapPacks);
  simt::launch({.name = name, .grid = dim3(unsigned(blocks)), .block = map_threads, .stream = stream},
               map_kernel<Op>, op, plan);
}

/// y = f(x...), element by element, in the compute type C.
template <class C, class F, class Y, class... X>
struct Pointwise {
  using Inputs = Types<X...>;
  using Outputs = Types<Y>;
  static constexpr bool uses_index = false;
  static constexpr bool by_element = requires { requires F::is_long; };
  F f;

  template <int N>
  __device__ void operator()(int64_t, const Pack<Kept<X>, N>&... x, Pack<Kept<Y>, N>& y) const {
#pragma unroll
    for (int i = 0; i < N; ++i) y.at[i] = from<Kept<Y>>(f(to<C>(x.at[i])...));
  }
};

/// Calls `body.operator()<U>()` with the unsigned integer as wide as `dtype`: for ops that only move
/// elements.
template <class Body>
void dispatch_bits(DType dtype, Body&& body) {
  switch (size_of(dtype)) {
    case 1:
      return body.template operator()<uint8_t>();
    case 2:
      return body.template operator()<uint16_t>();
    case 4:
      return body.template operator()<uint32_t>();
    default:
      return body.template operator()<uint64_t>();
  }
}

}  // namespace reprise::kernels::device
