// runtime.h: what kernels ask of the block that runs on this OS thread.
#include "reprise/simt/emulator/runtime.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "reprise/simt/emulator/barriers.h"
#include "reprise/simt/emulator/block.h"
#include "reprise/simt/emulator/sanitizer.h"
#include "reprise/simt/emulator/warp.h"

namespace reprise::simt {
namespace {

Block& block(const Where& where) {
  if (!running_block) throw Error(std::string(where.what) + ": called outside a kernel");
  return *running_block;
}

[[maybe_unused]] char fence_token;

}  // namespace

void fail_at(Where where, const std::string& message) {
  if (running_block) running_block->fail(where, message);
  throw Error(std::string(where.what) + ": " + message);
}

void block_barrier(int id, int threads, Where where) { block(where).barrier(id, threads, where); }
int block_count(bool predicate, Where where) { return block(where).count(predicate, where); }
void bar_arrive(int id, int threads, Where where) { block(where).arrive(id, threads, where); }

void warp_collective(uint32_t mask, void* record, Collective collective, bool orders_memory, Where where) {
  block(where).meet(mask, record, collective, orders_memory, where);
}
uint32_t active_lanes() { return block({"__activemask"}).active_lanes(); }

void wait_until(bool (*predicate)(void*), void* context, Where where) {
  block(where).wait(predicate, context, where);
}
void async_submit(std::function<void()> operation) {
  block({"asynchronous operation"}).submit(std::move(operation));
}
void preempt() { block({"preempt"}).let_others_first(); }
void yield() { block({"yield"}).yield(); }
uint64_t block_serial() { return block({"block"}).serial(); }

/// To the race detector every fence orders against every other, which is more than CUDA promises.
void fence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  sanitizer::acquire(&fence_token);
  sanitizer::release(&fence_token);
  spin();
}

void spin() {
  constexpr unsigned spins_before_yield = 4096;
  if (!running_block || ++self.spins < spins_before_yield) return;
  self.spins = 0;
  yield();
}

void* shared_static(const void* tag, size_t bytes, size_t alignment, Where where) {
  return block(where).shared().static_array(tag, bytes, alignment, where);
}
void* shared_dynamic() { return block({"shared memory"}).shared().dynamic(); }
uint32_t shared_offset(const void* address, size_t bytes, Where where) {
  return block(where).shared().offset_of(address, bytes, where);
}
void* shared_ptr(uint32_t offset, size_t bytes, Where where) {
  return block(where).shared().at(offset, bytes, where);
}

void shared_written(void* address, size_t bytes) {
  block({"shared memory"}).shared().set_written(address, bytes, true);
}
void shared_undefined(void* address, size_t bytes) {
  block({"shared memory"}).shared().set_written(address, bytes, false);
}

void cp_async_push(const CpAsync& copy) {
  sanitizer::Quiet quiet;
  Thread& thread = block({"cp.async"}).thread();
  thread.copies.push_back(copy);
  thread.copies.back().group = thread.copy_group;
  shared_undefined(copy.to, copy.bytes);
}
void cp_async_commit_group() { ++block({"cp.async.commit_group"}).thread().copy_group; }

void cp_async_wait(int keep) {
  Thread& thread = block({"cp.async.wait_group"}).thread();
  auto arrives = [&](const CpAsync& copy) {
    return keep < 0 || int(copy.group) < int(thread.copy_group) - keep;
  };
  for (const CpAsync& copy : thread.copies) {
    if (!arrives(copy)) continue;
    std::memcpy(copy.to, copy.data.data(), copy.bytes);
    shared_written(copy.to, copy.bytes);
  }
  sanitizer::Quiet quiet;
  std::erase_if(thread.copies, arrives);
}

void count_matrix_rows(const std::array<uint32_t, 8>& offsets) {
  block({"ldmatrix"}).count_matrix_rows(offsets);
}

/// Lanes that read the same row share it; different rows should be in different groups of four banks.
void Block::count_matrix_rows(const std::array<uint32_t, 8>& offsets) {
  constexpr uint32_t group_bytes = 16, groups = 8;
  uint32_t taken = 0;
  ++stats_.matrix_row_phases;
  for (auto row = offsets.begin(); row != offsets.end(); ++row) {
    if (std::find(offsets.begin(), row, *row) != row) continue;
    const uint32_t group = bit(*row / group_bytes % groups);
    if (taken & group) ++stats_.matrix_bank_conflicts;
    taken |= group;
  }
}

}  // namespace reprise::simt
