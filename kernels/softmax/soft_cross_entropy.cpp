// Softmax cross-entropy against probabilities on the CPU: one pass over the logits for their sums, one over both for
// the loss, and one for the gradient, from the cache.
#include "reprise/kernels/softmax/soft_cross_entropy.h"

#include "reprise/kernels/cpu/row_access.h"
#include "reprise/kernels/softmax/row_sums.h"

namespace reprise::kernels {
namespace {

/// The distribution of one row.
template <class C>
struct Targets {
  const C* probabilities;
  C share, uniform;  ///< 1 - smoothing, and smoothing / V
  C operator[](int64_t v) const { return share * probabilities[v] + uniform; }
};

template <int L, class T, class C = Accumulator<T>>
double loss_and_gradient(const T* x, int64_t width, const Targets<C>& q, double scale, C dy, T* dx) {
  using V = simd::Vector<C, L>;
  const RowSums<C> sums = sums_of<L>(x, width, /*sum_logits=*/false);
  const double log_sum = std::log(sums.exponentials);
  double loss = 0, mass = 0;
  for (int64_t v = 0; v < width; ++v) {
    mass += double(q[v]);
    if (q[v] != 0) loss += double(q[v]) * (log_sum - (double(C(x[v])) - double(sums.max)));
  }
  if (!dx) return loss;
  const C factor = C(scale * mass / sums.exponentials), share = C(scale) * q.share,
          uniform = C(scale) * q.uniform;
  for_each_vector<L>(width, [&](int64_t v, int64_t left) {
    const V probability = simd::exp(V(simd::load_row<C, L>(x + v, left) - sums.max)) * factor;
    const V target = simd::load_row<C, L>(q.probabilities + v, left) * share + uniform;
    simd::store_row<C, L>(dx + v, V((probability - target) * dy), left);
  });
  return loss;
}

void soft_cross_entropy_cpu(const Stream&, const SoftCrossEntropyArguments& v) {
  check_soft_cross_entropy(v);
  const int64_t width = v.logits.size(1), grain = std::max<int64_t>(1, row_grain(width) / 4);
  dispatch_floating(v.logits.dtype, "soft_cross_entropy", [&]<class T>() {
    using C = Accumulator<T>;
    parallel_for(v.logits.size(0), grain, [&](int64_t begin, int64_t end) {
      RowReader<C> targets(v.targets, width);
      simd::run([&]<int W>() {
        for (int64_t row = begin; row < end; ++row) {
          const Targets<C> q{targets.template at<simd::lanes_of<C, W>>(row), C(1 - v.label_smoothing),
                             C(v.label_smoothing / double(width))};
          T* dx = v.dlogits ? row_at<T>(v.dlogits, row) : nullptr;
          const C dy = v.dy ? static_cast<const C*>(v.dy.data)[row * v.dy.stride(0)] : C(1);
          static_cast<C*>(v.losses.data)[row * v.losses.stride(0)] =
              C(loss_and_gradient<simd::lanes_of<T, W>>(row_at<const T>(v.logits, row), width, q, v.scale, dy,
                                                        dx));
        }
      });
    });
  });
}

}  // namespace

void check_soft_cross_entropy(const SoftCrossEntropyArguments& arguments) {
  const auto& [logits, targets, label_smoothing, losses, dlogits, scale, dy] = arguments;
  constexpr auto op = "soft_cross_entropy";
  check(logits.rank() == 2, op, ": logits need shape (N, V), have ", logits.shape);
  check(is_floating(logits.dtype), op, ": needs a floating dtype, got ", logits.dtype);
  check(label_smoothing >= 0 && label_smoothing <= 1, op, ": label_smoothing is ", label_smoothing,
        ", should be in [0, 1]");
  const DType wide = logits.dtype == DType::f64 ? DType::f64 : DType::f32;
  check_rows(op, "logits", logits);
  const bool narrow = wide == DType::f32 && is_floating(targets.dtype) && size_of(targets.dtype) == 2;
  check_view(op, "targets", targets, logits.shape, narrow ? targets.dtype : wide);
  check_rows(op, "targets", targets);
  check_view(op, "losses", losses, Shape{logits.size(0)}, wide);
  if (dy) check_view(op, "dy", dy, Shape{logits.size(0)}, wide);
  if (!dlogits) return;
  check_view(op, "dlogits", dlogits, logits.shape, logits.dtype);
  check_rows(op, "dlogits", dlogits);
}

decltype(soft_cross_entropy) soft_cross_entropy{"soft_cross_entropy", soft_cross_entropy_cpu};

}  // namespace reprise::kernels
