// Averages on the CPU: the pieces of all tensors are the tasks of one loop.
#include "reprise/kernels/optimizer/lerp.h"

#include <algorithm>
#include <cstring>

#include "reprise/kernels/cpu/rows.h"
#include "reprise/kernels/cpu/simd_rows.h"
#include "reprise/kernels/optimizer/lerp_checks.h"
#include "reprise/kernels/optimizer/pieces.h"

namespace reprise::kernels {
namespace {

/// Two loops, as a product that is added to another one would be rounded or not, as the compiler likes.
template <class T>
void lerp_piece(const LerpTensor& tensor, double decay, int64_t begin, int64_t end) {
  using C = Accumulator<T>;
  T* average = tensor.average.as<T>();
  const T* value = tensor.value.as<T>();
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
        sum += simd::load_row<C, L>(value + begin + i, left) * taken;
        simd::store_row<C, L>(to + i, sum, left);
      });
    }
  });
}

void lerp_cpu(const Stream&, std::span<const LerpTensor> tensors, double decay) {
  check_lerp(tensors, decay);
  auto size = [&](size_t t) { return tensors[t].average.numel(); };
  for_each_piece(tensors.size(), size, [&](size_t t, int64_t, int64_t begin, int64_t end) {
    const LerpTensor& tensor = tensors[t];
    if (is_floating(tensor.average.dtype)) {
      dispatch_floating(tensor.average.dtype, "lerp",
                        [&]<class T>() { lerp_piece<T>(tensor, decay, begin, end); });
      return;
    }
    const size_t bytes = size_of(tensor.average.dtype);
    std::memcpy(static_cast<std::byte*>(tensor.average.data) + size_t(begin) * bytes,
                static_cast<const std::byte*>(tensor.value.data) + size_t(begin) * bytes,
                size_t(end - begin) * bytes);
  });
}

}  // namespace

decltype(lerp) lerp{"lerp", lerp_cpu};

}  // namespace reprise::kernels
