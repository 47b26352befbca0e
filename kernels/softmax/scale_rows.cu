// Rows times a number each on CUDA (scale_rows.h). Moves 2 * N * V elements; in place, none where the factor is 1.
#include "reprise/kernels/softmax/scale_rows.h"

#include "reprise/kernels/cuda/rows.cuh"
#include "reprise/simt/simt.h"

namespace reprise::kernels {
namespace {

using namespace device;

template <class T, class C>
struct Arguments {
  Rows<T> x, y;
  const C* factors;
  int64_t factor_stride, rows, width;
  bool in_place;
};

template <class Cut, class T>
__global__ void __launch_bounds__(Cut::max_block, Cut::min_blocks)
    scale_rows_kernel(Arguments<T, typename Cut::C> p) {
  using C = typename Cut::C;
  const typename Cut::Team team(nullptr);  // it shares a row, and no sums
  for (int64_t row = team.first_row(); row < p.rows; row += team.row_step()) {
    const C factor = p.factors[row * p.factor_stride];
    if (factor == C(1) && p.in_place) continue;
    const int shift = shift_of<Cut>(p.x.at(row));
    const int64_t end = p.width + shift;  // from the boundary before the row on
    const Row<T, Cut> x(team, p.x.at(row) - shift, end, shift);
    T* y = p.y.at(row) - shift;
    each_pack<Cut>(team, end, [&](int k, int64_t j) {
      Numbers<C, Cut::N> value = x(k, j);
#pragma unroll
      for (int i = 0; i < Cut::N; ++i) value.at[i] *= factor;
      x.store(y, j, pack_of<T>(value));
    });
  }
}

void scale_rows_cuda(const Stream& stream, const TensorView& x, const TensorView& factors,
                     const TensorView& y) {
  check_scale_rows(x, factors, y);
  const int64_t rows = x.size(0), width = x.size(1);
  if (x.numel() == 0) return;
  dispatch_floating(x.dtype, "scale_rows", [&]<class T>() {
    using C = Accumulator<T>;
    const Arguments<Element<T>, C> arguments = {.x = rows_at<T>(x),
                                                .y = rows_at<T>(y),
                                                .factors = factors.as<C>(),
                                                .factor_stride = factors.stride(0),
                                                .rows = rows,
                                                .width = width,
                                                .in_place = x.data == y.data};
    dispatch_rows<T, kRowColumns, true>(rows, width, fit_of({&x, &y}), [&]<class Cut>(const RowGrid& grid) {
      simt::launch({.name = "scale_rows", .grid = grid.grid, .block = grid.block, .stream = stream},
                   scale_rows_kernel<Cut, Element<T>>, arguments);
    });
  });
}

const OnCuda scale_rows_on_cuda{scale_rows, scale_rows_cuda};

}  // namespace
}  // namespace reprise::kernels
