#include "reprise/autograd/ops/in_place/change.h"

#include "reprise/autograd/meta.h"
#include "reprise/autograd/ops/index/index_put.h"
#include "reprise/autograd/replay_filter.h"
#include "reprise/core/overlap.h"

namespace reprise::autograd {

void check_source(const Tensor& source, const Tensor& target, const char* op) {
  check(source.defined(), op, ": the source is undefined: a tensor that was never given a value");
  check(broadcasts_to(source.shape(), target.shape()), op, ": the source ", source.shape(),
        " does not broadcast to the target ", target.shape());
}

bool result_fits(DType result, const Tensor& x) {
  return x.dtype() == DType::boolean ? result == DType::boolean
                                     : is_floating(x.dtype()) || !is_floating(result);
}

void check_meets(const char* op, const Tensor& x, const Tensor& other) {
  check(result_fits(other.dtype(), x), op, ": the result of ", x.dtype(), " and ", other.dtype(),
        " does not fit in ", x.dtype());
}

bool is_recorded(const Tensor& x, const TensorList& sources) {
  bool wanted = x.requires_grad();
  for (const Tensor& source : sources) wanted |= source.defined() && source.requires_grad();
  return wanted && is_floating(x.dtype()) && grad_mode_enabled();
}

void check_change(const char* op, const Tensor& x, bool recorded) {
  TensorView form;  // reads no data: a replay may have none
  form.shape = x.shape();
  form.strides = x.strides();
  check(!overlaps_itself(form), op, ": the target is expanded: several elements share memory");
  ReplayFilter::check_write(op, x);
  if (!recorded) return;
  x.alias();  // an Error if x is itself a view that did not follow
  check(x.storage()->fixed() == 0, op, ": ",
        !x.is_fixed() ? "what shares the memory of a leaf that requires grad, or of a module's parameter"
        : x.requires_grad() ? "a leaf that requires grad"
                            : "a module's parameter, or a leaf that required grad once",
        ", of shape ", x.shape(),
        ", is changed in place under NoGrad alone: its gradient would be that of another value; use the "
        "out-of-place function");
}

void announce(const char* op, const Tensor& x, const TensorList& sources, const Attributes& attributes) {
  if (!OpObserver::any()) return;
  TensorList inputs{x};
  inputs.insert(inputs.end(), sources.begin(), sources.end());
  OpObserver::notify_write({op, inputs, attributes});
}

void put_in_place(const char* op, const Tensor& x, Tensor&& y) {
  auto before = find_meta(x);
  x.become(std::move(y));  // y is what x was
  OpObserver::notify_took_place(y, x);
  if (y.storage() == x.storage()) {
    x.storage()->supersede(op);  // for what has the value of before in another place
    x.show();
  } else if (y.has_other_views()) {
    y.storage()->supersede(op);
  }
  if (!before || !before->retains_grad) return;
  before->retains_grad = false;
  std::erase_if(before->grad_fn->hooks(),
                [&](const auto& hook) { return hook.retains && hook.index == before->output_index; });
  if (!x.requires_grad()) return;
  x.retain_grad();
  find_meta(x)->grad = before->grad;
}

Tensor apart_from(const Tensor& target, const Tensor& source) {
  const TensorView &to = target.view(), &from = source.view();
  bool same =
      to.data == from.data && to.shape == from.shape && to.strides == from.strides && to.dtype == from.dtype;
  if (same || source.storage() != target.storage() || !ranges_meet(to, from)) return source;
  NoGrad guard;
  return source.clone();
}

}  // namespace reprise::autograd
