// Norms and checks of gradients on CUDA: each element is read once, tensors of any strides; the norm adds in f64 over
// pieces of 16,384 elements, whose sums one block adds in order, whatever launches they are of. What follows from the norm, a step finds in the
// device's memory (StepNumbers): the host waits for none of it.
#include <cmath>
#include <limits>
#include <utility>
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

static_assert(kSquaresPiece == kNormPiece);

/// A tensor as a run of elements; one of other strides is alone in its launch.
struct DataEntry : TableEntry {
  int64_t first_piece;  ///< among those of all tensors, in order
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
  __device__ int64_t number() const {
    const Piece piece = piece_of_block(table, kNormPiece);
    return table.entries[piece.entry].first_piece + piece.begin / kNormPiece;
  }
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
  int64_t count, first_piece;
  int tensor;
  __device__ int place() const { return tensor; }
  __device__ int64_t number() const { return first_piece + blockIdx.x; }
  template <class Body>
  __device__ void for_each(Body&& body) const {
    const int64_t begin = int64_t(blockIdx.x) * kNormPiece, end = min(count, begin + kNormPiece);
    for (int64_t i = begin + threadIdx.x; i < end; i += block_threads)
      body(to<Accumulator<E>>(data[offset_of(i, shape, strides)]));
  }
};

/// The word of memory that norm_and_check begins with: above the place of any tensor.
constexpr int no_place = 0x7f7f7f7f;

/// squares[piece] = the sum of the squares of a piece, in f64: 124 million squares in f32 lose three digits.
/// first_bad (if wanted) = the least place of a tensor whose sum is not finite: the order of blocks changes nothing.
template <class Pieces>
__global__ void __launch_bounds__(block_threads)
    sum_squares_kernel(const __grid_constant__ Pieces pieces, double* squares, int* first_bad) {
  REPRISE_SHARED(double, scratch, [32]);
  double sum = 0;
  pieces.for_each([&](auto x) { sum += double(x) * double(x); });
  sum = block_reduce(Sum{}, sum, 0.0, scratch);
  if (threadIdx.x != 0) return;
  squares[pieces.number()] = sum;
  if (first_bad && !(sum <= std::numeric_limits<double>::max())) atomicMin(first_bad, pieces.place());
}

/// Where the numbers of GradientCheck are; found is null where the norm alone is wanted.
struct CheckNumbers {
  const float* scale;
  double clip;
  int32_t* found;
  double *norm, *gradient_scale;

  CheckNumbers(const TensorView& norm_alone)
      : scale(nullptr), clip(0), found(nullptr), norm(norm_alone.as<double>()), gradient_scale(nullptr) {}
  CheckNumbers(const GradientCheck& given)
      : scale(data_of<float>(given.scale)),
        clip(given.clip),
        found(given.found.as<int32_t>()),
        norm(given.norm.as<double>()),
        gradient_scale(given.gradient_scale.as<double>()) {}

  /// Of a sum of squares, and the place of the first tensor that is not finite.
  __device__ void write(double sum, int first_bad) const {
    const double inverse = scale ? 1 / double(*scale) : 1;
    const double root = std::sqrt(sum) * inverse;
    *norm = root;
    if (!found) return;
    *found = first_bad == no_place ? 0 : first_bad + 1;
    *gradient_scale = clip > 0 ? inverse * std::fmin(1.0, clip / (root + 1e-6)) : inverse;
  }
};

/// By one block, to thread 0: the sum of square_of(0) ... square_of(count - 1), in one order.
template <class SquareOf>
__device__ __forceinline__ double sum_in_block(int64_t count, double* scratch, SquareOf&& square_of) {
  double sum = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < count; i += block_threads) sum += square_of(i);
  return block_reduce(Sum{}, sum, 0.0, scratch);
}

/// norm = sqrt(sum of squares), by one block, and what follows from it.
__global__ void __launch_bounds__(block_threads)
    norm_kernel(const double* squares, int64_t count, const int* first_bad, CheckNumbers numbers) {
  REPRISE_SHARED(double, scratch, [32]);
  const double sum = sum_in_block(count, scratch, [&](int64_t i) { return squares[i]; });
  if (threadIdx.x == 0) numbers.write(sum, first_bad ? *first_bad : no_place);
}

/// The same of squares that stand in another order; places: the tensors that they are of.
__global__ void __launch_bounds__(block_threads)
    check_squares_kernel(const double* squares, const int32_t* order, const int32_t* places, int64_t count,
                         CheckNumbers numbers) {
  REPRISE_SHARED(double, scratch, [32]);
  REPRISE_SHARED(int, places_scratch, [32]);
  int first_bad = no_place;
  const double sum = sum_in_block(count, scratch, [&](int64_t i) {
    const double square = squares[order[i]];
    if (!(square <= std::numeric_limits<double>::max())) first_bad = min(first_bad, places[i]);
    return square;
  });
  first_bad = block_reduce(Min{}, first_bad, no_place, places_scratch);
  if (threadIdx.x == 0) numbers.write(sum, first_bad);
}

