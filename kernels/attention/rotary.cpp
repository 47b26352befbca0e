// Rotary positions on the CPU.
#include "reprise/kernels/attention/rotary.h"

#include "reprise/kernels/cpu/rows.h"
#include "reprise/kernels/strided.h"

namespace reprise::kernels {

RotaryParts rotary_parts(const RotaryArguments& v) {
  for (const TensorView* view : {&v.x, &v.y})
    check(is_floating(view->dtype), "rotary: needs a floating dtype, got ", view->dtype);
  check((v.x.dtype == DType::f64) == (v.y.dtype == DType::f64), "rotary: the result is ", v.y.dtype, " of ",
        v.x.dtype);
  check_same_shape("rotary", v.x, v.y);
  check(v.x.rank() >= 1 && v.x.shape.back() % 2 == 0, "rotary: needs an even number of channels, got ",
        v.x.shape);
  const int64_t width = v.x.shape.back();
  auto part = [&](const TensorView& view, int64_t i) {
    return v.pairs == RotaryPairs::adjacent ? slice(view, -1, std::min(i, width), width, 2)
                                            : slice(view, -1, i * (width / 2), (i + 1) * (width / 2));
  };
  const RotaryParts parts{.a = part(v.x, 0),
                          .b = part(v.x, 1),
                          .cosines = v.cosines,
                          .sines = v.sines,
                          .turned_a = part(v.y, 0),
                          .turned_b = part(v.y, 1)};
  for (const TensorView* table : {&v.cosines, &v.sines}) {
    check_same_shape("rotary", parts.a, *table);
    check(table->dtype == (v.x.dtype == DType::f64 ? DType::f64 : DType::f32), "rotary: tables of ",
          table->dtype, " for ", v.x.dtype);
  }
  for (const TensorView* view : {&v.x, &v.y, &v.cosines, &v.sines})
    check(view->shape.back() <= 1 || view->strides.back() == 1,
          "rotary: rows must have stride 1, got strides ", view->strides);
  return parts;
}

namespace {

constexpr int64_t kRows = 64;  // whose places are looked up at a time

// Where the next rows of a view lie.
template <class T>
class RowPlaces {
 public:
  RowPlaces(const TensorView& view, int64_t row)
      : data_(static_cast<T*>(view.data)), width_(view.shape.back()), walk_(view, row * width_) {}
  void find(int64_t count) {
    for (int64_t i = 0; i < count; ++i, walk_.advance(width_)) at[i] = data_ + walk_.offset();
  }
  T* at[kRows];

 private:
  T* data_;
  int64_t width_;
  Walk walk_;
};

// Vectors of the first and of the second of L pairs, from pair j of a row on; `left` pairs are there.
template <class C, int L>
struct Pairs {
  using V = simd::Vector<C, L>;
  V first, second;
};

// Pairs (i, i + half).
struct InHalves {
  int64_t half;

  template <class C, int L, class T>
  [[gnu::always_inline]] Pairs<C, L> load(const T* row, int64_t j, int64_t left) const {
    return {simd::load_row<C, L>(row + j, left), simd::load_row<C, L>(row + half + j, left)};
  }
  template <class C, int L, class T>
  [[gnu::always_inline]] void store(T* row, int64_t j, const Pairs<C, L>& pairs, int64_t left) const {
    simd::store_row<C, L>(row + j, pairs.first, left);
    simd::store_row<C, L>(row + half + j, pairs.second, left);
  }
};

// Pairs (2 i, 2 i + 1), as they lie: two vectors, which are dealt out lane by lane.
struct SideBySide {
  template <class C, int L, class T>
  [[gnu::always_inline]] Pairs<C, L> load(const T* row, int64_t j, int64_t left) const {
    C both[2 * L], first[L], second[L];
    simd::store(both, simd::load_row<C, L>(row + 2 * j, 2 * left));
    simd::store(both + L, simd::load_row<C, L>(row + 2 * j + L, 2 * left - L));
    for (int i = 0; i < L; ++i) first[i] = both[2 * i], second[i] = both[2 * i + 1];
    using V = simd::Vector<C, L>;
    return {simd::load<V>(first), simd::load<V>(second)};
  }
  template <class C, int L, class T>
  [[gnu::always_inline]] void store(T* row, int64_t j, const Pairs<C, L>& pairs, int64_t left) const {
    C both[2 * L], first[L], second[L];
    simd::store(first, pairs.first), simd::store(second, pairs.second);
    for (int i = 0; i < L; ++i) both[2 * i] = first[i], both[2 * i + 1] = second[i];
    using V = simd::Vector<C, L>;
    simd::store_row<C, L>(row + 2 * j, simd::load<V>(both), 2 * left);
    simd::store_row<C, L>(row + 2 * j + L, simd::load<V>(both + L), 2 * left - L);
  }
};

template <class X, class Y, class Layout>
void turn_rows(const RotaryArguments& v, const Layout& layout, int64_t begin, int64_t end) {
  using C = Accumulator<X>;
  RowPlaces<X> x(v.x, begin);
  RowPlaces<Y> y(v.y, begin);
  RowPlaces<C> cosines(v.cosines, begin), sines(v.sines, begin);
  for (; begin < end; begin += kRows) {
    const int64_t count = std::min(kRows, end - begin);
    x.find(count), y.find(count), cosines.find(count), sines.find(count);
    simd::run([&]<int W>() {
      constexpr int L = simd::lanes_of<C, W>;
      for (int64_t i = 0; i < count; ++i)
        for_each_vector<L>(v.cosines.shape.back(), [&](int64_t j, int64_t left) {
          const auto [p, q] = layout.template load<C, L>(x.at[i], j, left);
          const auto c = simd::load_row<C, L>(cosines.at[i] + j, left),
                     s = simd::load_row<C, L>(sines.at[i] + j, left);
          layout.template store<C, L>(y.at[i], j, {p * c - q * s, q * c + p * s}, left);
        });
    });
  }
}

template <class X, class Y>
void turn(const RotaryArguments& v) {
  const int64_t half = v.cosines.shape.back();
  parallel_for(v.cosines.numel() / half, row_grain(half), [&](int64_t begin, int64_t end) {
    if (v.pairs == RotaryPairs::adjacent)
      turn_rows<X, Y>(v, SideBySide(), begin, end);
    else
      turn_rows<X, Y>(v, InHalves{half}, begin, end);
  });
}

void rotary_cpu(const Stream&, const RotaryArguments& v) {
  rotary_parts(v);
  if (v.x.numel() == 0) return;
  dispatch_floating(v.x.dtype, "rotary", [&]<class X>() {
    dispatch_floating(v.y.dtype, "rotary", [&]<class Y>() {
      if constexpr (std::is_same_v<Accumulator<X>, Accumulator<Y>>) turn<X, Y>(v);
    });
  });
}

}  // namespace

decltype(rotary) rotary{"rotary", rotary_cpu};

}  // namespace reprise::kernels
