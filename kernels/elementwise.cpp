// Elementwise maths. Every op is one loop over contiguous chunks of its compute type (f32, f64 or i64),
// picked once a call; Reader and Writer bring any strides and dtype to that form. Bytes: each input is read
// once, y written once.
#include "reprise/kernels/elementwise.h"

#include <cmath>

#include "reprise/kernels/elementwise_ops.h"
#include "reprise/kernels/strided.h"

namespace reprise::kernels {
namespace {

using namespace elementwise;

/// y[i] = f(x[i]...) for i < n. The last, partial vector takes the same path as the others, so that an
/// element's result does not depend on where it lies.
template <class F, class... Inputs>
void map_contiguous(const F& f, int64_t n, float* y, const Inputs*... x) {
  simd::run([&]<int W>() {
    using V = simd::Vector<float, W>;
    int64_t i = 0;
    for (; i + W <= n; i += W) simd::store(y + i, f(simd::load<V>(x + i)...));
    if (i == n) return;
    auto load_rest = [&](const float* from) {
      V v{};
      std::memcpy(&v, from, size_t(n - i) * sizeof(float));
      return v;
    };
    V result = f(load_rest(x + i)...);
    std::memcpy(y + i, &result, size_t(n - i) * sizeof(float));
  });
}
template <class F, class C, class... Inputs>
requires(!std::same_as<C, float>) void map_contiguous(const F& f, int64_t n, C* y, const Inputs*... x) {
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]...);
}

/// y = loop(inputs...), where loop(n, C* y, const C* x...) works on contiguous chunks.
template <class C, class Loop, std::same_as<TensorView>... Inputs>
void map_views(const Loop& loop, const TensorView& y, const Inputs&... inputs) {
  if (y.numel() == 0) return;
  std::array<TensorView, sizeof...(Inputs) + 1> views = {inputs..., y};
  order_like_last(views);
  auto is_plain = [](const TensorView& view) { return view.dtype == dtype_of<C> && view.is_contiguous(); };
  if (std::all_of(views.begin(), views.end(), is_plain)) {
    parallel_for(y.numel(), kPiece, [&](int64_t begin, int64_t end) {
      loop(end - begin, y.as<C>() + begin, inputs.template as<C>() + begin...);
    });
    return;
  }
  auto map_piece = [&]<size_t... I>(std::index_sequence<I...>, int64_t begin, int64_t end) {
    std::array<Reader<C>, sizeof...(Inputs)> readers = {Reader<C>(views[I], begin)...};
    Writer<C> writer(views.back(), begin);
    for_each_chunk(begin, end, [&](int64_t, int64_t count) {
      loop(count, writer.next(count), readers[I].read(count)...);
      writer.commit(count);
    });
  };
  parallel_for(y.numel(), kPiece, [&](int64_t begin, int64_t end) {
    map_piece(std::index_sequence_for<Inputs...>(), begin, end);
  });
}

template <class C>
struct UnaryLoop {
  const char* name;
  void (*run)(int64_t n, C* y, const C* x);
};
template <class C>
struct BinaryLoop {
  const char* name;
  void (*run)(int64_t n, C* y, const C* a, const C* b);
};

/// The loop of F on C; null where F is not defined on C.
template <class C, class F>
UnaryLoop<C> unary_loop(const char* name) {
  if constexpr (std::invocable<F, C>)
    return {name, [](int64_t n, C* y, const C* x) { map_contiguous(F{}, n, y, x); }};
  return {name, nullptr};
}
template <class C, class F>
BinaryLoop<C> binary_loop(const char* name) {
  if constexpr (std::invocable<F, C, C>)
    return {name, [](int64_t n, C* y, const C* a, const C* b) { map_contiguous(F{}, n, y, a, b); }};
  return {name, nullptr};
}

