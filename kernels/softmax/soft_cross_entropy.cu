// Softmax cross-entropy against probabilities on CUDA, loss and gradient in one kernel (soft_cross_entropy.h has the
// formula). Moves the logits, their gradient and the targets once, for V up to 16,384 kept in registers; the targets,
// which may be of another type than the logits, number by number.
#include "reprise/kernels/softmax/soft_cross_entropy.h"

#include "reprise/kernels/softmax/row.cuh"

namespace reprise::kernels {
namespace {

using namespace device;

/// Rows of f64 for a C of f64, else of f32 or 16 bits.
template <class C>
struct Probabilities {
  const void* data;
  DType dtype;
  int64_t stride;

  /// Calls body(numbers) with the type that they have: a branch for each number would take registers that rows need.
  template <class Body>
  __device__ __forceinline__ void at(int64_t row, const Body& body) const {
    if constexpr (std::is_same_v<C, double>)
      body(start_of<double>(row));
    else if (dtype == DType::f32)
      body(start_of<float>(row));
    else if (dtype == DType::bf16)
      body(start_of<__nv_bfloat16>(row));
    else
      body(start_of<__half>(row));
  }

 private:
  template <class Q>
  __device__ const Q* start_of(int64_t row) const {
    return static_cast<const Q*>(data) + row * stride;
  }
};

template <class T, class C>
struct Arguments {
  Rows<T> logits, dlogits;  ///< dlogits is optional and may be the logits
  Probabilities<C> targets;
  C* losses;
  int64_t loss_stride, rows, width;
  C share, uniform, scale;  ///< 1 - smoothing, smoothing / V
  const C* dy;              ///< optional
  int64_t dy_stride;
};

template <class Cut, class T>
__global__ void __launch_bounds__(Cut::max_block, Cut::min_blocks)
    soft_cross_entropy_kernel(Arguments<T, typename Cut::C> p) {
  using C = typename Cut::C;
  REPRISE_SHARED(C, scratch, [2 * warp_threads]);
  const typename Cut::Team team(scratch);
  for (int64_t row = team.first_row(); row < p.rows; row += team.row_step()) {
    const Row<T, Cut> x(team, p.logits.at(row), p.width);
    const Exponentials<C> e = exponentials_of(team, x, p.width);
    const C log_sum = std::log(e.sum);
    p.targets.at(row, [&](const auto* targets) {
      C sums[2] = {0, 0};  // of q, and of the loss
      each_pack<Cut>(team, p.width, [&](int k, int64_t j) {
        const Numbers<C, Cut::N> value = x(k, j);
#pragma unroll
        for (int i = 0; i < Cut::N; ++i) {
          const C q = p.share * to<C>(targets[j + i]) + p.uniform;
          sums[0] += q;
          sums[1] += q != C(0) ? q * (log_sum - (value.at[i] - e.max)) : C(0);
        }
      });
      team.reduce(Sum{}, sums, C(0));
      if (team.thread() == 0) p.losses[row * p.loss_stride] = sums[1];
      if (!p.dlogits) return;
      T* dx = p.dlogits.at(row);
      const C factor = p.scale * sums[0] / e.sum, dy = p.dy ? p.dy[row * p.dy_stride] : C(1);
      each_pack_backwards<Cut>(team, p.width, [&](int k, int64_t j) {
        Numbers<C, Cut::N> value = x(k, j);
#pragma unroll
        for (int i = 0; i < Cut::N; ++i) {
          const C q = p.share * to<C>(targets[j + i]) + p.uniform;
          value.at[i] = (exp_below(value.at[i] - e.max) * factor - p.scale * q) * dy;
        }
        x.store(dx, j, pack_of<T>(value));
      });
    });
  }
}

void soft_cross_entropy_cuda(const Stream& stream, const SoftCrossEntropyArguments& v) {
  check_soft_cross_entropy(v);
  const int64_t rows = v.logits.size(0), width = v.logits.size(1);
  if (rows == 0) return;
  dispatch_floating(v.logits.dtype, "soft_cross_entropy", [&]<class T>() {
    using C = Accumulator<T>;
    const Arguments<Element<T>, C> arguments = {
        .logits = rows_at<T>(v.logits),
        .dlogits = rows_at<T>(v.dlogits),
        .targets = {v.targets.data, v.targets.dtype, v.targets.stride(0)},
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
          simt::launch(
              {.name = "soft_cross_entropy", .grid = grid.grid, .block = grid.block, .stream = stream},
              soft_cross_entropy_kernel<Cut, Element<T>>, arguments);
        });
  });
}

const OnCuda soft_cross_entropy_on_cuda{soft_cross_entropy, soft_cross_entropy_cuda};

}  // namespace
}  // namespace reprise::kernels
