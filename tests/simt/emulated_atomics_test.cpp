// Atomic operations: what each leaves and returns, and that none is lost between blocks on several OS
// threads.
#include <vector>

#include "reprise/tests/simt/run.h"

namespace reprise::simt::testing {
namespace {

struct Cells {
  float f = 0;
  double d = 0;
  int i = 0, low = 1 << 20, high = -1;
  unsigned ones = 0, zeros = ~0u, flips = 0;
  unsigned long long wide = 0;
  __half2 h = __floats2half2_rn(0, 0);
  __nv_bfloat16 b = __float2bfloat16(0);
};

__global__ void all_kernel(Cells* cells) {
  const int t = int(blockIdx.x * blockDim.x + threadIdx.x);
  atomicAdd(&cells->f, 1);
  atomicAdd(&cells->d, 0.5);
  atomicAdd(&cells->i, t);
  atomicMin(&cells->low, 1000 - t);
  atomicMax(&cells->high, t);
  atomicOr(&cells->ones, 1u << t % 32);
  atomicAnd(&cells->zeros, ~(1u << t % 16));
  atomicXor(&cells->flips, 1u << t % 32);
  atomicAdd(&cells->wide, 1ull << 33);
  atomicAdd(&cells->h, __floats2half2_rn(1, 2));
  atomicAdd(&cells->b, __float2bfloat16(1));
}

TEST(Atomics, NoneIsLost) {
  in_all_orders([] {
    for (int workers : {1, 3}) {
      EmulatorOptions options = emulator_options();
      options.workers = workers;
      WithOptions scope(options);
      Cells cells;
      run(4, 32, all_kernel, &cells);
      EXPECT_EQ(cells.f, 128);
      EXPECT_EQ(cells.d, 64);
      EXPECT_EQ(cells.i, 127 * 64);
      EXPECT_EQ(cells.low, 1000 - 127);
      EXPECT_EQ(cells.high, 127);
      EXPECT_EQ(cells.ones, ~0u);
      EXPECT_EQ(cells.zeros, 0xffff0000u);
      EXPECT_EQ(cells.flips, 0u);
      EXPECT_EQ(cells.wide, 128ull << 33);
      EXPECT_EQ(__low2float(cells.h), 128);
      EXPECT_EQ(__high2float(cells.h), 256);
      EXPECT_EQ(__bfloat162float(cells.b), 128);
    }
  });
}

__global__ void returns_kernel(int* y, unsigned* u) {
  y[0] = 5;
  y[1] = atomicAdd(y, 2);
  y[2] = atomicSub(y, 3);
  y[3] = atomicExch(y, 9);
  y[4] = atomicCAS(y, 8, 1);
  y[5] = atomicCAS(y, 9, 1);
  u[0] = 2;
  u[1] = atomicInc(u, 3);
  u[2] = atomicInc(u, 3);
  u[3] = atomicDec(u, 3);
  u[4] = atomicDec(u, 1);
}

TEST(Atomics, ReturnWhatWasThere) {
  std::vector<int> y(6);
  std::vector<unsigned> u(5);
  run(1, 1, returns_kernel, y.data(), u.data());
  EXPECT_EQ(y, (std::vector<int>{1, 5, 7, 4, 9, 9}));
  EXPECT_EQ(u, (std::vector<unsigned>{1, 2, 3, 0, 3}));
}

__global__ void last_block_kernel(float* partial, float* sum, unsigned* done) {
  REPRISE_SHARED(bool, is_last, );
  partial[blockIdx.x * blockDim.x + threadIdx.x] = 1;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(done, 1) == gridDim.x - 1;
  __syncthreads();
  if (!is_last || threadIdx.x != 0) return;
  __threadfence();
  float total = 0;
  for (unsigned i = 0; i < gridDim.x * blockDim.x; ++i) total += partial[i];
  *sum = total;
}

TEST(Atomics, TellTheLastBlock) {
  in_all_orders([] {
    std::vector<float> partial(7 * 64);
    float sum = 0;
    unsigned done = 0;
    run(7, 64, last_block_kernel, partial.data(), &sum, &done);
    EXPECT_EQ(sum, 7 * 64);
  });
}

}  // namespace
}  // namespace reprise::simt::testing
