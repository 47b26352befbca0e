// CUDA's arithmetic intrinsics in the emulator, against definitions in wider types.
#include <cmath>
#include <limits>
#include <vector>

#include "reprise/tests/simt/run.h"

namespace reprise::simt::testing {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

TEST(Intrinsics, IntegersAndBits) {
  EXPECT_EQ(__popc(0xf00fu), 8);
  EXPECT_EQ(__popcll(~0ull), 64);
  EXPECT_EQ(__clz(1), 31);
  EXPECT_EQ(__clz(0), 32);
  EXPECT_EQ(__clzll(1), 63);
  EXPECT_EQ(__ffs(0), 0);
  EXPECT_EQ(__ffs(8), 4);
  EXPECT_EQ(__ffsll(1ll << 40), 41);
  EXPECT_EQ(__brev(0x80000001u), 0x80000001u);
  EXPECT_EQ(__brev(0x00000006u), 0x60000000u);
  EXPECT_EQ(__byte_perm(0x33221100u, 0x77665544u, 0x7250u), 0x77225500u);
  EXPECT_EQ(__byte_perm(0x00008000u, 0u, 0x9999u), 0xffffffffu);
  EXPECT_EQ(__funnelshift_l(0x80000000u, 1u, 1u), 3u);
  EXPECT_EQ(__funnelshift_r(0x80000000u, 1u, 1u), 0xc0000000u);
  EXPECT_EQ(__umulhi(0x80000000u, 6u), 3u);
  EXPECT_EQ(__mulhi(-2, 3), -1);
  EXPECT_EQ(__umul64hi(1ull << 63, 6), 3u);
}

TEST(Intrinsics, ExtremesPreferNumbers) {
  EXPECT_EQ(min(2, 3u), 2u);
  EXPECT_EQ(max(int64_t(2), 3), 3);
  EXPECT_EQ(max(1.0f, nan), 1.0f);
  EXPECT_EQ(max(nan, 1.0f), 1.0f);
  EXPECT_EQ(min(nan, 1.0), 1.0);
  EXPECT_EQ(__saturatef(nan), 0.0f);
  EXPECT_EQ(__saturatef(1.5f), 1.0f);
  EXPECT_EQ(__saturatef(0.25f), 0.25f);
}

TEST(Intrinsics, RoundedOnceEach) {
  const float x = 1.0f + std::ldexp(1.0f, -12);  // x * x needs 25 bits
  const float square = __fmul_rn(x, x);
  EXPECT_EQ(__fadd_rn(square, -square), 0.0f);
  EXPECT_EQ(__fmaf_rn(x, x, -square), float(double(x) * x - square));
  EXPECT_EQ(rsqrtf(16.0f), 0.25f);
  EXPECT_EQ(__float2int_rn(2.5f), 2);
  EXPECT_EQ(__float2int_rz(-2.5f), -2);
  EXPECT_EQ(__int_as_float(__float_as_int(-1.5f)), -1.5f);
  EXPECT_EQ(__longlong_as_double(__double_as_longlong(-1.5)), -1.5);
  EXPECT_EQ(__expf(0.0f), 1.0f);
  EXPECT_EQ(__log2f(8.0f), 3.0f);
}

__global__ void high_products_kernel(unsigned* y) {
  for (unsigned i = 0; i < 4; ++i) y[4 * threadIdx.x + i] = __umulhi(threadIdx.x + i, 0xD2511F53u);
}

TEST(Intrinsics, HighProductsInsideAKernel) {
  std::vector<unsigned> y(4 * 64);
  run(1, 64, high_products_kernel, y.data());
  for (unsigned t = 0; t < 64; ++t)
    for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(y[4 * t + i], unsigned(uint64_t(t + i) * 0xD2511F53u >> 32));
}

__global__ void hints_kernel(const float4* x, float4* y) {
  __stcs(y, __ldg(x));
  __stcg(y + 1, __ldcs(x + 1));
}

TEST(Intrinsics, CacheHintsMoveVectors) {
  const std::vector<float4> x = {make_float4(1, 2, 3, 4), make_float4(5, 6, 7, 8)};
  std::vector<float4> y(2);
  run(1, 1, hints_kernel, x.data(), y.data());
  EXPECT_EQ(y[0].w, 4);
  EXPECT_EQ(y[1].x, 5);
}

}  // namespace
}  // namespace reprise::simt::testing
