// The negative log-likelihood of classes whose log-probabilities are known.
#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/softmax/weighted_cross_entropy.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise {
namespace {

// The losses of rows times the weights (V) of their classes, reduced.
Tensor weighted(const Tensor& losses, const Tensor& weight, const Tensor& classes, const Tensor& ignored,
                Reduction reduction) {
  auto wide = [&](const Tensor& unweighted) {
    const Tensor weights = autograd::row_weights(weight, classes, ignored);
    const Tensor terms = unweighted * weights;
    if (reduction == Reduction::none) return terms;
    return reduction == Reduction::sum ? sum(terms) : autograd::weighted_mean(terms, weights);
  };
  return autograd::in_f32(wide, losses);
}

}  // namespace

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& classes_of_rows,
                const NllLossOptions& options) {
  const char* op = "nll_loss";
  autograd::check_given(op, log_probabilities, classes_of_rows);
  const Tensor targets = autograd::as_i64(classes_of_rows);
  const Tensor& x = log_probabilities;
  check(x.rank() >= 1 && targets.dtype() == DType::i64, op,
        ": needs log-probabilities (..., V) and targets i64 or i32 (...), got ", x.shape(), " and ",
        targets.dtype(), ' ', targets.shape());
  check(targets.shape() == autograd::rows_shape(x), op, ": targets are ", targets.shape(),
        ", log-probabilities ", x.shape());
  const Tensor ignored = equal(targets, scalar(double(options.ignore_index), DType::i64, targets.device()));
  const Tensor zero = scalar(0, DType::i64, targets.device()), classes = where(ignored, zero, targets);
  const Tensor taken = squeeze(gather(x, unsqueeze(classes, -1)), -1);
  // Under autocast in f32, of 16 bits that are read where they lie.
  const DType dtype =
      amp::autocast_dtype(x.device()) && autograd::is_half(x.dtype()) ? DType::f32 : x.dtype();
  const Tensor losses = masked_fill(scalar(0, dtype, x.device()) - taken, ignored, 0);
  if (options.weight.defined())
    return weighted(losses, autograd::class_weights(op, options.weight, x), classes, ignored,
                    options.reduction);
  if (options.reduction == Reduction::none) return losses;
  const Tensor total = sum(losses);
  if (options.reduction == Reduction::sum) return total;
  auto number = [&](double value) { return scalar(value, total.dtype(), total.device()); };
  return total / maximum(sum(where(ignored, number(0), number(1))), number(1));
}

}  // namespace reprise
