// SwiGLU on the CPU. Forward reads 2 and writes 1 element, backward reads 3 and writes 2.
#include "reprise/kernels/elementwise/swiglu.h"

#include "reprise/kernels/cpu/simd_rows.h"
#include "reprise/kernels/elementwise/cpu_math.h"
#include "reprise/kernels/strided.h"

namespace reprise::kernels {
namespace {

/// f(i, left) for each vector of L numbers at i, of which `left` are there.
template <int L, class F>
[[gnu::always_inline]] inline void for_each_vector_of(int64_t n, F&& f) {
  int64_t i = 0;
  for (; i + L <= n; i += L) f(i, L);
  if (i < n) f(i, n - i);
}

template <class C>
void forward_chunk(const C* gate, const C* up, C* y, int64_t n) {
  simd::run([&]<int W>() {
    constexpr int L = simd::lanes_of<C, W>;
    for_each_vector_of<L>(n, [&](int64_t i, int64_t left) {
      auto g = simd::load_row<C, L>(gate + i, left), u = simd::load_row<C, L>(up + i, left);
      simd::store_row<C, L>(y + i, CpuFormulas::SwiGlu{}(g, u), left);
    });
  });
}

template <class C>
void backward_chunk(const C* dy, const C* gate, const C* up, C* dgate, C* dup, int64_t n) {
  simd::run([&]<int W>() {
    constexpr int L = simd::lanes_of<C, W>;
    for_each_vector_of<L>(n, [&](int64_t i, int64_t left) {
      auto g = simd::load_row<C, L>(gate + i, left), u = simd::load_row<C, L>(up + i, left);
      auto [dg, du] = CpuFormulas::SwiGlu{}.gradients(simd::load_row<C, L>(dy + i, left), g, u);
      simd::store_row<C, L>(dgate + i, dg, left);
      simd::store_row<C, L>(dup + i, du, left);
    });
  });
}

void check_like(const char* op, const TensorView& x, std::initializer_list<const TensorView*> others) {
  check(is_floating(x.dtype), op, ": needs a floating dtype, got ", x.dtype);
  for (const TensorView* other : others) {
    check_same_shape(op, x, *other);
    check_same_dtype(op, x, *other);
  }
}

void swiglu_cpu(const Stream&, const TensorView& gate, const TensorView& up, const TensorView& y) {
  check_like("swiglu", gate, {&up, &y});
  dispatch_floating(gate.dtype, "swiglu", [&]<class T>() {
    using C = Accumulator<T>;
    parallel_for(y.numel(), kPiece, [&](int64_t begin, int64_t end) {
      Reader<C> gates(gate, begin), ups(up, begin);
      Writer<C> results(y, begin);
      for_each_chunk(begin, end, [&](int64_t, int64_t count) {
        forward_chunk(gates.read(count), ups.read(count), results.next(count), count);
        results.commit(count);
      });
    });
  });
}

void swiglu_backward_cpu(const Stream&, const SwigluBackwardArguments& v) {
  check_like("swiglu_backward", v.gate, {&v.dy, &v.up, &v.dgate, &v.dup});
  dispatch_floating(v.gate.dtype, "swiglu_backward", [&]<class T>() {
    using C = Accumulator<T>;
    parallel_for(v.gate.numel(), kPiece, [&](int64_t begin, int64_t end) {
      Reader<C> gradients(v.dy, begin), gates(v.gate, begin), ups(v.up, begin);
      Writer<C> dgates(v.dgate, begin), dups(v.dup, begin);
      for_each_chunk(begin, end, [&](int64_t, int64_t count) {
        backward_chunk(gradients.read(count), gates.read(count), ups.read(count), dgates.next(count),
                       dups.next(count), count);
        dgates.commit(count);
        dups.commit(count);
      });
    });
  });
}

}  // namespace

decltype(swiglu) swiglu{"swiglu", swiglu_cpu};
decltype(swiglu_backward) swiglu_backward{"swiglu_backward", swiglu_backward_cpu};

}  // namespace reprise::kernels
