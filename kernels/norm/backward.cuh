// The backward pass of layer norm (centred) and RMS norm. With h = (x - mean) rstd and g = dy gamma:
//   dx = rstd (g - mean(g) - h mean(g h)),  dgamma = sum over rows of dy h,  dbeta = sum over rows of dy
// (RMS norm: without the means of x and g.) With an addend, dx is rounded, added to it and rounded again.
// Moves dy, x and dx once, 3 * rows * width elements, and an addend once, where rows stay in registers: each
// thread also sums dgamma and dbeta of its columns over the rows of its team, each block writes a partial row,
// and add_pieces adds those. Other rows are read again, by one kernel for the parameters and one for dx.
#pragma once

#include "reprise/kernels/norm/forward.cuh"

namespace reprise::kernels::device {

template <class T, class C>
struct NormBackward {
  Rows<T> dy, x, dx, addend;  ///< the last two are optional
  const C* gamma;             ///< (width), null for 1
  const C *mean, *rstd;
  C* partials;  ///< (pieces, outputs, width), optional
  int64_t rows, width;
};

/// Gradients of gamma and, where centred, of beta.
template <bool centred>
inline constexpr int norm_outputs = centred ? 2 : 1;

/// The sums of one thread for its columns, kept over all rows of its team.
template <bool centred, class Cut>
struct ColumnSums {
  Numbers<typename Cut::C, Cut::N> at[norm_outputs<centred>][std::max(Cut::K, 1)] = {};
};

/// Writes the partial row of this block, adding the teams' sums in order.
template <bool centred, class Cut>
__device__ __forceinline__ void write_partials(const typename Cut::Team& team,
                                               const ColumnSums<centred, Cut>& sums, typename Cut::C* shared,
                                               typename Cut::C* partials, int64_t width) {
  using C = typename Cut::C;
  constexpr int outputs = norm_outputs<centred>;
  C* out = partials + int64_t(blockIdx.x) * outputs * width;                              // (outputs, width)
  C* mine = Cut::Team::is_warp ? shared + int64_t(team.index()) * outputs * width : out;  // (outputs, width)
  each_pack<Cut>(team, width, [&](int k, int64_t j) {
#pragma unroll
    for (int output = 0; output < outputs; ++output)
#pragma unroll
      for (int i = 0; i < Cut::N; ++i) mine[output * width + j + i] = sums.at[output][k].at[i];
  });
  if constexpr (Cut::Team::is_warp) {
    __syncthreads();
    for (int column = int(threadIdx.x); column < outputs * int(width); column += int(blockDim.x)) {
      C sum = 0;
      for (int other = 0; other < team.teams(); ++other) sum += shared[other * outputs * int(width) + column];
      out[column] = sum;
    }
  }
}

/// a + b in one rounding of its own: fused with a product before it, it would have other bits than an addition afterwards.
__device__ __forceinline__ float add_alone(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ double add_alone(double a, double b) { return __dadd_rn(a, b); }

/// The numbers at `addend` plus a pack of those that `into` is to hold, rounded as it holds them.
template <class T, class E, int N>
__device__ __forceinline__ Pack<E, N> added(const Pointer<T>& addend, Pack<E, N> pack,
                                            const Pointer<T>& into) {
  if constexpr (std::is_same_v<T, AnyFloat>) pack = into.as_stored(pack);
  const Pack<E, N> others = load_pack<N>(addend);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    using C = std::conditional_t<std::is_same_v<E, double>, double, float>;
    pack.at[i] = from<E>(add_alone(to<C>(others.at[i]), to<C>(pack.at[i])));
  }
  return pack;
}

/// Blocks of a multiprocessor: as many as leave registers enough for the sums and the rows of a thread.
template <class Cut>
inline constexpr int norm_backward_blocks =
    !Cut::Team::is_warp || Cut::K == 0 ? 1 : (Cut::K * Cut::N <= 24 ? 4 : 3);

template <bool centred, class Cut, class T>
__global__ void __launch_bounds__(Cut::max_block, norm_backward_blocks<Cut>)
    norm_backward_kernel(NormBackward<T, typename Cut::C> p) {
  using C = typename Cut::C;
  REPRISE_SHARED(C, scratch, [2 * warp_threads]);
  REPRISE_DYNAMIC_SHARED(bytes);
  const typename Cut::Team team(scratch);
  ColumnSums<centred, Cut> columns;
  for (int64_t row = team.first_row(); row < p.rows; row += team.row_step()) {
    const Row<T, Cut> dy(team, p.dy.at(row), p.width), x(team, p.x.at(row), p.width);
    const C mean = centred ? p.mean[row] : C(0), rstd = p.rstd[row];
    C sums[norm_outputs<centred>] = {};  // of g h; of g
    each_pack<Cut>(team, p.width, [&](int k, int64_t j) {
      const Numbers<C, Cut::N> d = dy(k, j), value = x(k, j);
      const Numbers<C, Cut::N> scale = parameter_at<Cut::N>(p.gamma, j, C(1));
#pragma unroll
      for (int i = 0; i < Cut::N; ++i) {
        const C h = (value.at[i] - mean) * rstd;
        sums[0] = multiply_add(d.at[i] * scale.at[i], h, sums[0]);
        if constexpr (centred) sums[1] = multiply_add(d.at[i], scale.at[i], sums[1]);
        if constexpr (Cut::K > 0) columns.at[0][k].at[i] = multiply_add(d.at[i], h, columns.at[0][k].at[i]);
        if constexpr (Cut::K > 0 && centred) columns.at[1][k].at[i] += d.at[i];
      }
    });
    if (!p.dx) continue;
    team.reduce(Sum{}, sums, C(0));
    const C mean_gh = sums[0] / C(p.width);
    C mean_g = 0;
    if constexpr (centred) mean_g = sums[1] / C(p.width);
    const Pointer<T> dx = p.dx.at(row);
    each_pack<Cut>(team, p.width, [&](int k, int64_t j) {
      Numbers<C, Cut::N> d = dy(k, j);
      const Numbers<C, Cut::N> value = x(k, j), scale = parameter_at<Cut::N>(p.gamma, j, C(1));
#pragma unroll
      for (int i = 0; i < Cut::N; ++i) {
        const C h = (value.at[i] - mean) * rstd;
        d.at[i] = multiply_add(-h, mean_gh, multiply_add(d.at[i], scale.at[i], -mean_g)) * rstd;
      }
      Pack<Kept<T>, Cut::N> pack = pack_of<T>(d);
      if (p.addend) pack = added<T>(p.addend.at(row) + j, pack, dx);
      store_pack(dx + j, pack);
    });
  }
  if constexpr (Cut::K > 0)
    if (p.partials) write_partials(team, columns, reinterpret_cast<C*>(bytes), p.partials, p.width);
}

/// Partial rows alone: piece blockIdx.y of the rows, a thread per column and every 8th row.
template <bool centred, class C, class T>
__global__ void __launch_bounds__(256) norm_columns_kernel(NormBackward<T, C> p) {
  constexpr int outputs = norm_outputs<centred>;
  REPRISE_SHARED(C, sums, [8][outputs][32]);
  const int lane = int(threadIdx.x), slice = int(threadIdx.y);
  const int64_t column = int64_t(blockIdx.x) * 32 + lane;
  C sum[outputs] = {};
  if (column < p.width)
    for (int64_t row = int64_t(blockIdx.y) * 8 + slice; row < p.rows; row += int64_t(gridDim.y) * 8) {
      const C d = to<C>(p.dy.at(row)[column]);
      const C mean = centred ? p.mean[row] : C(0);
      const C h = (to<C>(p.x.at(row)[column]) - mean) * p.rstd[row];
      sum[0] = multiply_add(d, h, sum[0]);
      if constexpr (centred) sum[1] += d;
    }
#pragma unroll
  for (int output = 0; output < outputs; ++output) sums[slice][output][lane] = sum[output];
  __syncthreads();
  if (slice >= outputs || column >= p.width) return;
  C total = 0;
  for (int other = 0; other < 8; ++other) total += sums[other][slice][lane];
  p.partials[(int64_t(blockIdx.y) * outputs + slice) * p.width + column] = total;
}

/// Partial rows: the 132 multiprocessors of an H200 times the blocks that each holds, so that all run at
/// once.
inline int64_t most_pieces(int64_t width) {
  return width > kWarpRows[2] && width <= kWidestWarpRow ? 396 : 528;
}

/// Launches what computes dx and the partial rows, which `p.partials` has memory for.
template <bool centred, class Cut, class T>
void launch_norm_backward(const Stream& stream, const char* name, NormBackward<T, typename Cut::C> p,
                          const RowGrid& grid, int64_t pieces) {
  using C = typename Cut::C;
  simt::Launch launch{.name = name, .grid = grid.grid, .block = grid.block, .stream = stream};
  if constexpr (Cut::K > 0) {
    if (p.partials) {
      launch.grid = unsigned(pieces);
      if (Cut::Team::is_warp)
        launch.shared_bytes =
            size_t(grid.block.x / warp_threads * norm_outputs<centred> * p.width) * sizeof(C);
    }
  } else if (p.partials) {  // before dx, which may lie over dy
    dim3 tiles(unsigned(ceil_div(p.width, int64_t(32))), unsigned(pieces));
    simt::launch({.name = name, .grid = tiles, .block = dim3(32, 8), .stream = stream},
                 norm_columns_kernel<centred, C, T>, p);
    if (!p.dx) return;
  }
  simt::launch(launch, norm_backward_kernel<centred, Cut, T>, p);
}

/// Checked views; mean and dbeta are absent for RMS norm.
template <bool centred, class T>
void norm_backward(const Stream& stream, const char* name, const NormBackwardArguments& v) {
  using E = Element<T>;
  using C = Accumulator<T>;
  constexpr int outputs = norm_outputs<centred>;
  const int64_t rows = rows_of(v.x), width = v.x.size(-1);
  const bool sums = v.dgamma || v.dbeta;
  if (width == 0 || (!sums && (rows == 0 || !v.dx))) return;
  // Four rows for each team. The number of pieces depends on the shape alone, and so do the bits of the sums.
  const int64_t rows_a_piece = width <= kWidestWarpRow ? 16 : 4;
  const int64_t pieces = std::min(ceil_div(rows, rows_a_piece), most_pieces(width));
  Workspace workspace(stream, sums ? size_t(pieces * outputs * width) * sizeof(C) : 0);
  if (rows > 0) {
    ParameterRow<C> gamma(stream, v.gamma, width);
    NormBackward<E, C> p = {rows_at<T>(v.dy),
                            rows_at<T>(v.x),
                            rows_at<T>(v.dx),
                            rows_at<T>(v.addend),
                            gamma.data(),
                            data_of<C>(v.mean),
                            data_of<C>(v.rstd),
                            sums ? workspace.as<C>() : nullptr,
                            rows,
                            width};
    dispatch_rows<T, kGradientColumns>(rows, width, fit_of_rows<T>(rows_of_norm(v)),
                                       [&]<class Cut>(const RowGrid& grid) {
                                         launch_norm_backward<centred, Cut>(stream, name, p, grid, pieces);
                                       });
  }
  if (sums) add_pieces(stream, workspace.as<C>(), pieces, width, v.dgamma, centred ? &v.dbeta : nullptr);
}

}  // namespace reprise::kernels::device