/// found = 1 if there is an infinity or NaN.  Bytes: each element is read once.
template <class Pieces>
__global__ void __launch_bounds__(block_threads)
    check_finite_kernel(const __grid_constant__ Pieces pieces, int32_t* found) {
  bool finite = true;
  pieces.for_each([&]<class C>(C x) { finite &= std::fabs(x) <= std::numeric_limits<C>::max(); });
  if (__any_sync(full_warp, !finite) && threadIdx.x % warp_threads == 0) atomicExch(found, 1);
}

/// Calls launch(pieces, blocks): once for the contiguous tensors of each dtype, and once for each other tensor. A piece
/// has elements that follow one another in a tensor's order, whatever its strides are.
template <class Launch>
void for_each_pieces(std::span<const TensorView> tensors, const Launch& launch) {
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    dispatch_floating(dtype, "gradient_norm", [&]<class T>() {
      using E = Element<T>;
      std::vector<DataEntry> dense;
      int64_t first_piece = 0;
      for (size_t place = 0; place < tensors.size(); ++place) {
        TensorView view = tensors[place];
        const int64_t count = view.numel(), pieces = ceil_div(count, kNormPiece);
        const int64_t first = std::exchange(first_piece, first_piece + pieces);
        if (view.dtype != dtype || count == 0) continue;
        collapse({&view, 1});
        if (view.is_contiguous())
          dense.push_back({{count, 0, int32_t(place)}, first, view.data});
        else
          launch(StridedPieces<E>{data_of<T>(view), device_shape(view), device_strides(view), count, first,
                                  int(place)},
                 pieces);
      }
      for_each_table<DataEntry>(dense, kNormPiece, [&](const TensorTable<DataEntry>& table, int64_t blocks) {
        launch(TablePieces<E>{table}, blocks);
      });
    });
}

/// squares[p] of each piece p of all tensors; first_bad, if wanted, becomes the least place of a tensor that is not finite.
void launch_squares(const Stream& stream, std::span<const TensorView> tensors, double* squares,
                    int* first_bad) {
  for_each_pieces(tensors, [&]<class Pieces>(const Pieces& pieces, int64_t blocks) {
    simt::launch({.name = "sum_squares", .grid = unsigned(blocks), .block = block_threads, .stream = stream},
                 sum_squares_kernel<Pieces>, pieces, squares, first_bad);
  });
}

/// The norm of all tensors, and, where numbers.found is not null, whether they are finite.
void launch_norm(const Stream& stream, std::span<const TensorView> tensors, const CheckNumbers& numbers) {
  int64_t count = 0;
  for (const TensorView& tensor : tensors) count += ceil_div(tensor.numel(), kNormPiece);
  Workspace workspace(stream, size_t(count + 1) * sizeof(double));
  double* const squares = workspace.as<double>();
  int* const first_bad = numbers.found ? reinterpret_cast<int*>(squares + count) : nullptr;
  if (first_bad) cuda::set_bytes_async(first_bad, no_place & 0xff, sizeof(int), stream.handle());
  launch_squares(stream, tensors, squares, first_bad);
  simt::launch({.name = "norm", .grid = 1, .block = block_threads, .stream = stream}, norm_kernel, squares,
               count, first_bad, numbers);
}

void global_norm_cuda(const Stream& stream, std::span<const TensorView> tensors, const TensorView& norm) {
  check_over_tensors("global_norm", tensors, "norm", norm, DType::f64);
  launch_norm(stream, tensors, norm);
}

void norm_and_check_cuda(const Stream& stream, std::span<const TensorView> tensors,
                         const GradientCheck& given) {
  check_norm_and_check(tensors, given);
  launch_norm(stream, tensors, given);
}

void squares_of_pieces_cuda(const Stream& stream, std::span<const TensorView> tensors,
                            const TensorView& squares) {
  check_squares_of_pieces(tensors, squares);
  launch_squares(stream, tensors, squares.as<double>(), nullptr);
}

void check_squares_cuda(const Stream& stream, const PieceSquares& pieces, const GradientCheck& given) {
  check_piece_squares(pieces, given);
  simt::launch({.name = "check_squares", .grid = 1, .block = block_threads, .stream = stream},
               check_squares_kernel, pieces.squares.as<double>(), pieces.order.as<int32_t>(),
               pieces.places.as<int32_t>(), pieces.order.numel(), CheckNumbers(given));
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
const OnCuda squares_of_pieces_on_cuda{squares_of_pieces, squares_of_pieces_cuda};
const OnCuda check_squares_on_cuda{check_squares, check_squares_cuda};

}  // namespace
}  // namespace reprise::kernels
