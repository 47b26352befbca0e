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

template <int L, class T, class C = Accumulator<T>>
double loss_and_gradient(const Row& row, const T* x, T* dx) {
  using V = simd::Vector<C, L>;
  double n = double(row.width);
  RowSums<C> sums = sums_of<L>(x, row.width, row.smoothing > 0);
  double target = double(C(x[row.target])) - double(sums.max);
  double log_sum = std::log(sums.exponentials);
  double loss = log_sum - (1 - row.smoothing) * target;
  if (row.smoothing > 0) loss -= row.smoothing / n * (sums.logits - n * double(sums.max));
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

void check_scale(const char* op, const TensorView& scale) {
  check(scale.numel() == 1 && scale.dtype == DType::f64, op, ": scale needs one f64, has ", scale.shape, " ",
        scale.dtype);
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
          if (gradient) std::fill_n(gradient, width, T(0));
          continue;
        }
        Row facts = {width, target, v.options.label_smoothing, factor};
        loss = C(loss_and_gradient<simd::lanes_of<T, W>>(facts, row_at<const T>(v.logits, row), gradient));
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

void mean_scale_cpu(const Stream&, const TensorView& targets, int64_t ignore_index, const TensorView& scale) {
  check_mean_scale(targets, scale);
  int64_t count = 0;
  for (int64_t i = 0; i < targets.size(0); ++i)
    count += targets.as<int64_t>()[i * targets.stride(0)] != ignore_index;
  *scale.as<double>() = 1.0 / double(std::max<int64_t>(1, count));
}

}  // namespace

void check_cross_entropy(const CrossEntropyArguments& arguments) {
  const auto& [logits, targets, options, losses, dlogits, scale] = arguments;
  constexpr auto op = "cross_entropy";
  check(logits.rank() == 2, op, ": logits need shape (N, V), have ", logits.shape);
  check(options.label_smoothing >= 0 && options.label_smoothing <= 1, op, ": label_smoothing is ",
        options.label_smoothing, ", should be in [0, 1]");
  check_rows(op, "logits", logits);
  check_view(op, "targets", targets, Shape{logits.size(0)}, DType::i64);
  if (dlogits) check_view(op, "dlogits", dlogits, logits.shape, logits.dtype);
  if (dlogits) check_rows(op, "dlogits", dlogits);
  check(is_floating(logits.dtype), op, ": needs a floating dtype, got ", logits.dtype);
  check_view(op, "losses", losses, Shape{logits.size(0)},
             logits.dtype == DType::f64 ? DType::f64 : DType::f32);
  if (scale) check_scale(op, scale);
}

void check_mean_scale(const TensorView& targets, const TensorView& scale) {
  constexpr auto op = "cross_entropy_mean_scale";
  check(targets.rank() == 1, op, ": targets need shape (N), have ", targets.shape);
  check_view(op, "targets", targets, targets.shape, DType::i64);
  check_scale(op, scale);
}

decltype(cross_entropy) cross_entropy{"cross_entropy", cross_entropy_cpu};
decltype(cross_entropy_mean_scale) cross_entropy_mean_scale{"cross_entropy_mean_scale", mean_scale_cpu};

}  // namespace reprise::kernels
