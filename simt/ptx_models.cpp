// What a warp does together in ldmatrix and mma.sync: Note [Fragments] of ptx.h, in code. Runs once per warp,
// over the argument records of its lanes, and is compiled without sanitizers (the records are other threads'
// stacks).
#include <array>
#include <cstring>

#include "reprise/simt/ptx_models.h"

namespace reprise::simt::ptx::detail {
namespace {

using Row = float __attribute__((vector_size(32)));  // 8 columns of B or C

/// d (16 x 8) += a (16 x K) b (K x 8). Products of these types are exact in f32.
template <int K>
void multiply(const float (&a)[16][K], const Row (&b)[K], Row (&d)[16]) {
  for (int i = 0; i < 16; ++i)
    for (int k = 0; k < K; ++k) d[i] += a[i][k] * b[k];
}

template <class Visit>
void for_each_element_of_d(void** lanes, const Visit& visit) {
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int e = 0; e < 4; ++e)
      visit(record_of<MmaRegisters>(lanes, lane).d[e], g + 8 * (e / 2), 2 * t + e % 2);
  }
}

/// A and B of two elements a register.
template <class T>
void gather(void** lanes, float (&a)[16][16], Row (&b)[16]) {
  for (int lane = 0; lane < 32; ++lane) {
    const auto& record = record_of<MmaRegisters>(lanes, lane);
    const int g = lane / 4, t = lane % 4;
    for (int half = 0; half < 2; ++half) {
      auto element = [&](uint32_t pair) { return to_float<T>(half ? pair >> 16 : pair & 0xffff); };
      for (int j = 0; j < 4; ++j) a[g + 8 * (j % 2)][2 * t + half + 8 * (j / 2)] = element(record.a[j]);
      for (int j = 0; j < 2; ++j) b[2 * t + half + 8 * j][g] = element(record.b[j]);
    }
  }
}
/// A and B of one element a register.
template <class T>
void gather(void** lanes, float (&a)[16][8], Row (&b)[8]) {
  for (int lane = 0; lane < 32; ++lane) {
    const auto& record = record_of<MmaRegisters>(lanes, lane);
    const int g = lane / 4, t = lane % 4;
    for (int j = 0; j < 4; ++j) a[g + 8 * (j % 2)][t + 4 * (j / 2)] = to_float<T>(record.a[j]);
    for (int j = 0; j < 2; ++j) b[t + 4 * j][g] = to_float<T>(record.b[j]);
  }
}

}  // namespace

template <int count, bool transposed>
void ldmatrix_model(void** lanes, uint32_t arrived) {
  check_full_warp<MatrixRow>(lanes, arrived);
  for (int j = 0; j < count; ++j) {
    uint16_t matrix[8][8];
    std::array<uint32_t, 8> offsets;
    for (int i = 0; i < 8; ++i) {
      const auto& record = record_of<MatrixRow>(lanes, 8 * j + i);
      std::memcpy(matrix[i], record.bytes, 16);
      offsets[i] = record.offset;
    }
    count_matrix_rows(offsets);
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, c = lane % 4 * 2;
      const uint32_t low = transposed ? matrix[c][g] : matrix[g][c];
      const uint32_t high = transposed ? matrix[c + 1][g] : matrix[g][c + 1];
      record_of<MatrixRow>(lanes, lane).r[j] = low | high << 16;
    }
  }
}
template void ldmatrix_model<1, false>(void**, uint32_t);
template void ldmatrix_model<2, false>(void**, uint32_t);
template void ldmatrix_model<4, false>(void**, uint32_t);
template void ldmatrix_model<1, true>(void**, uint32_t);
template void ldmatrix_model<2, true>(void**, uint32_t);
template void ldmatrix_model<4, true>(void**, uint32_t);

template <class T>
void mma_model(void** lanes, uint32_t arrived) {
  check_full_warp<MmaRegisters>(lanes, arrived);
  constexpr int K = std::is_same_v<T, Tf32> ? 8 : 16;
  float a[16][K];
  Row b[K];
  Row d[16];
  gather<T>(lanes, a, b);
  for_each_element_of_d(lanes, [&](float& value, int row, int column) { d[row][column] = value; });
  multiply(a, b, d);
  for_each_element_of_d(lanes, [&](float& value, int row, int column) { value = d[row][column]; });
}
template void mma_model<__nv_bfloat16>(void**, uint32_t);
template void mma_model<__half>(void**, uint32_t);
template void mma_model<Tf32>(void**, uint32_t);

}  // namespace reprise::simt::ptx::detail
