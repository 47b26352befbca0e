// Reductions on CUDA:  y[i] = op over j of x[i, j].  Bytes: x is read once. Operations: one per element, so
// memory is the bound wherever neighbouring threads read neighbouring elements:
//
//   rows      a thread, a warp or a block reduces each result, its threads side by side along the row;
//   columns   where the innermost dimension in memory is kept, a block's threads lie side by side along it,
//   and
//             each runs down the rows.
//
// Long reductions are cut into pieces by the views alone. A piece's partial results go to a workspace, which
// is reduced in the same way; so sums have a fixed order. Floats add at most 64 numbers in a chain of f32,
// and keep the totals in f64: the error stays at a few f32 roundings for any length.
#include "reprise/kernels/cuda/pack.cuh"
#include "reprise/kernels/cuda/reduce.cuh"
#include "reprise/kernels/cuda/strided.cuh"
#include "reprise/kernels/cuda/workspace.h"
#include "reprise/kernels/reduce/split.h"
#include "reprise/simt/simt.h"

namespace reprise::kernels {
namespace {

using namespace device;

constexpr int block_threads = 256;
constexpr int64_t enough_blocks = 512;    // more pieces than this would not fill a GPU better
constexpr int64_t most_blocks = 1 << 13;  // of columns: they go on to further ones

/// What partial results are kept in: f64 for sums of floats, else the type of the arithmetic.
template <class T, class Op>
using Partial = std::conditional_t<std::is_same_v<ComputeType<T>, float> && std::is_same_v<Op, Sum>, double,
                                   ComputeType<T>>;

template <class C, class Op>
__host__ __device__ constexpr C identity() {
  using Limits = std::numeric_limits<C>;
  if constexpr (std::is_same_v<Op, Sum>)
    return C(0);
  else if constexpr (std::is_same_v<Op, Max>)
    return std::is_integral_v<C> ? Limits::lowest() : -Limits::infinity();
  else
    return std::is_integral_v<C> ? Limits::max() : Limits::infinity();
}

/// y[offset] = value, rounded to y's dtype. Results are few: the switch costs nothing.
template <class P>
__device__ void store_number(void* y, DType dtype, int64_t offset, P value) {
  auto store = [&]<class T>(T*) { static_cast<T*>(y)[offset] = from<T>(value); };
  if constexpr (std::is_integral_v<P>) {
    if (dtype == DType::i64) return store(static_cast<int64_t*>(nullptr));
    if (dtype == DType::i32) return store(static_cast<int32_t*>(nullptr));
    if (dtype == DType::u8) return store(static_cast<uint8_t*>(nullptr));
    return store(static_cast<bool*>(nullptr));
  } else {
    if (dtype == DType::f64) return store(static_cast<double*>(nullptr));
    if (dtype == DType::f32) return store(static_cast<float*>(nullptr));
    if (dtype == DType::bf16) return store(static_cast<__nv_bfloat16*>(nullptr));
    return store(static_cast<__half*>(nullptr));
  }
}

/// Where the results of a reduction, or of its pieces, are written.
struct Target {
  void* data;
  DType dtype;
  int64_t pieces, piece_stride;  // piece p of a result lies p * piece_stride from it
};

struct RowPlan {
  DeviceShape kept, reduced;
  DeviceStrides kept_strides, y_strides, reduced_strides;
  int64_t rows, length, piece_length;
  int group;  // threads that share a row: 1, a warp or a block
};

/// Calls body(offset), where offset(j) is that of element j of the reduced dimensions. With one stride there
/// is no branch in it, so that several loads can be on their way at once.
template <class Body>
__device__ __forceinline__ void with_offsets(const DeviceShape& shape, const DeviceStrides& strides,
                                             Body&& body) {
  if (shape.rank == 1) {
    const int64_t stride = strides.strides[0];
    body([stride](int64_t j) { return j * stride; });
  } else {
    body([&](int64_t j) { return offset_of(j, shape, strides); });
  }
}

/// Threads `member` of `group` take packs of N in turn from [begin, end).
template <class Op, int N, class E, class Offset>
__device__ Partial<E, Op> reduce_span(const E* x, Offset&& offset, int64_t begin, int64_t end, int member,
                                      int group) {
  using C = ComputeType<E>;
  using P = Partial<E, Op>;
  constexpr int unroll = N > 1 ? 4 : 8;
  const Op op;
  const int64_t step = int64_t(group) * N;
  P total = identity<P, Op>();
  int64_t j = begin + int64_t(member) * N;
  for (; j + (unroll - 1) * step < end; j += unroll * step) {
    Pack<E, N> packs[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) packs[u] = load_pack<N>(x + offset(j + u * step));
    C chain = identity<C, Op>();
#pragma unroll
    for (int u = 0; u < unroll; ++u)
#pragma unroll
      for (int e = 0; e < N; ++e) chain = op(chain, to<C>(packs[u].at[e]));
    total = op(total, P(chain));
  }
  for (; j < end; j += step) {
    const Pack<E, N> pack = load_pack<N>(x + offset(j));
#pragma unroll
    for (int e = 0; e < N; ++e) total = op(total, P(to<C>(pack.at[e])));
  }
  return total;
}

template <class Op, int N, class E>
__global__ void __launch_bounds__(block_threads) reduce_rows_kernel(const E* x, Target y, RowPlan plan) {
  using P = Partial<E, Op>;
  REPRISE_SHARED(P, scratch, [32]);
  const int64_t thread = int64_t(blockIdx.x) * block_threads + threadIdx.x;
  const int64_t task = thread / plan.group;
  if (task >= plan.rows * y.pieces) return;  // a group leaves as one
  const int member = int(threadIdx.x) % plan.group;
  const int64_t row = y.pieces == 1 ? task : task / y.pieces, piece = task - row * y.pieces;
  const auto [x_row, y_row] = offsets_of<2>(row, plan.kept, {plan.kept_strides, plan.y_strides});
  const int64_t begin = piece * plan.piece_length;
  const int64_t end = min(plan.length, begin + plan.piece_length);
  P total;
  if constexpr (N > 1)
    total = reduce_span<Op, N>(
        x + x_row, [](int64_t j) { return j; }, begin, end, member, plan.group);
  else
    with_offsets(plan.reduced, plan.reduced_strides, [&](auto offset) {
      total = reduce_span<Op, N>(x + x_row, offset, begin, end, member, plan.group);
    });
  if (plan.group == warp_threads)
    total = warp_reduce(Op{}, total);
  else if (plan.group == block_threads)
    total = block_reduce(Op{}, total, identity<P, Op>(), scratch);
  if (member == 0) store_number(y.data, y.dtype, y_row + piece * y.piece_stride, total);
}

struct ColumnPlan {
  DeviceShape places, reduced;  // `places` are the kept dimensions but the last
  DeviceStrides place_strides, y_strides, reduced_strides;
  int64_t width, y_stride, rows, piece_rows, column_blocks;
  int64_t blocks;  // of columns, pieces and places together
};

/// One of plan.blocks: thread x takes N neighbouring columns, thread y every blockDim.y-th row of a piece: 64
/// at most.
template <class Op, int N, class E, class P>
__device__ __forceinline__ void reduce_block_of_columns(const E* x, const Target& y, const ColumnPlan& plan,
                                                        int64_t block, P* sums) {
  using C = ComputeType<E>;
  const Op op;
  const int thread = int(threadIdx.y * blockDim.x + threadIdx.x), columns = int(blockDim.x) * N;
  const int64_t block_column = block % plan.column_blocks * columns;
  const int64_t rest = block / plan.column_blocks, piece = rest % y.pieces, place = rest / y.pieces;
  const auto [x_place, y_place] = offsets_of<2>(place, plan.places, {plan.place_strides, plan.y_strides});
  const int64_t column = block_column + int64_t(threadIdx.x) * N;
  const int64_t end = min(plan.rows, (piece + 1) * plan.piece_rows);
  C chains[N];
#pragma unroll
  for (int e = 0; e < N; ++e) chains[e] = identity<C, Op>();
  auto add = [&](const Pack<E, N>& pack) {
#pragma unroll
    for (int e = 0; e < N; ++e) chains[e] = op(chains[e], to<C>(pack.at[e]));
  };
  if (column < plan.width)
    with_offsets(plan.reduced, plan.reduced_strides, [&](auto offset) {
      constexpr int unroll = 4;
      const E* from = x + x_place + column;
      const int64_t step = blockDim.y;
      int64_t row = piece * plan.piece_rows + threadIdx.y;
      for (; row + (unroll - 1) * step < end; row += unroll * step) {
        Pack<E, N> packs[unroll];
#pragma unroll
        for (int u = 0; u < unroll; ++u) packs[u] = load_pack<N>(from + offset(row + u * step));
#pragma unroll
        for (int u = 0; u < unroll; ++u) add(packs[u]);
      }
      for (; row < end; row += step) add(load_pack<N>(from + offset(row)));
    });
#pragma unroll
  for (int e = 0; e < N; ++e) sums[e * block_threads + thread] = P(chains[e]);
  for (int half = block_threads / 2; half >= int(blockDim.x); half /= 2) {
    __syncthreads();
    if (thread < half)
#pragma unroll
      for (int e = 0; e < N; ++e) {
        P& sum = sums[e * block_threads + thread];
        sum = op(sum, sums[e * block_threads + thread + half]);
      }
  }
  __syncthreads();
  if (thread < columns && block_column + thread < plan.width)
    store_number(y.data, y.dtype, y_place + (block_column + thread) * plan.y_stride + piece * y.piece_stride,
                 sums[thread % N * block_threads + thread / N]);
}

template <class Op, int N, class E>
__global__ void __launch_bounds__(block_threads)
    reduce_columns_kernel(const E* x, Target y, ColumnPlan plan) {
  using P = Partial<E, Op>;
  REPRISE_SHARED(P, sums, [N * block_threads]);  // (N, blockDim.y, blockDim.x)
  for (int64_t block = blockIdx.x; block < plan.blocks; block += gridDim.x) {
    reduce_block_of_columns<Op, N>(x, y, plan, block, sums);
    __syncthreads();  // the sums are read before the next block's are written
  }
}

template <class T, class Op>
void reduce_parts(const Stream& stream, const ReductionSplit& parts);

/// Calls launch(target) for y itself if there is one piece; else for partial results, (pieces, ...) or
/// (..., pieces) by `outermost`, and then reduces these.
template <class T, class Op, class Launch>
void reduce_in_pieces(const Stream& stream, const TensorView& y, int64_t pieces, bool outermost,
                      Launch&& launch) {
  using P = Partial<T, Op>;
  if (pieces == 1) return launch(Target{y.data, y.dtype, 1, 0}, y);
  Workspace workspace(stream, size_t(y.numel() * pieces) * sizeof(P));
  Shape shape = outermost ? Shape{pieces} : y.shape;
  for (int dim = 0; outermost && dim < y.rank(); ++dim) shape.push_back(y.shape[dim]);
  if (!outermost) shape.push_back(pieces);
  TensorView all{workspace.as<P>(), shape, contiguous_strides(shape), dtype_of<P>, y.device};
  int dim = outermost ? 0 : y.rank();
  ReductionSplit rest{select(all, dim, 0), all, y};  // y's shape, (pieces), y's shape
  rest.reduced.shape = {pieces};
  rest.reduced.strides = {all.stride(dim)};
  launch(Target{all.data, all.dtype, pieces, all.stride(dim)}, rest.kept);
  reduce_parts<P, Op>(stream, rest);
}

template <class T, class Op>
void reduce_columns(const Stream& stream, const ReductionSplit& parts) {
  const auto& [kept, reduced, y] = parts;
  const int last = kept.rank() - 1;
  const TensorView places = select(kept, last, 0);
  const int64_t width = kept.shape[last], rows = reduced.numel(), outer = places.numel();
  constexpr int pack = std::is_same_v<Op, Sum> && !std::is_integral_v<T> ? pack_size<T> : 1;
  TensorView matrix = join_views(reduced, kept);
  const bool packed = pack > 1 && width % pack == 0 && rows_fit_packs(matrix);
  const int lanes = packed ? pack : 1;
  const int64_t packs = width / lanes;
  const unsigned across = packs > 16 ? 32 : packs > 8 ? 16 : 8, down = block_threads / across;
  const int64_t column_blocks = ceil_div<int64_t>(packs, across);
  const int64_t longest = 64 * down, shortest = 8 * down;  // rows of a piece
  int64_t pieces = ceil_div(rows, longest);
  if (rows > longest || rows * width * outer > int64_t(1) << 17)
    pieces =
        std::max(pieces, std::min(ceil_div(enough_blocks, column_blocks * outer), ceil_div(rows, shortest)));
  const int64_t piece_rows = ceil_div(rows, pieces);
  pieces = ceil_div(rows, piece_rows);
  reduce_in_pieces<T, Op>(stream, y, pieces, true, [&](const Target& target, const TensorView& to_view) {
    ColumnPlan plan{device_shape(places),
                    device_shape(reduced),
                    device_strides(places),
                    device_strides(select(to_view, last, 0)),
                    device_strides(reduced),
                    width,
                    to_view.strides[last],
                    rows,
                    piece_rows,
                    column_blocks,
                    column_blocks * pieces * outer};
    auto run = [&](auto kernel) {
      simt::launch({.name = "reduce_columns",
                    .grid = unsigned(std::min(plan.blocks, most_blocks)),
                    .block = dim3(across, down),
                    .stream = stream},
                   kernel, data_of<T>(kept), target, plan);
    };
    packed ? run(reduce_columns_kernel<Op, pack, Element<T>>) : run(reduce_columns_kernel<Op, 1, Element<T>>);
  });
}

/// Threads for each row: one where rows are short, or where neighbouring rows lie closer than neighbouring
/// elements and are many; else a warp or a block.
inline int threads_of_row(const ReductionSplit& parts, int64_t rows, int64_t length) {
  constexpr int64_t short_row = 16, many_rows = 1 << 15, warp_row = 2048;
  bool rows_are_closer = std::abs(parts.kept.stride(-1)) < std::abs(parts.reduced.stride(-1));
  if (length <= short_row || (rows_are_closer && rows >= many_rows)) return 1;
  return length <= warp_row ? warp_threads : block_threads;
}

template <class T, class Op>
void reduce_rows(const Stream& stream, const ReductionSplit& parts) {
  const auto& [kept, reduced, y] = parts;
  constexpr int64_t least_piece = 8192;
  constexpr int pack = std::is_same_v<Op, Sum> && !std::is_integral_v<T> ? pack_size<T> : 1;
  const int64_t rows = kept.numel(), length = reduced.numel();
  const int group = threads_of_row(parts, rows, length);
  const bool packed = pack > 1 && group > 1 && rows_fit_packs(join_views(kept, reduced)) &&
                      reduced.rank() == 1 && reduced.stride(-1) == 1;
  int64_t pieces = 1, piece_length = length;
  if (group == block_threads && length > least_piece) {
    pieces = std::clamp<int64_t>(enough_blocks / rows, 1, length / least_piece);
    piece_length = ceil_div(ceil_div(length, pieces), least_piece / 4) * (least_piece / 4);
    pieces = ceil_div(length, piece_length);
  }
  reduce_in_pieces<T, Op>(stream, y, pieces, false, [&](const Target& target, const TensorView& to_view) {
    RowPlan plan{device_shape(kept),
                 device_shape(reduced),
                 device_strides(kept),
                 device_strides(to_view),
                 device_strides(reduced),
                 rows,
                 length,
                 piece_length,
                 group};
    auto run = [&](auto kernel) {
      simt::launch({.name = "reduce_rows",
                    .grid = grid_of("reduce_rows", ceil_div<int64_t>(rows * pieces * group, block_threads)),
                    .block = block_threads,
                    .stream = stream},
                   kernel, data_of<T>(kept), target, plan);
    };
    packed ? run(reduce_rows_kernel<Op, pack, Element<T>>) : run(reduce_rows_kernel<Op, 1, Element<T>>);
  });
}

template <class T, class Op>
void reduce_parts(const Stream& stream, const ReductionSplit& given) {
  constexpr int64_t least_width = 8;  // narrower rows are better read down each column
  ReductionSplit parts = given;
  simplify(parts);
  const bool columns = parts.kept.stride(-1) == 1 && parts.kept.size(-1) >= least_width;
  if (columns && parts.reduced.numel() > 1)
    reduce_columns<T, Op>(stream, parts);
  else
    reduce_rows<T, Op>(stream, parts);
}

void reduce_cuda(const Stream& stream, ReduceOp op, const TensorView& x, const TensorView& y) {
  check_reduction(op, x, y);
  if (y.numel() == 0) return;
  check(op == ReduceOp::sum || x.numel() > 0, "reduce: max and min of nothing: x is ", x.shape, ", y ",
        y.shape);
  const ReductionSplit parts = split_reduction(x, y);
  dispatch_all(x.dtype, [&]<class T>() {
    switch (op) {
      case ReduceOp::sum:
        return reduce_parts<T, Sum>(stream, parts);
      case ReduceOp::max:
        return reduce_parts<T, Max>(stream, parts);
      case ReduceOp::min:
        return reduce_parts<T, Min>(stream, parts);
    }
  });
}

/// A number and where it was found; `at` < 0 is "none yet".
template <class C>
struct Found {
  C value;
  int64_t at;
};

/// The larger; of equals the one that comes first. NaN is largest.
template <class C>
__device__ __forceinline__ Found<C> larger(Found<C> a, Found<C> b) {
  if (a.at < 0 || b.at < 0) return a.at < 0 ? b : a;
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  if (a.value == b.value || (a_nan && b_nan)) return a.at < b.at ? a : b;
  return a_nan || a.value > b.value ? a : b;
}

template <class C>
__device__ __forceinline__ Found<C> warp_largest(Found<C> best) {
#pragma unroll
  for (int offset = warp_threads / 2; offset > 0; offset /= 2)
    best = larger(best, Found<C>{__shfl_xor_sync(full_warp, best.value, offset),
                                 __shfl_xor_sync(full_warp, best.at, offset)});
  return best;
}

struct ArgmaxPlan {
  DeviceShape leading;
  DeviceStrides x_strides, y_strides;
  int64_t rows, length, x_stride;
  int group;  // threads that share a row: a warp or a block
};

/// y[i] = the first j with the largest x[i, j].  Bytes: x is read once.
template <class E>
__global__ void __launch_bounds__(block_threads) argmax_kernel(const E* x, int64_t* y, ArgmaxPlan plan) {
  using C = ComputeType<E>;
  constexpr int warps = block_threads / warp_threads;
  REPRISE_SHARED(C, values, [warps]);
  REPRISE_SHARED(int64_t, places, [warps]);
  const int64_t row = (int64_t(blockIdx.x) * block_threads + threadIdx.x) / plan.group;
  if (row >= plan.rows) return;  // a group leaves as one
  const int member = int(threadIdx.x) % plan.group, warp = member / warp_threads;
  const auto [x_row, y_row] = offsets_of<2>(row, plan.leading, {plan.x_strides, plan.y_strides});
  Found<C> best{C(0), -1};
#pragma unroll 4
  for (int64_t j = member; j < plan.length; j += plan.group)
    best = larger(best, Found<C>{to<C>(x[x_row + j * plan.x_stride]), j});
  best = warp_largest(best);
  if (plan.group == block_threads) {
    if (member % warp_threads == 0) values[warp] = best.value, places[warp] = best.at;
    __syncthreads();
    for (int other = 0; member == 0 && other < warps; ++other)
      best = larger(best, Found<C>{values[other], places[other]});
  }
  if (member == 0) y[y_row] = best.at;
}

void argmax_cuda(const Stream& stream, const TensorView& x, const TensorView& y) {
  check_argmax(x, y);
  if (y.numel() == 0) return;
  constexpr int64_t warp_row = 1024;
  const int last = x.rank() - 1;
  std::array<TensorView, 2> leading = {select(x, last, 0), select(y, last, 0)};
  collapse(leading);
  ArgmaxPlan plan{device_shape(leading[0]),
                  device_strides(leading[0]),
                  device_strides(leading[1]),
                  y.numel(),
                  x.shape.back(),
                  x.stride(-1),
                  warp_threads};
  if (plan.length > warp_row) plan.group = block_threads;
  dispatch_all(x.dtype, [&]<class T>() {
    simt::launch({.name = "argmax",
                  .grid = grid_of("argmax", ceil_div<int64_t>(plan.rows * plan.group, block_threads)),
                  .block = block_threads,
                  .stream = stream},
                 argmax_kernel<Element<T>>, data_of<T>(x), y.as<int64_t>(), plan);
  });
}

const OnCuda reduce_on_cuda{reduce, reduce_cuda};
const OnCuda argmax_on_cuda{argmax, argmax_cuda};

}  // namespace
}  // namespace reprise::kernels
