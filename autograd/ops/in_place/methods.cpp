// Tensor's operations in place. Outside of graphs they write where the tensor lies. In one that is recorded the result of the
// operation out of place takes the tensor's place: docs/decisions/0018-in-place-is-a-new-value.md.
#include <utility>

#include "reprise/autograd/function.h"
#include "reprise/autograd/meta.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/index/index_put.h"
#include "reprise/autograd/ops/number.h"
#include "reprise/autograd/ops/overwrite.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/tensor/transfer.h"
#include "reprise/autograd/ops/wide.h"
#include "reprise/autograd/replay_filter.h"
#include "reprise/core/overlap.h"
#include "reprise/kernels/elementwise/copy.h"
#include "reprise/kernels/elementwise/elementwise.h"

namespace reprise {
namespace {

using namespace autograd;

// While it lives, no observer is told that the method's own kernels ask for data.
using OwnKernels = SetDataObserver;

void check_source(const Tensor& source, const Tensor& target, const char* op) {
  check(source.defined(), op, ": the source is undefined: a tensor that was never given a value");
  check(broadcasts_to(source.shape(), target.shape()), op, ": the source ", source.shape(),
        " does not broadcast to the target ", target.shape());
}

bool is_recorded(const Tensor& x, const TensorList& sources) {
  bool wanted = x.requires_grad();
  for (const Tensor& source : sources) wanted |= source.defined() && source.requires_grad();
  return wanted && is_floating(x.dtype()) && grad_mode_enabled();
}

// Error unless `op` can be done to x: where it lies, or, in a graph, by a value in its place.
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

// `y` where x is, in all its handles; other views are not to be used any longer. A gradient that the program wants kept is that of
// the new value then, as in PyTorch; hooks stay with the value that they were put on.
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

// put_in_place of what `run` gives, which may write into the memory of x. If it fails after that, x has no value any longer.
template <class Run>
void put_result_in_place(const char* op, const Tensor& x, const Run& run) {
  const uint64_t version = x.version();
  Tensor y;
  try {
    y = run();
  } catch (...) {
    if (x.version() != version) x.storage()->supersede(op);
    throw;
  }
  put_in_place(op, x, std::move(y));
}

// What to read while `target` is written: a copy if elements that are still to be read lie in it.
Tensor apart_from(const Tensor& target, const Tensor& source) {
  const TensorView &to = target.view(), &from = source.view();
  bool same =
      to.data == from.data && to.shape == from.shape && to.strides == from.strides && to.dtype == from.dtype;
  if (same || source.storage() != target.storage() || !ranges_meet(to, from)) return source;
  NoGrad guard;
  return source.clone();
}

// F::write changes a tensor; F is the same as an operation, which gives a changed one.
template <class F, class... Args>
const Tensor& change(const char* op, const Tensor& x, const Tensor& source, const Args&... args) {
  OwnKernels unseen(nullptr);
  const bool recorded = is_recorded(x, {source});
  check_change(op, x, recorded);
  announce(op, x, {source}, attributes_of(args...));
  if (recorded) {
    const Overwrite overwrite = source.defined() && source.is_same(x) ? Overwrite() : Overwrite::of(x);
    put_result_in_place(op, x, [&] { return F::apply(x, source, overwrite, args...); });
  } else {
    x.storage()->bump_version();
    F::write(x, source.defined() ? apart_from(x, source) : source, args...);
  }
  return x;
}

// f(x), an operation's own result, put where x is.
template <class F>
const Tensor& by_value(const char* op, const Tensor& x, const TensorList& sources, const F& f) {
  for (const Tensor& source : sources) check_source(source, x, op);
  const bool recorded = is_recorded(x, sources);
  check_change(op, x, recorded);
  Tensor y = cast(f(x), x.dtype());
  OwnKernels unseen(nullptr);
  announce(op, x, {y}, {});
  if (recorded) {
    put_in_place(op, x, std::move(y));
  } else {
    x.storage()->bump_version();
    kernels::copy(current_stream(x.device()), y, x);
  }
  return x;
}

// Error if `other` is floating and x holds whole numbers.
template <class F>
const Tensor& by_value(const char* op, const Tensor& x, const Tensor& other, const F& f) {
  check_self(x, op);
  check(!other.defined() || is_floating(x.dtype()) || !is_floating(other.dtype()), op, ": the result of ",
        x.dtype(), " and ", other.defined() ? other.dtype() : x.dtype(), " does not fit in ", x.dtype());
  return by_value(op, x, TensorList{other}, f);
}

struct Fill : Function<Fill> {
  static constexpr const char* name = "fill_";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr OpCost cost = OpCost::moves();

