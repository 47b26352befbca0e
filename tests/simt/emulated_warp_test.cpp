// Warp collectives against what CUDA's manual says of each, lane by lane, and the reports of their misuse.
#include <vector>

#include "reprise/tests/simt/run.h"

namespace reprise::simt::testing {
namespace {

enum class Kind { index, exclusive_or, down, up };

__global__ void shuffle_kernel(Kind kind, int argument, int width, int* y) {
  const int lane = int(threadIdx.x), value = 1000 + lane;
  if (kind == Kind::index) y[lane] = __shfl_sync(full_warp, value, argument, width);
  if (kind == Kind::exclusive_or) y[lane] = __shfl_xor_sync(full_warp, value, argument, width);
  if (kind == Kind::down) y[lane] = __shfl_down_sync(full_warp, value, unsigned(argument), width);
  if (kind == Kind::up) y[lane] = __shfl_up_sync(full_warp, value, unsigned(argument), width);
}

/// The source of a lane, from the PTX manual's pseudocode of shfl.sync: c is the clamp, the segment's mask
/// the bits above the width.
int source_of(Kind kind, int lane, int argument, int width) {
  const int segment = 32 - width, clamp = kind == Kind::up ? 0 : 31;
  const int last = (lane & segment) | (clamp & ~segment), first = lane & segment;
  int source = lane;
  bool inside = true;
  if (kind == Kind::up) source = lane - argument, inside = source >= last;
  if (kind == Kind::down) source = lane + argument, inside = source <= last;
  if (kind == Kind::exclusive_or) source = lane ^ argument, inside = source <= last;
  if (kind == Kind::index) source = first | (argument & ~segment), inside = source <= last;
  return inside ? source : lane;
}

TEST(Warp, ShufflesAsThePtxManualSays) {
  in_all_orders([] {
    for (Kind kind : {Kind::index, Kind::exclusive_or, Kind::down, Kind::up})
      for (int width : {1, 2, 8, 32})
        for (int argument : {0, 1, 3, 7, 16, 31}) {
          std::vector<int> y(32);
          run(1, 32, shuffle_kernel, kind, argument, width, y.data());
          for (int lane = 0; lane < 32; ++lane)
            EXPECT_EQ(y[size_t(lane)], 1000 + source_of(kind, lane, argument, width))
                << "kind " << int(kind) << ", width " << width << ", argument " << argument << ", lane "
                << lane;
        }
  });
}

template <class T>
__global__ void types_kernel(T* y) {
  y[threadIdx.x] = __shfl_xor_sync(full_warp, T(float(threadIdx.x)), 5);
}

template <class T>
void expect_shuffled() {
  std::vector<T> y(64);
  run(1, 64, types_kernel<T>, y.data());
  for (int i = 0; i < 64; ++i) EXPECT_EQ(double(float(y[size_t(i)])), i ^ 5);
}

TEST(Warp, ShufflesAllTypes) {
  expect_shuffled<float>();
  expect_shuffled<double>();
  expect_shuffled<int64_t>();
  expect_shuffled<unsigned>();
  expect_shuffled<__half>();
  expect_shuffled<__nv_bfloat16>();
}

__global__ void votes_kernel(unsigned* y) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  y[8 * threadIdx.x + 7] = __activemask();
  y[8 * threadIdx.x] = __ballot_sync(full_warp, lane % 3 == warp);
  y[8 * threadIdx.x + 1] = unsigned(__any_sync(full_warp, lane == 5 && warp == 1));
  y[8 * threadIdx.x + 2] = unsigned(__all_sync(full_warp, lane != 5 || warp == 1));
  y[8 * threadIdx.x + 3] = __match_any_sync(full_warp, lane % 4);
  int equal = 7;
  y[8 * threadIdx.x + 4] = __match_all_sync(full_warp, lane / 32, &equal);
  y[8 * threadIdx.x + 5] = unsigned(equal);
  y[8 * threadIdx.x + 6] = __match_all_sync(full_warp, uint64_t(lane / 31) << 40, &equal);
  y[8 * threadIdx.x + 6] += unsigned(equal);
}

TEST(Warp, Votes) {
  in_all_orders([] {
    std::vector<unsigned> y(8 * 64);
    run(1, 64, votes_kernel, y.data());
    for (size_t t = 0; t < 64; ++t) {
      EXPECT_EQ(y[8 * t], t < 32 ? 0x49249249u : 0x92492492u);
      EXPECT_EQ(y[8 * t + 1], t < 32 ? 0u : 1u);
      EXPECT_EQ(y[8 * t + 2], t < 32 ? 0u : 1u);
      EXPECT_EQ(y[8 * t + 3], 0x11111111u << (t % 4));
      EXPECT_EQ(y[8 * t + 4], full_warp);
      EXPECT_EQ(y[8 * t + 5], 1u);
      EXPECT_EQ(y[8 * t + 6], 0u);
      EXPECT_EQ(y[8 * t + 7], full_warp);
    }
  });
}

__global__ void reduce_kernel(int* y, unsigned* u) {
  const int value = (int(threadIdx.x) * 37 + 11) % 64 - 32;
  const int sums[] = {__reduce_add_sync(full_warp, value), __reduce_min_sync(full_warp, value),
                      __reduce_max_sync(full_warp, value)};
  const unsigned bits = 0xf0000000u | 1u << threadIdx.x;
  const unsigned results[] = {__reduce_add_sync(full_warp, bits), __reduce_min_sync(full_warp, bits),
                              __reduce_max_sync(full_warp, bits), __reduce_and_sync(full_warp, bits),
                              __reduce_or_sync(full_warp, bits),  __reduce_xor_sync(full_warp, bits)};
  if (threadIdx.x < 3) y[threadIdx.x] = sums[threadIdx.x];
  if (threadIdx.x < 6) u[threadIdx.x] = results[threadIdx.x];
}

TEST(Warp, Reduces) {
  int sum = 0, least = 99, most = -99;
  unsigned total = 0, smallest = ~0u, largest = 0, all = ~0u, any = 0, odd = 0;
  for (int i = 0; i < 32; ++i) {
    const int value = (i * 37 + 11) % 64 - 32;
    sum += value, least = std::min(least, value), most = std::max(most, value);
    const unsigned bits = 0xf0000000u | 1u << i;
    total += bits, smallest = std::min(smallest, bits), largest = std::max(largest, bits);
    all &= bits, any |= bits, odd ^= bits;
  }
  std::vector<int> y(3);
  std::vector<unsigned> u(6);
  WithOptions scope({.workers = 1});
  run(1, 32, reduce_kernel, y.data(), u.data());
  EXPECT_EQ(y, (std::vector<int>{sum, least, most}));
  EXPECT_EQ(u, (std::vector<unsigned>{total, smallest, largest, all, any, odd}));
}

__global__ void divergent_halves_kernel(unsigned* y) {  // two halves do different things at the same time
  const unsigned lane = threadIdx.x;
  if (lane < 16) {
    y[lane] = __shfl_down_sync(0xffffu, lane, 4, 16);
  } else {
    y[lane] = __reduce_max_sync(0xffff0000u, lane);
    __syncwarp(0xffff0000u);
    y[lane] += __shfl_xor_sync(0xffff0000u, lane, 1);
  }
  __syncwarp();
  y[lane] += 100 * unsigned(__popc(__ballot_sync(full_warp, 1)));
}

TEST(Warp, MasksKeepGroupsApart) {
  in_all_orders([] {
    std::vector<unsigned> y(32);
    run(1, 32, divergent_halves_kernel, y.data());
    for (unsigned i = 0; i < 32; ++i) EXPECT_EQ(y[i], 3200 + (i < 16 ? (i < 12 ? i + 4 : i) : 31 + (i ^ 1)));
  });
}

__global__ void exchange_kernel(int* y) {
  REPRISE_SHARED(int, buffer, [64]);
  const unsigned warp = threadIdx.x / 32 * 32;
  for (int i = 0; i < 3; ++i) {
    buffer[threadIdx.x] = int(threadIdx.x) + i;
    __syncwarp();
    y[threadIdx.x] = buffer[warp + 31 - threadIdx.x % 32];
    __syncwarp();
  }
}

TEST(Warp, SyncwarpOrdersSharedMemory) {
  in_all_orders([] {
    std::vector<int> y(64);
    run(1, 64, exchange_kernel, y.data());
    for (int i = 0; i < 64; ++i) EXPECT_EQ(y[size_t(i)], i / 32 * 32 + 31 - i % 32 + 2);
  });
}

__global__ void partial_warp_kernel(unsigned* y) {
  if (threadIdx.x % 32 >= 20) return;
  y[threadIdx.x] = __reduce_add_sync(full_warp, 1u);
}

TEST(Warp, ExitedLanesAreNotWaitedFor) {
  in_all_orders([] {
    std::vector<unsigned> y(45);
    run(1, 45, partial_warp_kernel, y.data());
    for (size_t i = 0; i < 45; ++i) EXPECT_EQ(y[i], i < 20 ? 20u : i < 32 ? 0u : 13u);
  });
}

__global__ void exited_source_kernel(int* y) {
  if (threadIdx.x % 2 == 1) return;
  y[threadIdx.x] = __shfl_xor_sync(full_warp, 1, 1);
}

TEST(Warp, ReportsShufflesFromExitedLanes) {
  std::vector<int> y(32);
  WithOptions scope({.order = Order::forward});
  std::string error = error_of(1, 32, exited_source_kernel, y.data());
  expect_contains(error, "k: __shfl_xor_sync: lane 0 reads lane 1, which is outside the mask or has exited");
  expect_contains(error, "warp_test.cpp:");
}

__global__ void outside_mask_kernel(int* y) {
  if (threadIdx.x < 8) y[threadIdx.x] = __shfl_down_sync(0xffu, int(threadIdx.x), 4);
}

TEST(Warp, ReportsShufflesFromOutsideTheMask) {
  std::vector<int> y(32);
  WithOptions scope({.order = Order::forward});
  expect_contains(error_of(1, 32, outside_mask_kernel, y.data()), "lane 4 reads lane 8");
}

__global__ void not_in_mask_kernel() { __syncwarp(0x0000ffffu); }

TEST(Warp, ReportsCallersThatTheMaskLacks) {
  WithOptions scope({.order = Order::forward});
  expect_contains(error_of(1, 32, not_in_mask_kernel), "the calling lane 16 is not in the mask 0000ffff");
}

__global__ void mixed_kernel() {
  if (threadIdx.x % 2 == 1)
    __syncwarp();
  else
    __ballot_sync(full_warp, 1);
}

TEST(Warp, ReportsDifferentOperationsUnderOneMask) {
  expect_contains(error_of(1, 32, mixed_kernel), "divergent warp collective: lanes ");
}

__global__ void missing_lanes_kernel() {
  if (threadIdx.x < 8) __syncwarp();
  __syncthreads();
}

TEST(Warp, ReportsMasksThatNameTooMany) {
  std::string error = error_of(1, 32, missing_lanes_kernel);
  expect_contains(error, "lanes 000000ff: wait in __syncwarp");
  expect_contains(error, "lanes ffffff00: wait in __syncthreads");
}

}  // namespace
}  // namespace reprise::simt::testing
