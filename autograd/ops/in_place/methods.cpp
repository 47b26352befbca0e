// Tensor's operations in place: constants, copies, arithmetic and places. Functions of numbers: functions.cpp; along dimensions:
// along_dim.cpp; random numbers: random.cpp.
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/in_place/change.h"
#include "reprise/autograd/ops/index/index_put.h"
#include "reprise/autograd/ops/number.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/tensor/transfer.h"
#include "reprise/autograd/ops/wide.h"
#include "reprise/kernels/elementwise/elementwise.h"

namespace reprise {
namespace {

using namespace autograd;
using kernels::BinaryOp;

// f(x), which is a kernel of x and `other`. Error if that is floating and x holds whole numbers.
template <class F>
const Tensor& by_kernel(const char* op, const Tensor& x, const Tensor& other, BinaryOp kernel, const F& f) {
  check_self(x, op);
  check(!other.defined() || is_floating(x.dtype()) || !is_floating(other.dtype()), op, ": the result of ",
        x.dtype(), " and ", other.defined() ? other.dtype() : x.dtype(), " does not fit in ", x.dtype());
  auto write = [&](const Tensor& y) {
    const Tensor read = apart_from(y, other);
    kernels::binary(current_stream(y.device()), kernel, y, reprise::expand(read.view(), y.shape()), y);
  };
  const bool is_alike = other.defined() && other.dtype() == x.dtype() && other.device() == x.device();
  return is_alike ? by_writing(op, x, TensorList{other}, f, write) : by_value(op, x, TensorList{other}, f);
}

// x * scale + shift, which f(x) is.
template <class F>
const Tensor& by_affine(const char* op, const Tensor& x, double scale, double shift, const F& f) {
  auto write = [&](const Tensor& y) { kernels::affine(current_stream(y.device()), y, scale, shift, y); };
  return by_writing(op, x, TensorList{}, f, write);
}

struct Fill : Function<Fill> {
  static constexpr const char* name = "fill_";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr OpCost cost = OpCost::moves();

  Tensor forward(const Tensor& x, const Tensor& none, Overwrite overwrite, double value) {
    Tensor y = overwrite.allowed ? overwrite.target(x) : raw_empty_like(x);
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
    Tensor y = overwrite.allowed ? overwrite.target(x) : raw_empty_like(x);
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
    kernels::affine(current_stream(x.device()), x, value, nothing, x);
  }
  TensorList backward(const TensorList& dy) { return {dy[0] * value_, Tensor()}; }
};

const Tensor& add_scaled(const char* op, const Tensor& x, const Tensor& other, double alpha, double sign) {
  check_self(x, op);
  check_source(other, x, op);
  check_meets(op, x, other);
  whole_number(op, alpha, x.dtype());
  check_device(op, x, other);
  if (is_floating(x.dtype()) && promote(x.dtype(), other.dtype()) != x.dtype())  // one rounding, at the end
    return by_value(op, x, TensorList{other}, [&](const Tensor& y) {
      const DType wide = common_dtype(y, other);
      return cast(y, wide) + cast(other, wide) * (sign * alpha);
    });
  return change<AddScaled>(op, x, cast(other, x.dtype()), sign * alpha);
}

}  // namespace

const Tensor& Tensor::fill_(double value) const {
  check_self(*this, "fill_");
  element("fill_", value, dtype());
  return change<Fill>("fill_", *this, {}, value);
}

const Tensor& Tensor::fill_(const Tensor& value) const {
  constexpr auto op = "fill_";
  check_self(*this, op);
  check(value.defined(), op, ": the value is undefined: a tensor that was never given a value");
  check(value.numel() == 1, op, ": the value must have one element, got ", value.shape());
  check_meets(op, *this, value);
  return change<CopyInto>(op, *this, value.reshape({}));
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
  return by_affine("add_", *this, 1, value, [&](const Tensor& x) { return x + value; });
}
const Tensor& Tensor::sub_(double value) const {
  check_self(*this, "sub_");
  whole_number("sub_", value, dtype());
  return by_affine("sub_", *this, 1, -value, [&](const Tensor& x) { return x - value; });
}
const Tensor& Tensor::mul_(const Tensor& other) const {
  return by_kernel("mul_", *this, other, BinaryOp::mul, [&](const Tensor& x) { return x * other; });
}
// Of whole numbers a quotient is f32.
const Tensor& Tensor::div_(double value) const {
  check_self(*this, "div_");
  check(is_floating(dtype()), "div_: the result, f32, does not fit in ", dtype());
  return by_affine("div_", *this, 1 / value, nothing, [&](const Tensor& x) { return x / value; });
}
const Tensor& Tensor::div_(const Tensor& other) const {
  check_self(*this, "div_");
  check(is_floating(dtype()) || !other.defined() || is_floating(other.dtype()),
        "div_: the result, f32, does not fit in ", dtype());
  return by_kernel("div_", *this, other, BinaryOp::div, [&](const Tensor& x) { return x / other; });
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
