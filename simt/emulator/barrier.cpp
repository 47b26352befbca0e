// Barriers of a block: arrivals are counted, and the last one lets all go.
#include <cstring>
#include <utility>

#include "reprise/simt/emulator/block.h"
#include "reprise/simt/emulator/sanitizer.h"

namespace reprise::simt {
namespace {

bool same_place(const Where& a, const Where& b) {
  return a.here.line() == b.here.line() && (a.here.file_name() == b.here.file_name() ||
                                            std::strcmp(a.here.file_name(), b.here.file_name()) == 0);
}

}  // namespace

void Block::release(Barrier& barrier) {
  for_each_bit(n_warps_ == max_warps ? ~0u : bit(n_warps_) - 1, [&](unsigned i) {
    const uint32_t lanes = std::exchange(barrier.waiting[i], 0);
    if (lanes == 0) return;
    warps_[i]->ready |= lanes;
    ready_warps_ |= bit(i);
    for_each_bit(lanes, [&](unsigned lane) { warps_[i]->threads[lane]->status = Status::ready; });
  });
  barrier.results[barrier.generation % 2] = barrier.votes;
  barrier.arrived = barrier.votes = 0;
  ++barrier.generation;
}

/// Counts the current thread's arrival.
Barrier& Block::come_to_barrier(int id, int threads, Where where) {
  Barrier& barrier = barriers_[size_t(id)];
  if (barrier.arrived == 0) {
    barrier.where = where;
    barrier.threads = threads;
  } else if (barrier.threads != threads) {
    simt::fail(where, "barrier ", id, " for ", threads, " threads, others came for ", barrier.threads, " at ",
               barrier.where.here.file_name(), ":", barrier.where.here.line());
  } else if (threads < 0 && !same_place(barrier.where, where)) {
    simt::fail(where, "divergent barrier: other threads of the block wait at ",
               barrier.where.here.file_name(), ":", barrier.where.here.line());
  }
  ++stats_.barriers;
  current_->where = where;
  ++barrier.arrived;
  sanitizer::release(&barrier.tokens[barrier.generation % 2]);
  return barrier;
}

void Block::barrier(int id, int threads, Where where) {
  Barrier& barrier = come_to_barrier(id, threads, where);
  Thread& thread = *current_;
  const unsigned generation = barrier.generation % 2;
  if (barrier.arrived == (threads < 0 ? live_ : threads)) {
    release(barrier);
    if (order_ == Order::random) reschedule();
  } else {
    thread.mask = 0;
    barrier.waiting[thread.state.warp] |= bit(thread.state.lane);
    make_wait(thread, Status::at_barrier);
    reschedule();
  }
  sanitizer::acquire(&barrier.tokens[generation]);
}

int Block::count(bool predicate, Where where) {
  Barrier& all = barriers_[0];
  all.votes += predicate;
  const unsigned generation = all.generation % 2;
  barrier(0, -1, where);
  return all.results[generation];
}

void Block::arrive(int id, int threads, Where where) {
  Barrier& barrier = come_to_barrier(id, threads, where);
  if (barrier.arrived == threads) release(barrier);
}

}  // namespace reprise::simt
