#include "reprise/autograd/ops/elementwise/assign.h"

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/fits.h"

namespace reprise {
namespace {

bool wants_grad(const Tensor& x) { return x.requires_grad(); }
bool wants_grad(double) { return false; }

// f(a, b) put where a is; in_place() where it may write to a's memory.
template <class B, class F, class InPlace>
Tensor& assign(const char* name, Tensor& a, const B& b, const F& f, const InPlace& in_place) {
  autograd::check_fits(name, a, b);
  if (!autograd::grad_mode_enabled() || !(a.requires_grad() || wants_grad(b))) {
    in_place();
    return a;
  }
  check(!(a.requires_grad() && a.is_leaf()), name,
        ": a leaf that requires grad is changed under NoGrad alone: its gradient would be that of another "
        "value");
  return a = autograd::fitting(name, a, f(a, b));
}

template <class B, class F>
Tensor& by_copy(const char* name, Tensor& a, const B& b, const F& f) {
  return assign(name, a, b, f, [&] { a.copy_(autograd::fitting(name, a, f(a, b))); });
}

Tensor& add_scaled(const char* name, Tensor& a, const Tensor& b, double sign) {
  auto sum = [&](const Tensor& x, const Tensor& y) { return sign > 0 ? x + y : x - y; };
  return assign(name, a, b, sum, [&] {
    if (a.dtype() == b.dtype())
      a.add_(b, sign);
    else
      a.copy_(sum(a, b));
  });
}

}  // namespace

Tensor& operator+=(Tensor& a, const Tensor& b) { return add_scaled("+=", a, b, 1); }
Tensor& operator-=(Tensor& a, const Tensor& b) { return add_scaled("-=", a, b, -1); }
Tensor& operator*=(Tensor& a, const Tensor& b) {
  return by_copy("*=", a, b, [](const Tensor& x, const Tensor& y) { return x * y; });
}
Tensor& operator/=(Tensor& a, const Tensor& b) {
  return by_copy("/=", a, b, [](const Tensor& x, const Tensor& y) { return x / y; });
}
Tensor& operator+=(Tensor& a, double b) {
  return by_copy("+=", a, b, [](const Tensor& x, double y) { return x + y; });
}
Tensor& operator-=(Tensor& a, double b) {
  return by_copy("-=", a, b, [](const Tensor& x, double y) { return x - y; });
}
Tensor& operator*=(Tensor& a, double b) {
  return by_copy("*=", a, b, [](const Tensor& x, double y) { return x * y; });
}
Tensor& operator/=(Tensor& a, double b) {
  return by_copy("/=", a, b, [](const Tensor& x, double y) { return x / y; });
}

}  // namespace reprise