  Tensor forward(const Tensor& x, const Tensor& none, Overwrite overwrite, double value) {
    Tensor y = overwrite.allowed ? overwrite.target(x) : empty_like(x);
    write(y, none, value);
    return y;
  }
  static void write(const Tensor& x, const Tensor&, double value) {
    kernels::fill(current_stream(x.device()), x, value);
  }
  TensorList backward(const TensorList& dy) { return {zeros_like(dy[0]), Tensor()}; }
};

struct CopyInto : Function<CopyInto> {
  static constexpr const char* name = "copy_";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr OpCost cost = OpCost::moves();
  Shape from_{};
  DType dtype_ = DType::f32;
  Device device_{};

  Tensor forward(const Tensor& x, const Tensor& source, Overwrite overwrite) {
    from_ = source.shape();
    dtype_ = source.dtype();
    device_ = source.device();
    Tensor y = overwrite.allowed ? overwrite.target(x) : empty_like(x);
    write(y, source);
    return y;
  }
  static void write(const Tensor& x, const Tensor& source) {
    if (source.device() == x.device())
      kernels::copy(current_stream(x.device()), reprise::expand(source.view(), x.shape()), x);
    else
      copy_across(source, x);
  }
  TensorList backward(const TensorList& dy) {
    return {needs_grad(0) ? zeros_like(dy[0]) : Tensor(),
            needs_grad(1) ? sum_to(converted(dy[0].to(device_), dtype_), from_) : Tensor()};
  }
};

struct AddScaled : Function<AddScaled> {
  static constexpr const char* name = "add_";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr OpCost cost = OpCost::pointwise();
  Shape shape_{};
  double alpha_ = 1;

  Tensor forward(const Tensor& x, const Tensor& other, Overwrite overwrite, double alpha) {
    shape_ = other.shape();
    alpha_ = alpha;
    Tensor y = overwrite.target(x);
    write(y, other, alpha);
    return y;
  }
  static void write(const Tensor& x, const Tensor& other, double alpha) {
    kernels::add_scaled(current_stream(x.device()), reprise::expand(other.view(), x.shape()), alpha, x);
  }
  TensorList backward(const TensorList& dy) {
    return {dy[0], needs_grad(1) ? sum_to(alpha_ == 1 ? dy[0] : dy[0] * alpha_, shape_) : Tensor()};
  }
};

struct MulBy : Function<MulBy> {
  static constexpr const char* name = "mul_";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr OpCost cost = OpCost::pointwise();
  double value_ = 1;