/// Calls `body.operator()<F>(name)` with the functor of `op`.
template <class Body>
auto dispatch(UnaryOp op, Body&& body) {
  switch (op) {
    case UnaryOp::neg:
      return body.template operator()<Neg>("neg");
    case UnaryOp::abs:
      return body.template operator()<Abs>("abs");
    case UnaryOp::sign:
      return body.template operator()<Sign>("sign");
    case UnaryOp::square:
      return body.template operator()<Square>("square");
    case UnaryOp::reciprocal:
      return body.template operator()<Reciprocal>("reciprocal");
    case UnaryOp::sqrt:
      return body.template operator()<Sqrt>("sqrt");
    case UnaryOp::rsqrt:
      return body.template operator()<Rsqrt>("rsqrt");
    case UnaryOp::exp:
      return body.template operator()<Exp>("exp");
    case UnaryOp::log:
      return body.template operator()<Log>("log");
    case UnaryOp::sin:
      return body.template operator()<Sin>("sin");
    case UnaryOp::cos:
      return body.template operator()<Cos>("cos");
    case UnaryOp::tanh:
      return body.template operator()<Tanh>("tanh");
    case UnaryOp::sigmoid:
      return body.template operator()<Sigmoid>("sigmoid");
    case UnaryOp::erf:
      return body.template operator()<Erf>("erf");
    case UnaryOp::relu:
      return body.template operator()<Relu>("relu");
    case UnaryOp::gelu:
      return body.template operator()<Activate<Activation::gelu>>("gelu");
    case UnaryOp::gelu_tanh:
      return body.template operator()<Activate<Activation::gelu_tanh>>("gelu_tanh");
    case UnaryOp::silu:
      return body.template operator()<Activate<Activation::silu>>("silu");
    case UnaryOp::logical_not:
      return body.template operator()<LogicalNot>("logical_not");
    case UnaryOp::is_finite:
      return body.template operator()<IsFinite>("is_finite");
  }
  throw Bug("unary: unknown op");
}
template <class Body>
auto dispatch(BinaryOp op, Body&& body) {
  switch (op) {
    case BinaryOp::add:
      return body.template operator()<Add>("add");
    case BinaryOp::sub:
      return body.template operator()<Sub>("sub");
    case BinaryOp::mul:
      return body.template operator()<Mul>("mul");
    case BinaryOp::div:
      return body.template operator()<Div>("div");
    case BinaryOp::pow:
      return body.template operator()<Pow>("pow");
    case BinaryOp::maximum:
      return body.template operator()<Maximum>("maximum");
    case BinaryOp::minimum:
      return body.template operator()<Minimum>("minimum");
    case BinaryOp::equal:
      return body.template operator()<Equal>("equal");
    case BinaryOp::not_equal:
      return body.template operator()<NotEqual>("not_equal");
    case BinaryOp::less:
      return body.template operator()<Less>("less");
    case BinaryOp::less_equal:
      return body.template operator()<LessEqual>("less_equal");
    case BinaryOp::greater:
      return body.template operator()<Greater>("greater");
    case BinaryOp::greater_equal:
      return body.template operator()<GreaterEqual>("greater_equal");
    case BinaryOp::logical_and:
      return body.template operator()<LogicalAnd>("logical_and");
    case BinaryOp::logical_or:
      return body.template operator()<LogicalOr>("logical_or");
  }
  throw Bug("binary: unknown op");
}

void check_output(const char* op, const TensorView& y, DType expected) {
  check(y.dtype == expected, op, ": writes ", expected, ", the output is ", y.dtype);
}

void unary_cpu(const Stream&, UnaryOp op, const TensorView& x, const TensorView& y) {
  dispatch_compute(x.dtype, [&]<class C>() {
    auto loop = dispatch(op, [&]<class F>(const char* name) { return unary_loop<C, F>(name); });
    check_same_shape(loop.name, x, y);
    bool writes_bool = op == UnaryOp::logical_not || op == UnaryOp::is_finite;
    check_output(loop.name, y, writes_bool ? DType::boolean : x.dtype);
    check(loop.run != nullptr, loop.name, ": needs a floating dtype, got ", x.dtype);
    map_views<C>(loop.run, y, x);
  });
}

void unary_backward_cpu(const Stream&, UnaryOp op, const TensorView& dy, const TensorView& x,
                        const TensorView& dx) {
  dispatch_compute(x.dtype, [&]<class C>() {
    auto loop = dispatch(op, [&]<class F>(const char* name) { return binary_loop<C, GradientOf<F>>(name); });
    check_same_shape(loop.name, dy, x);
    check_same_shape(loop.name, x, dx);
    check_same_dtype(loop.name, dy, x);
    check_output(loop.name, dx, x.dtype);
    check(loop.run != nullptr, loop.name, ": has no gradient for ", x.dtype);
    map_views<C>(loop.run, dx, dy, x);
  });
}

