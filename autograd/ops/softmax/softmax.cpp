// Softmax and log-softmax over the last dimension; both keep their output only.
#include "reprise/kernels/softmax/softmax.h"

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise {
namespace {

using namespace autograd;

struct Softmax : Function<Softmax> {
  static constexpr const char* name = "softmax";
  static constexpr auto autocast = amp::Policy::f32;
  static constexpr OpCost cost = OpCost::pointwise();

  Tensor forward(const Tensor& x) {
    check(x.rank() >= 1, "softmax: needs at least one dimension");
    Tensor y = empty_like(x);
    kernels::softmax(current_stream(x.device()), unit_stride(x).view(), y);
    save(y);
    return y;
  }

  TensorList backward(const TensorList& dy) {
    Tensor y = saved(0);
    if (grad_mode_enabled()) {
      auto wide = [](const Tensor& d, const Tensor& p) { return p * (d - sum(d * p, {-1}, true)); };
      return {in_f32(wide, dy[0], y)};
    }
    Tensor dx = empty_like(y);
    kernels::softmax_backward(current_stream(y.device()), unit_stride(dy[0]).view(), y, dx);
    return {dx};
  }
};

struct LogSoftmax : Function<LogSoftmax> {
  static constexpr const char* name = "log_softmax";
  static constexpr auto autocast = amp::Policy::f32;
  static constexpr OpCost cost = OpCost::pointwise();

  Tensor forward(const Tensor& x) {
    check(x.rank() >= 1, "log_softmax: needs at least one dimension");
    Tensor y = empty_like(x);
    kernels::log_softmax(current_stream(x.device()), unit_stride(x).view(), y);
    save(y);
    return y;
  }

  TensorList backward(const TensorList& dy) {
    Tensor y = saved(0);
    if (grad_mode_enabled()) {
      auto wide = [](const Tensor& d, const Tensor& log_p) { return d - exp(log_p) * sum(d, {-1}, true); };
      return {in_f32(wide, dy[0], y)};
    }
    Tensor dx = empty_like(y);
    kernels::log_softmax_backward(current_stream(y.device()), unit_stride(dy[0]).view(), y, dx);
    return {dx};
  }
};

}  // namespace

Tensor softmax(const Tensor& x) { return Softmax::apply(x); }
Tensor log_softmax(const Tensor& x) { return LogSoftmax::apply(x); }

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
