// Softmax cross-entropy on CUDA, loss and gradient in one kernel (cross_entropy.h has the formula). Moves the
// logits and their gradient once, 2 * N * V elements, for V up to 16,384, kept in registers; longer rows,
// such as GPT-2's 50,304, are read a second time, last columns first, from the cache that still holds them.
// Two exponentials an element.
#include "reprise/kernels/softmax/cross_entropy.h"

#include "reprise/kernels/softmax/row.cuh"
#include "reprise/simt/device_errors.h"

namespace reprise::kernels {
namespace {

using namespace device;

const cuda::ErrorCode target_outside("cross_entropy: target {value} in row {row} is outside [0, {limit})");

template <class T, class C>
struct Arguments {
  Rows<T> logits, dlogits;  ///< dlogits is optional and may be the logits
  const int64_t* targets;
  C* losses;
  int64_t target_stride, loss_stride;
  int64_t rows, width, ignore_index;
  C smoothing;
  const double* scale;  ///< optional
  double* log_sums;     ///< optional
  cuda::ErrorSlot* errors;
  int error_code;
};

template <class Cut, class T>
__device__ __forceinline__ void clear_row(const typename Cut::Team& team, T* dx, int64_t width) {
  using C = typename Cut::C;
  if constexpr (Cut::shifted)
    for (int64_t j = team.thread(); j < width; j += team.threads()) dx[j] = from<T>(C(0));
  else
    each_pack<Cut>(team, width,
                   [&](int, int64_t j) { store_pack(dx + j, pack_of<T>(Numbers<C, Cut::N>{})); });
}

/// A row without a target that counts: no gradient; no loss if ignored, else NaN, and an error.
template <class Cut, class T>
__device__ __forceinline__ void skip_row(const typename Cut::Team& team,
                                         const Arguments<T, typename Cut::C>& p, int64_t row,
                                         int64_t target) {
  using C = typename Cut::C;
  if (team.thread() == 0) {
    const bool ignored = target == p.ignore_index;
    p.losses[row * p.loss_stride] = ignored ? C(0) : std::numeric_limits<C>::quiet_NaN();
    if (p.log_sums) p.log_sums[row] = 0;
    if (!ignored) cuda::report_error(p.errors, p.error_code, row, target, p.width);
  }
  if (p.dlogits) clear_row<Cut>(team, p.dlogits.at(row), p.width);
}

template <class Cut, class T>
__global__ void __launch_bounds__(Cut::max_block, Cut::min_blocks)
    cross_entropy_kernel(Arguments<T, typename Cut::C> p) {
  using C = typename Cut::C;
  REPRISE_SHARED(C, scratch, [2 * warp_threads]);
  const typename Cut::Team team(scratch);
  const C scale = p.scale ? C(*p.scale) : C(1);
  for (int64_t row = team.first_row(); row < p.rows; row += team.row_step()) {
    const int64_t target = p.targets[row * p.target_stride];
    if (target == p.ignore_index || target < 0 || target >= p.width) {
      skip_row<Cut>(team, p, row, target);
      continue;
    }
    const int shift = shift_of<Cut>(p.logits.at(row));
    const int64_t end = p.width + shift, column = target + shift;  // from the boundary before the row on
    const T* logits = p.logits.at(row) - shift;
    const Row<T, Cut> x(team, logits, end, shift);
    const Exponentials<C> e = exponentials_of(team, x, end, p.smoothing > C(0));
    const C uniform = p.smoothing / C(p.width), log_sum = std::log(e.sum);
    // The thread whose column the target is reads its logit here, before it may write over it.
    const bool owns_target = int(column) / Cut::N % team.threads() == team.thread();
    const C below = owns_target ? to<C>(logits[column]) - e.max : C(0);
    if (owns_target) {
      C loss = log_sum - (C(1) - p.smoothing) * below;
      if (p.smoothing > C(0)) loss -= p.smoothing * (e.logits / C(p.width) - e.max);
      p.losses[row * p.loss_stride] = loss;
      if (p.log_sums) p.log_sums[row] = double(e.max) + double(log_sum);
    }
    if (!p.dlogits) continue;
    T* dx = p.dlogits.at(row) - shift;
    const C factor = scale / e.sum;
    each_pack_backwards<Cut>(team, end, [&](int k, int64_t j) {
      Numbers<C, Cut::N> value = x(k, j);
#pragma unroll
      for (int i = 0; i < Cut::N; ++i)
        value.at[i] = exp_below(value.at[i] - e.max) * factor - scale * uniform;
      x.store(dx, j, pack_of<T>(value));
    });
    if (owns_target)
      dx[column] = from<T>(scale * (exp_below(below - log_sum) - uniform - (C(1) - p.smoothing)));
  }
}

template <class T>
struct BackwardArguments {
  Rows<T> logits, dlogits;  ///< dlogits may be the logits
  const int64_t* targets;
  const float* dy;
  const double *log_sums, *scale;  ///< scale is optional
  int64_t target_stride, dy_stride;
  int64_t rows, width, ignore_index;
  float smoothing;
};

/// Moves the logits and their gradient once, 2 * N * V elements of 16 bits; one exponential an element.
template <class Cut, class T>
__global__ void __launch_bounds__(Cut::max_block, Cut::min_blocks)
    cross_entropy_backward_kernel(BackwardArguments<T> p) {
  REPRISE_SHARED(float, scratch, [2 * warp_threads]);
  const typename Cut::Team team(scratch);
  for (int64_t row = team.first_row(); row < p.rows; row += team.row_step()) {
    const int64_t target = p.targets[row * p.target_stride];
    if (target == p.ignore_index || target < 0 || target >= p.width) {
      clear_row<Cut>(team, p.dlogits.at(row), p.width);
      continue;
    }
    const int shift = shift_of<Cut>(p.logits.at(row));
    const int64_t end = p.width + shift, column = target + shift;
    const T* logits = p.logits.at(row) - shift;
    const Row<T, Cut> x(team, logits, end, shift);
    const bool owns_target = int(column) / Cut::N % team.threads() == team.thread();
    const double log_sum = p.log_sums[row];
    const float high = float(log_sum), low = float(log_sum - double(high));
    const float below = owns_target ? (to<float>(logits[column]) - high) - low : 0.0f;
    const float factor = float(double(p.dy[row * p.dy_stride]) * (p.scale ? *p.scale : 1.0));
    const float uniform = p.smoothing / float(p.width);
    T* dx = p.dlogits.at(row) - shift;
    each_pack<Cut>(team, end, [&](int k, int64_t j) {
      Numbers<float, Cut::N> value = x(k, j);
#pragma unroll
      for (int i = 0; i < Cut::N; ++i)
        value.at[i] = exp_below((value.at[i] - high) - low) * factor - factor * uniform;
      x.store(dx, j, pack_of<T>(value));
    });
    if (owns_target) dx[column] = from<T>(factor * (exp_below(below) - uniform - (1.0f - p.smoothing)));
  }
}

void cross_entropy_backward_cuda(const Stream& stream, const CrossEntropyBackwardArguments& v) {
  check_cross_entropy_backward(v);
  const int64_t rows = v.logits.size(0), width = v.logits.size(1);
  check(width < max_short_row / 2, "cross_entropy_backward: too many classes: ", width);
  if (rows == 0) return;
  auto run = [&]<class T>(T) {
    const BackwardArguments<Element<T>> arguments = {.logits = rows_at<T>(v.logits),
                                                     .dlogits = rows_at<T>(v.dlogits),
                                                     .targets = v.targets.as<int64_t>(),
                                                     .dy = v.dy.as<float>(),
                                                     .log_sums = v.log_sums.as<double>(),
                                                     .scale = data_of<double>(v.scale),
                                                     .target_stride = v.targets.stride(0),
                                                     .dy_stride = v.dy.stride(0),
                                                     .rows = rows,
                                                     .width = width,
                                                     .ignore_index = v.options.ignore_index,
                                                     .smoothing = float(v.options.label_smoothing)};
    dispatch_rows<T, kRowColumns, true>(
        rows, width, fit_of({&v.logits, &v.dlogits}), [&]<class Cut>(const RowGrid& grid) {
          simt::launch(
              {.name = "cross_entropy_backward", .grid = grid.grid, .block = grid.block, .stream = stream},
              cross_entropy_backward_kernel<Cut, Element<T>>, arguments);
        });
  };
  v.logits.dtype == DType::bf16 ? run(BFloat16()) : run(Float16());
}

constexpr int count_threads = 1024;

/// Moves 8 bytes per row. One block: the targets are little beside the logits.
__global__ void __launch_bounds__(count_threads)
    mean_scale_kernel(const int64_t* targets, int64_t stride, int64_t rows, int64_t ignore_index,
                      double* scale) {
  REPRISE_SHARED(int64_t, scratch, [warp_threads]);
  int64_t count = 0;
#pragma unroll 8
  for (int64_t i = threadIdx.x; i < rows; i += count_threads) count += targets[i * stride] != ignore_index;
  count = block_reduce(Sum{}, count, int64_t(0), scratch);
  if (threadIdx.x == 0) *scale = 1.0 / double(max(count, int64_t(1)));
}

void mean_scale_cuda(const Stream& stream, const TensorView& targets, int64_t ignore_index,
                     const TensorView& scale) {
  check_mean_scale(targets, scale);
  simt::launch({.name = "cross_entropy_mean_scale", .grid = 1, .block = count_threads, .stream = stream},
               mean_scale_kernel, targets.as<int64_t>(), targets.stride(0), targets.size(0), ignore_index,
               scale.as<double>());
}

void cross_entropy_cuda(const Stream& stream, const CrossEntropyArguments& v) {
  check_cross_entropy(v);
  check(v.logits.size(1) < max_short_row / 2, "cross_entropy: too many classes: ", v.logits.size(1));
  dispatch_floating(v.logits.dtype, "cross_entropy", [&]<class T>() {
    using C = Accumulator<T>;
    const int64_t rows = v.logits.size(0), width = v.logits.size(1);
    if (rows == 0) return;
    Arguments<Element<T>, C> arguments = {
        .logits = rows_at<T>(v.logits),
        .dlogits = rows_at<T>(v.dlogits),
        .targets = v.targets.as<int64_t>(),
        .losses = v.losses.as<C>(),
        .target_stride = v.targets.stride(0),
        .loss_stride = v.losses.stride(0),
        .rows = rows,
        .width = width,
        .ignore_index = v.options.ignore_index,
        .smoothing = C(v.options.label_smoothing),
        .scale = data_of<double>(v.scale),
        .log_sums = data_of<double>(v.log_sums),
        .errors = cuda::error_slot(stream.device()),
        .error_code = target_outside,
    };
    dispatch_rows<T, kRowColumns, true>(
        rows, width, fit_of({&v.logits, &v.dlogits}), [&]<class Cut>(const RowGrid& grid) {
          simt::launch({.name = "cross_entropy", .grid = grid.grid, .block = grid.block, .stream = stream},
                       cross_entropy_kernel<Cut, Element<T>>, arguments);
        });
  });
}

const OnCuda cross_entropy_on_cuda{cross_entropy, cross_entropy_cuda};
const OnCuda cross_entropy_backward_on_cuda{cross_entropy_backward, cross_entropy_backward_cuda};
const OnCuda mean_scale_on_cuda{cross_entropy_mean_scale, mean_scale_cuda};

}  // namespace
}  // namespace reprise::kernels
