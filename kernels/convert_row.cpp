#include "reprise/kernels/convert_row.h"

#include "reprise/kernels/cpu/simd_rows.h"

namespace reprise::kernels {
namespace {

template <class To, class From>
void convert_by_vectors(const From* from, To* to, int64_t n) {
  constexpr int64_t few = 8;  // not worth the choice of an instruction set
  int64_t i = 0;
  if (n > few)
    simd::run([&]<int W>() {
      for (; i + W <= n; i += W) simd::store_row<float, W>(to + i, simd::load_row<float, W>(from + i, W), W);
    });
  for (; i < n; ++i) to[i] = convert<To>(from[i]);
}

}  // namespace

template <>
void convert_row(const BFloat16* from, float* to, int64_t n) {
  convert_by_vectors(from, to, n);
}
template <>
void convert_row(const Float16* from, float* to, int64_t n) {
  convert_by_vectors(from, to, n);
}
template <>
void convert_row(const float* from, BFloat16* to, int64_t n) {
  convert_by_vectors(from, to, n);
}
template <>
void convert_row(const float* from, Float16* to, int64_t n) {
  convert_by_vectors(from, to, n);
}

}  // namespace reprise::kernels
