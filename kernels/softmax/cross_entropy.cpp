// Softmax cross-entropy on the CPU. Logits are read once for the maximum and the sum (row_sums.h). The gradient
// reads them again, which costs less than keeping exp(x).
#include "reprise/kernels/softmax/cross_entropy.h"

#include <cmath>

#include "reprise/kernels/softmax/row_sums.h"

namespace reprise::kernels {
namespace {

struct Row {
  int64_t width, target;
  double smoothing, scale;
};

/// `log_sum_exp` and dx are optional.
template <int L, class T, class C = Accumulator<T>>
double loss_and_gradient(const Row& row, const T* x, double* log_sum_exp, T* dx) {
  using V = simd::Vector<C, L>;
  double n = double(row.width);
  RowSums<C> sums = sums_of<L>(x, row.width, row.smoothing > 0);
  double target = double(C(x[row.target])) - double(sums.max);
  double log_sum = std::log(sums.exponentials);
  double loss = log_sum - (1 - row.smoothing) * target;
  if (row.smoothing > 0) loss -= row.smoothing / n * (sums.logits - n * double(sums.max));
  if (log_sum_exp) *log_sum_exp = double(sums.max) + log_sum;
  if (!dx) return loss;
  C factor = C(row.scale / sums.exponentials), uniform = C(row.scale * row.smoothing / n);
  for_each_vector<L>(row.width, [&](int64_t j, int64_t left) {
    V value = simd::exp(V(simd::load_row<C, L>(x + j, left) - sums.max)) * factor - uniform;
    simd::store_row<C, L>(dx + j, value, left);
  });
  double probability = std::exp(target - log_sum);
  dx[row.target] = T(C(row.scale * (probability - row.smoothing / n - (1 - row.smoothing))));
  return loss;
}

/// The same gradient from the log-sum-exp, which is high + low, so that x - log_sum_exp keeps its digits.
template <int L, class T>
void gradient_row(const Row& row, const T* x, double log_sum_exp, T* dx) {
  using V = simd::Vector<float, L>;
  const double uniform = row.smoothing / double(row.width);
  const double probability = std::exp(double(float(x[row.target])) - log_sum_exp);
  const float high = float(log_sum_exp), low = float(log_sum_exp - double(high));
  const float factor = float(row.scale), less = float(row.scale * uniform);
  for_each_vector<L>(row.width, [&](int64_t j, int64_t left) {
    const V below = (simd::load_row<float, L>(x + j, left) - high) - low;
    simd::store_row<float, L>(dx + j, V(simd::exp(below) * factor - less), left);
  });
  dx[row.target] = T(float(row.scale * (probability - uniform - (1 - row.smoothing))));
}

void check_scale(const char* op, const TensorView& scale) {
  check(scale.numel() == 1 && scale.dtype == DType::f64, op, ": scale needs one f64, has ", scale.shape, " ",
        scale.dtype);
}

void check_rows_and_targets(const char* op, const TensorView& logits, const TensorView& targets,
                            const CrossEntropyOptions& options) {
  check(logits.rank() == 2, op, ": logits need shape (N, V), have ", logits.shape);
  check(options.label_smoothing >= 0 && options.label_smoothing <= 1, op, ": label_smoothing is ",
        options.label_smoothing, ", should be in [0, 1]");
  check_rows(op, "logits", logits);
  check_view(op, "targets", targets, Shape{logits.size(0)}, DType::i64);
}

void check_log_sums(const char* op, const TensorView& log_sums, const TensorView& logits) {
  check_view(op, "log_sums", log_sums, Shape{logits.size(0)}, DType::f64);
  check(log_sums.is_contiguous(), op, ": log_sums need to be contiguous, have strides ", log_sums.strides);
}

void check_targets(const TensorView& targets, int64_t classes, int64_t ignore_index) {
  for (int64_t i = 0; i < targets.size(0); ++i) {
    int64_t target = targets.as<int64_t>()[i * targets.stride(0)];
    check(target == ignore_index || (target >= 0 && target < classes), "cross_entropy: target ", target,
          " in row ", i, " is outside [0, ", classes, ")");
  }
}

template <class T>
void each_row(const CrossEntropyArguments& v) {
  const double factor = v.scale ? *v.scale.as<double>() : 1.0;
  using C = Accumulator<T>;
  int64_t width = v.logits.size(1);
  int64_t grain = std::max<int64_t>(1, row_grain(width) / 4);  // an exp or two for each element
  parallel_for(v.logits.size(0), grain, [&](int64_t begin, int64_t end) {
    simd::run([&]<int W>() {
      for (int64_t row = begin; row < end; ++row) {
        int64_t target = static_cast<const int64_t*>(v.targets.data)[row * v.targets.stride(0)];
        C& loss = static_cast<C*>(v.losses.data)[row * v.losses.stride(0)];
        T* gradient = v.dlogits ? row_at<T>(v.dlogits, row) : nullptr;
        if (target == v.options.ignore_index) {
          loss = 0;
          if (v.log_sums) v.log_sums.as<double>()[row] = 0;
          if (gradient) std::fill_n(gradient, width, T(0));
          continue;
        }
        Row facts = {width, target, v.options.label_smoothing, factor};
        double* log_sum = v.log_sums ? v.log_sums.as<double>() + row : nullptr;
        loss = C(loss_and_gradient<simd::lanes_of<T, W>>(facts, row_at<const T>(v.logits, row), log_sum,
                                                         gradient));
      }
    });
  });
}

void cross_entropy_cpu(const Stream&, const CrossEntropyArguments& v) {
  check_cross_entropy(v);
  dispatch_floating(v.logits.dtype, "cross_entropy", [&]<class T>() {
    check_targets(v.targets, v.logits.size(1), v.options.ignore_index);
    each_row<T>(v);
  });
}

template <class T>
void each_gradient(const CrossEntropyBackwardArguments& v) {
  const double scale = v.scale ? *v.scale.as<double>() : 1.0;
  const int64_t width = v.logits.size(1);
  parallel_for(v.logits.size(0), std::max<int64_t>(1, row_grain(width) / 2), [&](int64_t begin, int64_t end) {
    simd::run([&]<int W>() {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t target = v.targets.as<int64_t>()[row * v.targets.stride(0)];
        T* dx = row_at<T>(v.dlogits, row);
        if (target == v.options.ignore_index || target < 0 || target >= width) {
          std::fill_n(dx, width, T(0));
          continue;
        }
        const double dy = double(v.dy.as<float>()[row * v.dy.stride(0)]);
        const Row facts = {width, target, v.options.label_smoothing, dy * scale};
        gradient_row<simd::lanes_of<T, W>>(facts, row_at<const T>(v.logits, row),
                                           v.log_sums.as<double>()[row], dx);
      }
    });
  });
}

void cross_entropy_backward_cpu(const Stream&, const CrossEntropyBackwardArguments& v) {
  check_cross_entropy_backward(v);
  v.logits.dtype == DType::bf16 ? each_gradient<BFloat16>(v) : each_gradient<Float16>(v);
}

void mean_scale_cpu(const Stream&, const TensorView& targets, int64_t ignore_index, const TensorView& scale) {
  check_mean_scale(targets, scale);
  int64_t count = 0;
  for (int64_t i = 0; i < targets.size(0); ++i)
    count += targets.as<int64_t>()[i * targets.stride(0)] != ignore_index;
  *scale.as<double>() = 1.0 / double(std::max<int64_t>(1, count));
}

}  // namespace

