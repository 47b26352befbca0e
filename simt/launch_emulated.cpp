// A grid on the CPU: its blocks are handed out to OS threads.
#include "reprise/simt/launch_emulated.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <utility>

#include "reprise/core/cuda/emulated_loading.h"
#include "reprise/core/cuda/emulated_queue.h"
#include "reprise/core/parallel.h"
#include "reprise/simt/emulator/block.h"

namespace reprise::simt {
namespace {

std::mutex stats_mutex;
Stats last_stats;

/// The sequence in which blocks start: from the first or the last, or by a stride that meets each once.
class BlockOrder {
 public:
  BlockOrder(int64_t count, const EmulatorOptions& options) : count_(count) {
    if (options.order == Order::reverse) {
      stride_ = std::max<int64_t>(count - 1, 1);
      first_ = count - 1;
    } else if (options.order == Order::random) {
      first_ = int64_t(options.seed * 0x9e3779b97f4a7c15 >> 33) % count;
      stride_ = 1 + int64_t(options.seed * 0xbf58476d1ce4e5b9 >> 33) % count;
      while (std::gcd(stride_, count) != 1) ++stride_;
    }
  }
  int64_t operator[](int64_t i) const {
    __extension__ using Wide = unsigned __int128;
    return int64_t((Wide(first_) + Wide(i) * Wide(stride_)) % Wide(count_));
  }

 private:
  int64_t count_, first_ = 0, stride_ = 1;
};

void add(Stats& sum, const Stats& part) {
  sum.switches += part.switches;
  sum.barriers += part.barriers;
  sum.warp_operations += part.warp_operations;
  sum.matrix_row_phases += part.matrix_row_phases;
  sum.matrix_bank_conflicts += part.matrix_bank_conflicts;
}

}  // namespace

Stats last_launch_stats() {
  std::lock_guard lock(stats_mutex);
  return last_stats;
}

void detail::check_limits(const Launch& config) {
  check(!running_block, config.name, ": launched inside a kernel");
  const dim3 grid = config.grid, block = config.block;
  const uint64_t threads = uint64_t(block.x) * block.y * block.z;
  auto refuse_unless = [&](bool ok, const auto&... fact) {
    check(ok, config.name, ": launch: ", fact..., ", grid (", grid.x, ", ", grid.y, ", ", grid.z,
          "), block (", block.x, ", ", block.y, ", ", block.z, "), ", config.shared_bytes,
          " bytes of shared memory");
  };
  refuse_unless(threads >= 1 && threads <= 1024, "a block needs 1 to 1024 threads, not ", threads);
  refuse_unless(block.z <= 64, "a block has at most 64 threads in z");
  refuse_unless(grid.x >= 1 && grid.y >= 1 && grid.z >= 1, "the grid is empty");
  refuse_unless(grid.x <= 2147483647u, "a grid has at most 2147483647 blocks in x");
  refuse_unless(grid.y <= 65535 && grid.z <= 65535, "a grid has at most 65535 blocks in y and z");
  const size_t most_shared = std::min(SharedArena::limit_bytes,
                                      cuda::properties(config.stream.device().index).shared_bytes_per_block);
  refuse_unless(config.shared_bytes <= most_shared, "a block has at most ", most_shared,
                " bytes of shared memory");
}

void detail::load(const Launch& config, const void* kernel) {
  cuda::emulated::load_kernel(config.stream.device().index, kernel, config.name);
}

void detail::run_grid(const Launch& config, const std::function<void()>& kernel) {
  const EmulatorOptions options = emulator_options();
  const Grid grid{config.name, config.grid, config.block, config.shared_bytes, kernel, options};
  const auto blocks = int64_t(uint64_t(config.grid.x) * config.grid.y * config.grid.z);
  const BlockOrder order(blocks, options);
  const int64_t workers = std::min<int64_t>(options.workers > 0 ? options.workers : num_threads(), blocks);
  std::atomic<int64_t> next{0};
  auto next_block = [&] {
    const int64_t i = next.fetch_add(1, std::memory_order_relaxed);
    return i < blocks ? order[i] : -1;
  };
  Stats sum;
  std::mutex sum_mutex;
  parallel_tasks(workers, [&](int64_t) {
    Block& block = Block::mine();
    try {
      block.run(grid, next_block);
    } catch (...) {
      next.store(blocks, std::memory_order_relaxed);
      throw;
    }
    std::lock_guard lock(sum_mutex);
    add(sum, block.stats());
  });
  std::lock_guard lock(stats_mutex);
  last_stats = sum;
}

void detail::enqueue(const Stream& stream, std::function<void()> work) {
  cuda::emulated::enqueue(stream.handle(), std::move(work));
}

}  // namespace reprise::simt
