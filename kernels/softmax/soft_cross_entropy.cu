// Softmax cross-entropy against probabilities on CUDA, loss and gradient in one kernel (soft_cross_entropy.h has the
// formula). Moves the logits, their gradient and the targets once, for V up to 16,384 kept in registers; the targets,
// which may be of another type than the logits, number by number.
#include "reprise/kernels/softmax/soft_cross_entropy.h"

#include "reprise/kernels/softmax/row.cuh"

namespace reprise::kernels {
namespace {

using namespace device;

template <class T, class Q, class C>
struct Arguments {
  Rows<T> logits, dlogits;  ///< dlogits is optional and may be the logits
  Rows<Q> targets;
  C* losses;
  int64_t loss_stride, rows, width;
  C share, uniform, scale;  ///< 1 - smoothing, smoothing / V
  const C* dy;              ///< optional
  int64_t dy_stride;
};

template <class Cut, class T, class Q>
__global__ void __launch_bounds__(Cut::max_block, Cut::min_blocks)
    soft_cross_entropy_kernel(Arguments<T, Q, typename Cut::C> p) {
  using C = typename Cut::C;
  REPRISE_SHARED(C, scratch, [2 * warp_threads]);
  const typename Cut::Team team(scratch);
  for (int64_t row = team.first_row(); row < p.rows; row += team.row_step()) {
    const Row<T, Cut> x(team, p.logits.at(row), p.width);
    const Q* targets = p.targets.at(row);
    // Sums with products are written out: the kernels of all types of probabilities have the same bits.
    auto probability = [&](int64_t j) { return std::fma(p.share, to<C>(targets[j]), p.uniform); };
    const Exponentials<C> e = exponentials_of(team, x, p.width);
    const C log_sum = std::log(e.sum);
    C sums[2] = {0, 0};  // of q, and of the loss
    each_pack<Cut>(team, p.width, [&](int k, int64_t j) {
      const Numbers<C, Cut::N> value = x(k, j);
#pragma unroll
      for (int i = 0; i < Cut::N; ++i) {
        const C q = probability(j + i);
        sums[0] += q;
        if (q != C(0)) sums[1] = std::fma(q, log_sum - (value.at[i] - e.max), sums[1]);
      }
    });
    team.reduce(Sum{}, sums, C(0));
    if (team.thread() == 0) p.losses[row * p.loss_stride] = sums[1];
    if (!p.dlogits) continue;
    T* dx = p.dlogits.at(row);
    const C factor = p.scale * sums[0] / e.sum, dy = p.dy ? p.dy[row * p.dy_stride] : C(1);
    each_pack_backwards<Cut>(team, p.width, [&](int k, int64_t j) {
      Numbers<C, Cut::N> value = x(k, j);
#pragma unroll
      for (int i = 0; i < Cut::N; ++i)
        value.at[i] = std::fma(-p.scale, probability(j + i), exp_below(value.at[i] - e.max) * factor) * dy;
      x.store(dx, j, pack_of<T>(value));
    });
  }
}

template <class T, class Q>
void run(const Stream& stream, const SoftCrossEntropyArguments& v) {
  using C = Accumulator<T>;
  const int64_t rows = v.logits.size(0), width = v.logits.size(1);
  const Arguments<Element<T>, Element<Q>, C> arguments = {.logits = rows_at<T>(v.logits),
                                                          .dlogits = rows_at<T>(v.dlogits),
                                                          .targets = rows_at<Q>(v.targets),
                                                          .losses = v.losses.as<C>(),
                                                          .loss_stride = v.losses.stride(0),
                                                          .rows = rows,
                                                          .width = width,
                                                          .share = C(1 - v.label_smoothing),
                                                          .uniform = C(v.label_smoothing / double(width)),
                                                          .scale = C(v.scale),
                                                          .dy = data_of<C>(v.dy),
                                                          .dy_stride = v.dy ? v.dy.stride(0) : 0};
  dispatch_rows<T, kRowColumns>(
      rows, width, fit_of({&v.logits, &v.dlogits}), [&]<class Cut>(const RowGrid& grid) {
        simt::launch({.name = "soft_cross_entropy", .grid = grid.grid, .block = grid.block, .stream = stream},
                     soft_cross_entropy_kernel<Cut, Element<T>, Element<Q>>, arguments);
      });
}

void soft_cross_entropy_cuda(const Stream& stream, const SoftCrossEntropyArguments& v) {
  check_soft_cross_entropy(v);
  if (v.logits.size(0) == 0) return;
  dispatch_floating(v.logits.dtype, "soft_cross_entropy", [&]<class T>() {
    dispatch_floating(v.targets.dtype, "soft_cross_entropy", [&]<class Q>() {
      if constexpr (std::is_same_v<Accumulator<Q>, Accumulator<T>>) run<T, Q>(stream, v);
    });
  });
}

const OnCuda soft_cross_entropy_on_cuda{soft_cross_entropy, soft_cross_entropy_cuda};

}  // namespace
}  // namespace reprise::kernels