  Tensor forward(const Tensor& x, const Tensor& none, Overwrite overwrite, double value) {
    value_ = value;
    Tensor y = overwrite.target(x);
    write(y, none, value);
    return y;
  }
  static void write(const Tensor& x, const Tensor&, double value) {
    kernels::affine(current_stream(x.device()), x, value, -0.0, x);
  }
  TensorList backward(const TensorList& dy) { return {dy[0] * value_, Tensor()}; }
};

const Tensor& add_scaled(const char* op, const Tensor& x, const Tensor& other, double alpha, double sign) {
  check_self(x, op);
  check_source(other, x, op);
  check(other.dtype() == x.dtype(), op, ": dtypes differ: ", x.dtype(), " and ", other.dtype());
  whole_number(op, alpha, x.dtype());
  check_device(op, x, other);
  return change<AddScaled>(op, x, other, sign * alpha);
}

}  // namespace

const Tensor& Tensor::fill_(double value) const {
  check_self(*this, "fill_");
  element("fill_", value, dtype());
  return change<Fill>("fill_", *this, {}, value);
}

const Tensor& Tensor::copy_(const Tensor& source) const {
  check_self(*this, "copy_");
  check_source(source, *this, "copy_");
  return change<CopyInto>("copy_", *this, source);
}

const Tensor& Tensor::add_(const Tensor& other, double alpha) const {
  return add_scaled("add_", *this, other, alpha, 1);
}
const Tensor& Tensor::sub_(const Tensor& other, double alpha) const {
  return add_scaled("sub_", *this, other, alpha, -1);
}

const Tensor& Tensor::mul_(double value) const {
  check_self(*this, "mul_");
  whole_number("mul_", value, dtype());
  return change<MulBy>("mul_", *this, {}, value);
}

const Tensor& Tensor::add_(double value) const {
  check_self(*this, "add_");
  whole_number("add_", value, dtype());
  return by_value("add_", *this, TensorList{}, [&](const Tensor& x) { return x + value; });
}
const Tensor& Tensor::sub_(double value) const {
  check_self(*this, "sub_");
  whole_number("sub_", value, dtype());
  return by_value("sub_", *this, TensorList{}, [&](const Tensor& x) { return x - value; });
}
const Tensor& Tensor::mul_(const Tensor& other) const {
  return by_value("mul_", *this, other, [&](const Tensor& x) { return x * other; });
}
const Tensor& Tensor::div_(double value) const {
  check_self(*this, "div_");
  return by_value("div_", *this, TensorList{}, [&](const Tensor& x) { return x / value; });
}
const Tensor& Tensor::div_(const Tensor& other) const {
  return by_value("div_", *this, other, [&](const Tensor& x) { return x / other; });
}
const Tensor& Tensor::clamp_(std::optional<double> low, std::optional<double> high) const {
  check_self(*this, "clamp_");
  return by_value("clamp_", *this, TensorList{}, [&](const Tensor& x) { return clamp(x, low, high); });
}
const Tensor& Tensor::relu_() const {
  check_self(*this, "relu_");
  return by_value("relu_", *this, TensorList{}, [](const Tensor& x) { return relu(x); });
}
const Tensor& Tensor::masked_fill_(const Tensor& mask, double value) const {
  check_self(*this, "masked_fill_");
  return by_value("masked_fill_", *this, TensorList{mask},
                  [&](const Tensor& x) { return masked_fill(x, mask, value); });
}

const Tensor& Tensor::index_put_(const std::vector<Index>& items, const Tensor& values,
                                 bool accumulate) const {
  constexpr auto op = "index_put_";
  check_self(*this, op);
  const Places places = Places::resolve(op, *this, items);
  check_values(op, *this, places, values);
  OwnKernels unseen(nullptr);
  const bool recorded = is_recorded(*this, {values});
  check_change(op, *this, recorded);
  announce(op, *this, {values, places.rows}, attributes_of(places, accumulate));
  if (recorded) {
    const Overwrite overwrite = values.is_same(*this) ? Overwrite() : Overwrite::of(*this);
    const Tensor fitting =
        is_floating(dtype()) ? cast(values, dtype()) : values;  // autocast would take the wider one
    put_result_in_place(op, *this,
                        [&] { return put_places(op, *this, places, fitting, accumulate, overwrite); });
  } else {
    storage()->bump_version();
    // Places are no elements in their order: the same view is no better than another one.
    const bool meet = values.storage() == storage() && ranges_meet(view(), values.view());
    HideOpObservers written;  // x is not read: what was announced is all that is
    write_places(*this, places, meet ? values.detach().clone() : values, accumulate);
  }
  return *this;
}

const Tensor& Tensor::index_put_(const std::vector<Index>& items, double value, bool accumulate) const {
  check_self(*this, "index_put_");
  element("index_put_", value, dtype());
  return index_put_(items, scalar(value, dtype(), device()), accumulate);
}

}  // namespace reprise
