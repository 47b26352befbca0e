// Norms and checks of gradients on CUDA: each element is read once, tensors of any strides; the norm adds in f64 over
// pieces of 16,384 elements, whose sums one block adds in order. What follows from the norm, a step finds in the
// device's memory (StepNumbers): the host waits for none of it.
#include <cmath>
#include <limits>
#include <vector>

#include "reprise/core/cuda/runtime.h"
#include "reprise/kernels/cuda/pack.cuh"
#include "reprise/kernels/cuda/reduce.cuh"
#include "reprise/kernels/cuda/strided.cuh"
#include "reprise/kernels/cuda/tensor_table.cuh"
#include "reprise/kernels/cuda/workspace.h"
#include "reprise/kernels/optimizer/gradient_norm_checks.h"
#include "reprise/kernels/strided.h"
#include "reprise/simt/simt.h"

namespace reprise::kernels {
namespace {

using namespace device;

constexpr int block_threads = 256;

/// A tensor as a run of elements, or of any strides: then it is alone in its launch.
struct DataEntry : TableEntry {
  const void* data;
};

/// Calls body(x) with each element of [begin, end) that belongs to this thread, in f32 or f64.
template <class E, class Body>
__device__ __forceinline__ void for_each_number(const E* data, int64_t begin, int64_t end, Body&& body) {
  using C = Accumulator<E>;
  constexpr int N = pack_size<E>;
  const int64_t packs_end = fits_packs<N>(data) ? end - end % N : begin;
#pragma unroll 4
  for (int64_t i = begin + int64_t(threadIdx.x) * N; i < packs_end; i += block_threads * N) {
    const Pack<E, N> pack = load_pack<N>(data + i);
#pragma unroll
    for (int e = 0; e < N; ++e) body(to<C>(pack.at[e]));
  }
  for (int64_t i = packs_end + threadIdx.x; i < end; i += block_threads) body(to<C>(data[i]));
}

/// How both kernels below see a piece: of a table of contiguous tensors, or of one tensor of any strides.
template <class E>
struct TablePieces {
  TensorTable<DataEntry> table;
  __device__ int place() const { return table.entries[piece_of_block(table, kNormPiece).entry].place; }
  template <class Body>
  __device__ void for_each(Body&& body) const {
    const Piece piece = piece_of_block(table, kNormPiece);
    for_each_number(static_cast<const E*>(table.entries[piece.entry].data), piece.begin, piece.end, body);
  }
};
template <class E>
struct StridedPieces {
  const E* data;
  DeviceShape shape;
  DeviceStrides strides;
  int64_t count;
  int tensor;
  __device__ int place() const { return tensor; }
  template <class Body>
  __device__ void for_each(Body&& body) const {
    const int64_t begin = int64_t(blockIdx.x) * kNormPiece, end = min(count, begin + kNormPiece);
    for (int64_t i = begin + threadIdx.x; i < end; i += block_threads)
      body(to<Accumulator<E>>(data[offset_of(i, shape, strides)]));
  }
};

/// The word of memory that norm_and_check begins with: above the place of any tensor.
constexpr int no_place = 0x7f7f7f7f;

/// partials[block] = the sum of the squares of its piece, in f64: 124 million squares in f32 lose three digits.
/// first_bad (if wanted) = the least place of a tensor whose sum is not finite: the order of blocks changes nothing.
template <class Pieces>
__global__ void __launch_bounds__(block_threads)
    sum_squares_kernel(const __grid_constant__ Pieces pieces, double* partials, int* first_bad) {
  REPRISE_SHARED(double, scratch, [32]);
  double sum = 0;
  pieces.for_each([&](auto x) { sum += double(x) * double(x); });
  sum = block_reduce(Sum{}, sum, 0.0, scratch);
  if (threadIdx.x != 0) return;
  partials[blockIdx.x] = sum;
  if (first_bad && !(sum <= std::numeric_limits<double>::max())) atomicMin(first_bad, pieces.place());
}

/// Where the numbers of GradientCheck are; found is null where the norm alone is wanted.
struct CheckNumbers {
  const float* scale;
  double clip;
  int32_t* found;
  double *norm, *gradient_scale;
};

/// norm = sqrt(sum of partials), by one block, and what follows from it.
__global__ void __launch_bounds__(block_threads)
    norm_kernel(const double* partials, int64_t count, const int* first_bad, CheckNumbers numbers) {
  REPRISE_SHARED(double, scratch, [32]);
  double sum = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < count; i += block_threads) sum += partials[i];
  sum = block_reduce(Sum{}, sum, 0.0, scratch);
  if (threadIdx.x != 0) return;
  const double inverse = numbers.scale ? 1 / double(*numbers.scale) : 1;
  const double norm = std::sqrt(sum) * inverse;
  *numbers.norm = norm;
  if (!numbers.found) return;
  *numbers.found = *first_bad == no_place ? 0 : *first_bad + 1;
  *numbers.gradient_scale =
      numbers.clip > 0 ? inverse * std::fmin(1.0, numbers.clip / (norm + 1e-6)) : inverse;
}

/// found = 1 if there is an infinity or NaN.  Bytes: each element is read once.
template <class Pieces>
__global__ void __launch_bounds__(block_threads)
    check_finite_kernel(const __grid_constant__ Pieces pieces, int32_t* found) {
  bool finite = true;
  pieces.for_each([&]<class C>(C x) { finite &= std::fabs(x) <= std::numeric_limits<C>::max(); });
  if (__any_sync(full_warp, !finite) && threadIdx.x % warp_threads == 0) atomicExch(found, 1);
}

/// Calls launch(pieces, blocks): once for the tensors of each dtype that are dense, in whatever order of
/// dimensions, and once for each other tensor.
template <class Launch>
void for_each_pieces(std::span<const TensorView> tensors, const Launch& launch) {
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    dispatch_floating(dtype, "gradient_norm", [&]<class T>() {
      using E = Element<T>;
      std::vector<DataEntry> dense;
      for (size_t place = 0; place < tensors.size(); ++place) {
        TensorView view = tensors[place];
        const int64_t count = view.numel();
        if (view.dtype != dtype || count == 0) continue;
        order_like_last({&view, 1});
        collapse({&view, 1});
        if (view.rank() == 1 && (view.stride(0) == 1 || count == 1))
          dense.push_back({{count, 0, int32_t(place)}, view.data});
        else
          launch(
              StridedPieces<E>{data_of<T>(view), device_shape(view), device_strides(view), count, int(place)},
              ceil_div(count, kNormPiece));
      }
      for_each_table<DataEntry>(dense, kNormPiece, [&](const TensorTable<DataEntry>& table, int64_t blocks) {
        launch(TablePieces<E>{table}, blocks);
      });
    });
}

/// The norm of all tensors, and, where numbers.found is not null, whether they are finite.
void launch_norm(const Stream& stream, std::span<const TensorView> tensors, const CheckNumbers& numbers) {
  int64_t count = 0;
  for (const TensorView& tensor : tensors) count += ceil_div(tensor.numel(), kNormPiece);
  Workspace workspace(stream, size_t(count + 1) * sizeof(double));
  double* const partials = workspace.as<double>();
  int* const first_bad = numbers.found ? reinterpret_cast<int*>(partials + count) : nullptr;
  if (first_bad) cuda::set_bytes_async(first_bad, no_place & 0xff, sizeof(int), stream.handle());
  double* next = partials;
  for_each_pieces(tensors, [&]<class Pieces>(const Pieces& pieces, int64_t blocks) {
    simt::launch({.name = "sum_squares", .grid = unsigned(blocks), .block = block_threads, .stream = stream},
                 sum_squares_kernel<Pieces>, pieces, next, first_bad);
    next += blocks;
  });
  simt::launch({.name = "norm", .grid = 1, .block = block_threads, .stream = stream}, norm_kernel, partials,
               count, first_bad, numbers);
}

void global_norm_cuda(const Stream& stream, std::span<const TensorView> tensors, const TensorView& norm) {
  check_over_tensors("global_norm", tensors, "norm", norm, DType::f64);
  launch_norm(stream, tensors, {nullptr, 0, nullptr, norm.as<double>(), nullptr});
}

void norm_and_check_cuda(const Stream& stream, std::span<const TensorView> tensors,
                         const GradientCheck& given) {
  check_norm_and_check(tensors, given);
  launch_norm(stream, tensors,
              {data_of<float>(given.scale), given.clip, given.found.as<int32_t>(), given.norm.as<double>(),
               given.gradient_scale.as<double>()});
}

void check_finite_cuda(const Stream& stream, std::span<const TensorView> tensors, const TensorView& found) {
  check_over_tensors("check_finite", tensors, "found", found, DType::i32);
  cuda::set_bytes_async(found.data, 0, sizeof(int32_t), stream.handle());
  for_each_pieces(tensors, [&]<class Pieces>(const Pieces& pieces, int64_t blocks) {
    simt::launch({.name = "check_finite", .grid = unsigned(blocks), .block = block_threads, .stream = stream},
                 check_finite_kernel<Pieces>, pieces, found.as<int32_t>());
  });
}

const OnCuda global_norm_on_cuda{global_norm, global_norm_cuda};
const OnCuda check_finite_on_cuda{check_finite, check_finite_cuda};
const OnCuda norm_and_check_on_cuda{norm_and_check, norm_and_check_cuda};

}  // namespace
}  // namespace reprise::kernels
