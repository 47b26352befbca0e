// What the models of Hopper's instructions keep for the block that runs: private to them.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "reprise/simt/ptx_sm90.h"

namespace reprise::simt::ptx::detail {

/// A chain of wgmmas on one set of accumulators, of one warp. Its registers are lost from the first wgmma to
/// the wait.
struct Accumulators {
  std::array<float*, 32> registers;  // of each lane
  int columns;
  std::vector<float> tile;  // (16, columns)
  int pending = 0;          // wgmmas that have not run
};

struct PendingWgmma {
  std::shared_ptr<Accumulators> d;
  WgmmaRecord operands;            // of lane 0
  std::array<uint32_t, 4 * 32> a;  // of each lane, if A is in registers
  unsigned group;
};

struct WgmmaQueue {
  std::deque<PendingWgmma> operations;
  unsigned groups_committed = 0;
  bool fenced = false;  // since registers were last touched
};

struct PendingStore {
  unsigned group;
  bool done = false;
};

struct StoreQueue {
  std::vector<std::shared_ptr<PendingStore>> stores;
  unsigned groups_committed = 0;
};

struct BlockState {
  uint64_t block = 0;
  std::array<WgmmaQueue, 32> wgmma;      // of each warp
  std::array<bool, 32> writes_fenced{};  // by fence_proxy_async of each warp, since its last tma_store_commit
  std::vector<StoreQueue> stores;        // of each thread
  bool barriers_fenced = true;           // mbarrier_init_fence since the last mbarrier_init
};

/// The state of the running block; new when it begins.
BlockState& block_state();

}  // namespace reprise::simt::ptx::detail
