// Rotary positions on the CPU.
#include "reprise/kernels/attention/rotary.h"

#include "reprise/kernels/cpu/rows.h"
#include "reprise/kernels/strided.h"

namespace reprise::kernels {

RotaryHalves rotary_halves(const RotaryArguments& v) {
  check(is_floating(v.x.dtype), "rotary: needs a floating dtype, got ", v.x.dtype);
  check_same_shape("rotary", v.x, v.y);
  check_same_dtype("rotary", v.x, v.y);
  check(v.x.rank() >= 1 && v.x.shape.back() % 2 == 0, "rotary: needs an even number of channels, got ",
        v.x.shape);
  const int64_t half = v.x.shape.back() / 2;
  auto part = [&](const TensorView& view, int64_t i) { return slice(view, -1, i * half, (i + 1) * half); };
  const RotaryHalves halves{.a = part(v.x, 0),
                            .b = part(v.x, 1),
                            .cosines = v.cosines,
                            .sines = v.sines,
                            .turned_a = part(v.y, 0),
                            .turned_b = part(v.y, 1)};
  for (const TensorView* table : {&v.cosines, &v.sines}) {
    check_same_shape("rotary", halves.a, *table);
    check(table->dtype == (v.x.dtype == DType::f64 ? DType::f64 : DType::f32), "rotary: tables of ",
          table->dtype, " for ", v.x.dtype);
  }
  for (const TensorView* view : {&halves.a, &halves.turned_a, &v.cosines, &v.sines})
    check(half <= 1 || view->strides.back() == 1, "rotary: rows must have stride 1, got strides ",
          view->strides);
  return halves;
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

template <class T>
void turn_rows(const RotaryHalves& v, int64_t begin, int64_t end) {
  using C = Accumulator<T>;
  const int64_t half = v.a.shape.back();
  RowPlaces<T> a(v.a, begin), b(v.b, begin), y(v.turned_a, begin), z(v.turned_b, begin);
  RowPlaces<C> cosines(v.cosines, begin), sines(v.sines, begin);
  for (; begin < end; begin += kRows) {
    const int64_t count = std::min(kRows, end - begin);
    a.find(count), b.find(count), y.find(count), z.find(count), cosines.find(count), sines.find(count);
    simd::run([&]<int W>() {
      constexpr int L = simd::lanes_of<C, W>;
      for (int64_t i = 0; i < count; ++i)
        for_each_vector<L>(half, [&](int64_t j, int64_t left) {
          auto of = [&](const auto& rows) { return simd::load_row<C, L>(rows.at[i] + j, left); };
          const auto p = of(a), q = of(b), c = of(cosines), s = of(sines);
          simd::store_row<C, L>(y.at[i] + j, p * c - q * s, left);
          simd::store_row<C, L>(z.at[i] + j, q * c + p * s, left);
        });
    });
  }
}

void rotary_cpu(const Stream&, const RotaryArguments& arguments) {
  const RotaryHalves v = rotary_halves(arguments);
  if (v.a.numel() == 0) return;
  const int64_t half = v.a.shape.back();
  dispatch_floating(v.a.dtype, "rotary", [&]<class T>() {
    parallel_for(v.a.numel() / half, row_grain(half),
                 [&](int64_t begin, int64_t end) { turn_rows<T>(v, begin, end); });
  });
}

}  // namespace

decltype(rotary) rotary{"rotary", rotary_cpu};

}  // namespace reprise::kernels
