// Softmax and log-softmax over the last dimension; both keep one tensor, their output as a rule.
#include "reprise/kernels/softmax/softmax.h"

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/result_dtype.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise {
namespace {

using namespace autograd;

// Note [Softmax of fewer bits]
// Backward reads the result, in f32 for the bits of a cast behind it. Where forward wrote other 16 bits than those of x, x is
// kept in the place of the result, and backward makes that again.

// What backward needs, and whether it is x.
struct Kept {
  bool is_x = false;
  Tensor of(const Tensor& x, const Tensor& y) {
    is_x = is_half(y.dtype()) && y.dtype() != x.dtype();
    return is_x ? x : y;
  }
};

struct Softmax : Function<Softmax> {
  static constexpr const char* name = "softmax";
  static constexpr auto autocast = amp::Policy::f32;
  static constexpr uint32_t autocast_keeps = 0b1;
  static constexpr OpCost cost = OpCost::pointwise();
  Kept kept_;
  DType of_x_ = DType::f32;

  Tensor forward(const Tensor& x, DType out) {
    Tensor y = Tensor::empty(x.shape(), out, x.device());
    kernels::softmax(current_stream(x.device()), unit_stride(x).view(), y);
    of_x_ = x.dtype();
    save(kept_.of(x, y));
    return y;
  }

  TensorList backward(const TensorList& dy) {
    Tensor y = kept_.is_x ? softmax(saved(0), {.out = DType::f32}) : saved(0);
    if (grad_mode_enabled()) {
      auto wide = [](const Tensor& d, const Tensor& p) { return p * (d - sum(d * p, {-1}, true)); };
      return {cast(wide(widened(dy[0]), widened(y)), of_x_)};
    }
    Tensor dx = Tensor::empty(y.shape(), of_x_, y.device());
    kernels::softmax_backward(current_stream(y.device()), unit_stride(dy[0]).view(), y, dx);
    return {dx};
  }
};

struct LogSoftmax : Function<LogSoftmax> {
  static constexpr const char* name = "log_softmax";
  static constexpr auto autocast = amp::Policy::f32;
  static constexpr uint32_t autocast_keeps = 0b1;
  static constexpr OpCost cost = OpCost::pointwise();
  Kept kept_;
  DType of_x_ = DType::f32;

  Tensor forward(const Tensor& x, DType out) {
    Tensor y = Tensor::empty(x.shape(), out, x.device());
    kernels::log_softmax(current_stream(x.device()), unit_stride(x).view(), y);
    of_x_ = x.dtype();
    save(kept_.of(x, y));
    return y;
  }

  TensorList backward(const TensorList& dy) {
    Tensor y = kept_.is_x ? log_softmax(saved(0), {.out = DType::f32}) : saved(0);
    if (grad_mode_enabled()) {
      auto wide = [](const Tensor& d, const Tensor& log_p) { return d - exp(log_p) * sum(d, {-1}, true); };
      return {cast(wide(widened(dy[0]), widened(y)), of_x_)};
    }
    Tensor dx = Tensor::empty(y.shape(), of_x_, y.device());
    kernels::log_softmax_backward(current_stream(y.device()), unit_stride(dy[0]).view(), y, dx);
    return {dx};
  }
};

// A number is the only one of its row, as in PyTorch.
template <class Op>
Tensor over_rows(const Tensor& x, const ResultOptions& result) {
  const DType out = softmax_dtype(Op::name, x, result);
  return x.rank() == 0 ? reshape(Op::apply(reshape(x, {1}), out), {}) : Op::apply(x, out);
}

}  // namespace

Tensor softmax(const Tensor& x, const ResultOptions& result) { return over_rows<Softmax>(x, result); }
Tensor log_softmax(const Tensor& x, const ResultOptions& result) { return over_rows<LogSoftmax>(x, result); }

Tensor composite::softmax(const Tensor& x) {
  auto wide = [](const Tensor& rows) {
    Tensor e = exp(rows - max(rows, {-1}, true).detach());
    return e / sum(e, {-1}, true);
  };
  return in_f32(wide, x);
}

Tensor composite::log_softmax(const Tensor& x) {
  auto wide = [](const Tensor& rows) {
    Tensor shifted = rows - max(rows, {-1}, true).detach();
    return shifted - log(sum(exp(shifted), {-1}, true));
  };
  return in_f32(wide, x);
}

}  // namespace reprise
