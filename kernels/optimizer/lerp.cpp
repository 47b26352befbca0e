// Averages on the CPU: the pieces of all tensors are the tasks of one loop.
#include "reprise/kernels/optimizer/lerp.h"

#include <algorithm>
#include <type_traits>

#include "reprise/kernels/cpu/rows.h"
#include "reprise/kernels/cpu/simd_rows.h"
#include "reprise/kernels/optimizer/lerp_checks.h"
#include "reprise/kernels/optimizer/pieces.h"
#include "reprise/kernels/optimizer/rounding.h"

namespace reprise::kernels {
namespace {

/// Values, loaded by lanes into the type that they are computed in.
template <class V>
struct Values {
  const V* data;
  explicit Values(const LerpTensor& tensor) : data(tensor.value.as<V>()) {}
  template <int L, class C>
  [[gnu::always_inline]] simd::Vector<C, L> load(int64_t i, int64_t left) const {
    return simd::load_row<C, L>(data + i, left);
  }
};

template <>
struct Values<SplitValue> {
  const BFloat16* upper;
  const int16_t* rest;
  explicit Values(const LerpTensor& tensor)
      : upper(tensor.value.as<BFloat16>()), rest(static_cast<const int16_t*>(tensor.remainder.data)) {}
  template <int L, class C>
  [[gnu::always_inline]] simd::Vector<C, L> load(int64_t i, int64_t left) const {
    uint32_t bits[size_t(L)] = {};
    for (int k = 0; k < L && k < left; ++k) bits[k] = joined({upper[i + k].bits, rest[i + k]});
    return simd::Vector<C, L>(simd::load<simd::Vector<uint32_t, L>>(bits));
  }
};

/// Two loops, as a product that is added to another one would be rounded or not, as the compiler likes.
template <class T, class V>
void lerp_piece(const LerpTensor& tensor, double decay, int64_t begin, int64_t end) {
  using C = Accumulator<T>;
  T* average = tensor.average.as<T>();
  const Values<V> values(tensor);
  const C kept = C(decay), taken = C(1 - decay);
  simd::run([&]<int W>() {
    constexpr int L = simd::lanes_of<C, W>;
    constexpr int64_t chunk = 1024;  // stays in the nearest cache between the two loops
    for (; begin < end; begin += chunk) {
      const int64_t count = std::min(chunk, end - begin);
      T* to = average + begin;
      for_each_vector<L>(count, [&](int64_t i, int64_t left) {
        auto product = simd::load_row<C, L>(to + i, left);
        product *= kept;
        simd::store_row<C, L>(to + i, product, left);
      });
      for_each_vector<L>(count, [&](int64_t i, int64_t left) {
        auto sum = simd::load_row<C, L>(to + i, left);
        sum += values.template load<L, C>(begin + i, left) * taken;
        simd::store_row<C, L>(to + i, sum, left);
      });
    }
  });
}

void lerp_cpu(const Stream&, std::span<const LerpTensor> tensors, const LerpOptions& options) {
  check_lerp(tensors, options);
  if (options.skip && *options.skip.as<int32_t>() != 0) return;
  auto size = [&](size_t t) { return tensors[t].average.numel(); };
  for_each_piece(tensors.size(), size, [&](size_t t, int64_t, int64_t begin, int64_t end) {
    const LerpTensor& tensor = tensors[t];
    dispatch_lerp(tensor, [&]<class T, class V>() {
      if constexpr (std::is_integral_v<T>) {
        const T* value = static_cast<const T*>(tensor.value.data);
        std::copy(value + begin, value + end, static_cast<T*>(tensor.average.data) + begin);
      } else {
        lerp_piece<T, V>(tensor, options.decay, begin, end);
      }
    });
  });
}

}  // namespace

decltype(lerp) lerp{"lerp", lerp_cpu};

}  // namespace reprise::kernels
