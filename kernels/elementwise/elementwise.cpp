// Elementwise maths. Every op is one loop over contiguous chunks of its compute type (f32, f64 or i64),
// picked once per call; Reader and Writer bring any strides and dtype to that form. Bytes: each input is read
// once, y written once.
#include "reprise/kernels/elementwise/elementwise.h"

#include <cmath>
#include <cstring>

#include "reprise/kernels/elementwise/cpu_math.h"
#include "reprise/kernels/strided.h"

namespace reprise::kernels {
namespace {

using F = CpuFormulas;

/// y[i] = f(x[i]...) for i < n. The last, partial vector takes the same path as the others, so that an
/// element's result does not depend on where it lies.
template <class Formula, class... Inputs>
void map_contiguous(const Formula& f, int64_t n, float* y, const Inputs*... x) {
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
template <class Formula, class C, class... Inputs>
requires(!std::same_as<C, float>) void map_contiguous(const Formula& f, int64_t n, C* y, const Inputs*... x) {
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

/// y = formula `op` of x..., views of one dtype.
template <class Formulas, class... Views>
void map_formula(size_t op, DType dtype, const TensorView& y, const Views&... x) {
  dispatch_compute(dtype, [&]<class C>() {
    void (*loop)(int64_t n, C * y, ForEach<const C*, Views>... x) = nullptr;
    dispatch_formula<Formulas>(op, [&]<class Formula>() {
      if constexpr (std::invocable<Formula, ForEach<C, Views>...>)
        loop = [](int64_t n, C* to, ForEach<const C*, Views>... from) {
          map_contiguous(Formula{}, n, to, from...);
        };
    });
    map_views<C>(loop, y, x...);
  });
}

void unary_cpu(const Stream&, UnaryOp op, const TensorView& x, const TensorView& y) {
  check_unary(op, x, y);
  map_formula<F::Unary>(size_t(op), x.dtype, y, x);
}

void unary_backward_cpu(const Stream&, UnaryOp op, const TensorView& dy, const TensorView& x,
                        const TensorView& dx) {
  check_unary_backward(op, dy, x, dx);
  map_formula<F::Gradients>(size_t(op), x.dtype, dx, dy, x);
}

void binary_cpu(const Stream&, BinaryOp op, const TensorView& a, const TensorView& b, const TensorView& y) {
  check_binary(op, a, b, y);
  map_formula<F::Binary>(size_t(op), a.dtype, y, a, b);
}

void affine_cpu(const Stream&, const TensorView& x, double scale, double shift, const TensorView& y) {
  check_same_shape("affine", x, y);
  check_same_dtype("affine", x, y);
  dispatch_compute(x.dtype, [&]<class C>() {
    C a = scalar_operand<C>("affine", scale, x.dtype), b = scalar_operand<C>("affine", shift, x.dtype);
    auto f = [a, b](auto v) { return F::Add{}(F::Mul{}(v, all<decltype(v)>(a)), all<decltype(v)>(b)); };
    map_views<C>([&](int64_t n, C* to, const C* from) { map_contiguous(f, n, to, from); }, y, x);
  });
}

void add_scaled_cpu(const Stream&, const TensorView& x, double alpha, const TensorView& y) {
  check_same_shape("add_scaled", x, y);
  check_same_dtype("add_scaled", x, y);
  dispatch_compute(x.dtype, [&]<class C>() {
    C a = scalar_operand<C>("add_scaled", alpha, x.dtype);
    auto f = [a](auto v, auto sum) { return F::Add{}(sum, F::Mul{}(v, all<decltype(v)>(a))); };
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

decltype(unary) unary{"unary", unary_cpu};
decltype(unary_backward) unary_backward{"unary_backward", unary_backward_cpu};
decltype(binary) binary{"binary", binary_cpu};
decltype(affine) affine{"affine", affine_cpu};
decltype(add_scaled) add_scaled{"add_scaled", add_scaled_cpu};
decltype(where) where{"where", where_cpu};

}  // namespace reprise::kernels
