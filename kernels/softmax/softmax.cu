// Softmax and log-softmax on CUDA, and their gradients. Forward moves x and y once, 2 * rows * width
// elements, backward dy, y and dx, 3 * rows * width, where rows stay in registers (cuda/rows.cuh); other
// rows are read a second time.
#include "reprise/kernels/softmax/softmax.h"

#include <array>

#include "reprise/kernels/softmax/row.cuh"

namespace reprise::kernels {
namespace {

using namespace device;

enum class Kind { softmax, log_softmax };

// y = exp(x - max) / sum, or x - max - log(sum)
template <Kind kind, class Cut, class T>
__global__ void __launch_bounds__(Cut::max_block, Cut::min_blocks)
    softmax_kernel(Rows<T> x, Rows<T> y, int64_t rows, int64_t width) {
  using C = typename Cut::C;
  REPRISE_SHARED(C, scratch, [2 * warp_threads]);
  const typename Cut::Team team(scratch);
  for (int64_t row = team.first_row(); row < rows; row += team.row_step()) {
    const Row<T, Cut> from(team, x.at(row), width);
    const Exponentials<C> e = exponentials_of(team, from, width);
    const C factor = C(1) / e.sum, log_sum = std::log(e.sum);
    const Pointer<T> to = y.at(row);
    each_pack_backwards<Cut>(team, width, [&](int k, int64_t j) {
      Numbers<C, Cut::N> value = from(k, j);
#pragma unroll
      for (int i = 0; i < Cut::N; ++i) {
        const C below = value.at[i] - e.max;
        value.at[i] = kind == Kind::softmax ? exp_below(below) * factor : below - log_sum;
      }
      store_pack(to + j, pack_of<T>(value));
    });
  }
}

// dx = y (dy - sum(dy y)), or dy - exp(y) sum(dy)
template <Kind kind, class Cut, class T>
__global__ void __launch_bounds__(Cut::max_block, Cut::min_blocks)
    softmax_backward_kernel(Rows<T> dy, Rows<T> y, Rows<T> dx, int64_t rows, int64_t width) {
  using C = typename Cut::C;
  REPRISE_SHARED(C, scratch, [2 * warp_threads]);
  const typename Cut::Team team(scratch);
  for (int64_t row = team.first_row(); row < rows; row += team.row_step()) {
    const Row<T, Cut> gradient(team, dy.at(row), width), result(team, y.at(row), width);
    C sum[1] = {};
    each_pack<Cut>(team, width, [&](int k, int64_t j) {
      const Numbers<C, Cut::N> g = gradient(k, j), r = result(k, j);
#pragma unroll
      for (int i = 0; i < Cut::N; ++i)
        sum[0] = kind == Kind::softmax ? multiply_add(g.at[i], r.at[i], sum[0]) : sum[0] + g.at[i];
    });
    team.reduce(Sum{}, sum, C(0));
    const Pointer<T> to = dx.at(row);
    each_pack_backwards<Cut>(team, width, [&](int k, int64_t j) {
      Numbers<C, Cut::N> g = gradient(k, j);
      const Numbers<C, Cut::N> r = result(k, j);
#pragma unroll
      for (int i = 0; i < Cut::N; ++i)
        g.at[i] = kind == Kind::softmax ? r.at[i] * (g.at[i] - sum[0])
                                        : multiply_add(-exp_below(r.at[i]), sum[0], g.at[i]);
      store_pack(to + j, pack_of<T>(g));
    });
  }
}

template <Kind kind>
void forward(const Stream& stream, const char* op, const TensorView& x, const TensorView& y) {
  const std::array views = {&x, &y};
  check_same_rows(op, x, views);
  dispatch_row_type(op, views, [&]<class T>() {
    const int64_t rows = rows_of(x), width = x.size(-1);
    if (rows == 0) return;
    dispatch_rows<T, kRowColumns>(rows, width, fit_of_rows<T>(views), [&]<class Cut>(const RowGrid& grid) {
      simt::launch({.name = op, .grid = grid.grid, .block = grid.block, .stream = stream},
                   softmax_kernel<kind, Cut, Element<T>>, rows_at<T>(x), rows_at<T>(y), rows, width);
    });
  });
}

template <Kind kind>
void backward(const Stream& stream, const char* op, const TensorView& dy, const TensorView& y,
              const TensorView& dx) {
  const std::array views = {&dy, &y, &dx};
  check_same_rows(op, dy, views);
  dispatch_row_type(op, views, [&]<class T>() {
    const int64_t rows = rows_of(dy), width = dy.size(-1);
    if (rows == 0) return;
    dispatch_rows<T, kGradientColumns>(
        rows, width, fit_of_rows<T>(views), [&]<class Cut>(const RowGrid& grid) {
          simt::launch({.name = op, .grid = grid.grid, .block = grid.block, .stream = stream},
                       softmax_backward_kernel<kind, Cut, Element<T>>, rows_at<T>(dy), rows_at<T>(y),
                       rows_at<T>(dx), rows, width);
        });
  });
}

void softmax_cuda(const Stream& stream, const TensorView& x, const TensorView& y) {
  forward<Kind::softmax>(stream, "softmax", x, y);
}
void log_softmax_cuda(const Stream& stream, const TensorView& x, const TensorView& y) {
  forward<Kind::log_softmax>(stream, "log_softmax", x, y);
}
void softmax_backward_cuda(const Stream& stream, const TensorView& dy, const TensorView& y,
                           const TensorView& dx) {
  backward<Kind::softmax>(stream, "softmax_backward", dy, y, dx);
}
void log_softmax_backward_cuda(const Stream& stream, const TensorView& dy, const TensorView& y,
                               const TensorView& dx) {
  backward<Kind::log_softmax>(stream, "log_softmax_backward", dy, y, dx);
}

const OnCuda softmax_on_cuda{softmax, softmax_cuda};
const OnCuda log_softmax_on_cuda{log_softmax, log_softmax_cuda};
const OnCuda softmax_backward_on_cuda{softmax_backward, softmax_backward_cuda};
const OnCuda log_softmax_backward_on_cuda{log_softmax_backward, log_softmax_backward_cuda};

}  // namespace
}  // namespace reprise::kernels