void check_cross_entropy(const CrossEntropyArguments& arguments) {
  const auto& [logits, targets, options, losses, dlogits, scale, log_sums] = arguments;
  constexpr auto op = "cross_entropy";
  check_rows_and_targets(op, logits, targets, options);
  if (dlogits) check_view(op, "dlogits", dlogits, logits.shape, logits.dtype);
  if (dlogits) check_rows(op, "dlogits", dlogits);
  check(is_floating(logits.dtype), op, ": needs a floating dtype, got ", logits.dtype);
  check_view(op, "losses", losses, Shape{logits.size(0)},
             logits.dtype == DType::f64 ? DType::f64 : DType::f32);
  if (log_sums) check_log_sums(op, log_sums, logits);
  if (scale) check_scale(op, scale);
}

void check_cross_entropy_backward(const CrossEntropyBackwardArguments& arguments) {
  const auto& [logits, targets, options, log_sums, dy, scale, dlogits] = arguments;
  constexpr auto op = "cross_entropy_backward";
  check_rows_and_targets(op, logits, targets, options);
  check(logits.dtype == DType::bf16 || logits.dtype == DType::f16, op, ": needs logits of 16 bits, got ",
        logits.dtype);
  check_log_sums(op, log_sums, logits);
  check_view(op, "dy", dy, Shape{logits.size(0)}, DType::f32);
  if (scale) check_scale(op, scale);
  check_view(op, "dlogits", dlogits, logits.shape, logits.dtype);
  check_rows(op, "dlogits", dlogits);
}

void check_mean_scale(const TensorView& targets, const TensorView& scale) {
  constexpr auto op = "cross_entropy_mean_scale";
  check(targets.rank() == 1, op, ": targets need shape (N), have ", targets.shape);
  check_view(op, "targets", targets, targets.shape, DType::i64);
  check_scale(op, scale);
}

decltype(cross_entropy) cross_entropy{"cross_entropy", cross_entropy_cpu};
decltype(cross_entropy_backward) cross_entropy_backward{"cross_entropy_backward", cross_entropy_backward_cpu};
decltype(cross_entropy_mean_scale) cross_entropy_mean_scale{"cross_entropy_mean_scale", mean_scale_cpu};

}  // namespace reprise::kernels