void binary_cpu(const Stream&, BinaryOp op, const TensorView& a, const TensorView& b, const TensorView& y) {
  dispatch_compute(a.dtype, [&]<class C>() {
    auto loop = dispatch(op, [&]<class F>(const char* name) { return binary_loop<C, F>(name); });
    check_same_shape(loop.name, a, b);
    check_same_shape(loop.name, a, y);
    check_same_dtype(loop.name, a, b);
    check_output(loop.name, y, op >= BinaryOp::equal ? DType::boolean : a.dtype);
    check(loop.run != nullptr, loop.name, ": needs a floating dtype, got ", a.dtype);
    map_views<C>(loop.run, y, a, b);
  });
}

/// The scalar of an op on C. Integer ops take whole numbers only: a fraction would be lost silently.
template <class C>
C scalar_operand(const char* op, double value, DType dtype) {
  if constexpr (std::is_integral_v<C>)
    check(value == std::nearbyint(value) && std::fabs(value) < 0x1p63, op, ": ", value,
          " is not a whole number, and the tensor is ", dtype);
  return C(value);
}

void affine_cpu(const Stream&, const TensorView& x, double scale, double shift, const TensorView& y) {
  check_same_shape("affine", x, y);
  check_same_dtype("affine", x, y);
  dispatch_compute(x.dtype, [&]<class C>() {
    C a = scalar_operand<C>("affine", scale, x.dtype), b = scalar_operand<C>("affine", shift, x.dtype);
    auto f = [a, b](auto v) { return Add{}(Mul{}(v, all<decltype(v)>(a)), all<decltype(v)>(b)); };
    map_views<C>([&](int64_t n, C* to, const C* from) { map_contiguous(f, n, to, from); }, y, x);
  });
}

void add_scaled_cpu(const Stream&, const TensorView& x, double alpha, const TensorView& y) {
  check_same_shape("add_scaled", x, y);
  check_same_dtype("add_scaled", x, y);
  dispatch_compute(x.dtype, [&]<class C>() {
    C a = scalar_operand<C>("add_scaled", alpha, x.dtype);
    auto f = [a](auto v, auto sum) { return Add{}(sum, Mul{}(v, all<decltype(v)>(a))); };
    auto loop = [&](int64_t n, C* to, const C* from, const C* old) { map_contiguous(f, n, to, from, old); };
    map_views<C>(loop, y, x, y);
  });
}

void where_cpu(const Stream&, const TensorView& condition, const TensorView& a, const TensorView& b,
               const TensorView& y) {
  check(condition.dtype == DType::boolean, "where: the condition is ", condition.dtype, ", not bool");
  check_same_shape("where", condition, y);
  check_same_shape("where", a, y);
  check_same_shape("where", b, y);
  check_same_dtype("where", a, b);
  check_same_dtype("where", a, y);
  dispatch_compute(y.dtype, [&]<class C>() {
    auto f = [](auto chosen, auto yes, auto no) { return chosen != decltype(chosen){} ? yes : no; };
    auto loop = [&](int64_t n, C* to, const C* c, const C* yes, const C* no) {
      map_contiguous(f, n, to, c, yes, no);
    };
    map_views<C>(loop, y, condition, a, b);
  });
}

}  // namespace

Kernel<void(UnaryOp op, const TensorView& x, const TensorView& y)> unary{"unary", unary_cpu};
Kernel<void(UnaryOp op, const TensorView& dy, const TensorView& x, const TensorView& dx)> unary_backward{
    "unary_backward", unary_backward_cpu};
Kernel<void(BinaryOp op, const TensorView& a, const TensorView& b, const TensorView& y)> binary{"binary",
                                                                                                binary_cpu};
Kernel<void(const TensorView& x, double scale, double shift, const TensorView& y)> affine{"affine",
                                                                                          affine_cpu};
Kernel<void(const TensorView& x, double alpha, const TensorView& y)> add_scaled{"add_scaled", add_scaled_cpu};
Kernel<void(const TensorView& condition, const TensorView& a, const TensorView& b, const TensorView& y)>
    where{"where", where_cpu};

}  // namespace reprise::kernels
