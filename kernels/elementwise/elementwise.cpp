// Elementwise maths. Every op is one loop over contiguous chunks of its compute type (f32, f64 or i64),
// picked once a call; Reader and Writer bring any strides and dtype to that form. Bytes: each input is read
// once, y written once.
#include "reprise/kernels/elementwise/elementwise.h"

#include <cmath>
#include <cstring>

#include "reprise/kernels/elementwise/elementwise_ops.h"
#include "reprise/kernels/elementwise/elementwise_table.h"
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
using UnaryLoop = void (*)(int64_t n, C* y, const C* x);
template <class C>
using BinaryLoop = void (*)(int64_t n, C* y, const C* a, const C* b);

/// The loop of F on C; null where F is not defined on C.
template <class C, class F>
UnaryLoop<C> unary_loop() {
  if constexpr (std::invocable<F, C>)
    return [](int64_t n, C* y, const C* x) { map_contiguous(F{}, n, y, x); };
  return nullptr;
}
template <class C, class F>
BinaryLoop<C> binary_loop() {
  if constexpr (std::invocable<F, C, C>)
    return [](int64_t n, C* y, const C* a, const C* b) { map_contiguous(F{}, n, y, a, b); };
  return nullptr;
}

void unary_cpu(const Stream&, UnaryOp op, const TensorView& x, const TensorView& y) {
  dispatch_compute(x.dtype, [&]<class C>() {
    UnaryLoop<C> loop = nullptr;
    dispatch_formula<UnaryFormulas>(size_t(op), [&]<class F>() { loop = unary_loop<C, F>(); });
    check_unary(op, x, y, loop != nullptr);
    map_views<C>(loop, y, x);
  });
}

void unary_backward_cpu(const Stream&, UnaryOp op, const TensorView& dy, const TensorView& x,
                        const TensorView& dx) {
  dispatch_compute(x.dtype, [&]<class C>() {
    BinaryLoop<C> loop = nullptr;
    dispatch_formula<UnaryFormulas>(size_t(op), [&]<class F>() { loop = binary_loop<C, GradientOf<F>>(); });
    check_unary_backward(op, dy, x, dx, loop != nullptr);
    map_views<C>(loop, dx, dy, x);
  });
}

void binary_cpu(const Stream&, BinaryOp op, const TensorView& a, const TensorView& b, const TensorView& y) {
  dispatch_compute(a.dtype, [&]<class C>() {
    BinaryLoop<C> loop = nullptr;
    dispatch_formula<BinaryFormulas>(size_t(op), [&]<class F>() { loop = binary_loop<C, F>(); });
    check_binary(op, a, b, y, loop != nullptr);
    map_views<C>(loop, y, a, b);
  });
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
  check_where(condition, a, b, y);
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
