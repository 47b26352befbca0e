#include "reprise/data/prefetcher.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "reprise/core/error.h"
#include "reprise/core/parallel.h"

namespace reprise::data {
namespace {

constexpr int64_t rows_at_once = 4;  // given to a thread under one lock

}  // namespace

Prefetcher::Prefetcher(int64_t rows, int64_t workers, int64_t ahead, Fill fill)
    : rows_(rows), ahead_(workers > 0 ? ahead : 0), fill_(std::move(fill)), slots_(size_t(ahead_ + 1)) {
  check(rows > 0 && workers >= 0 && ahead > 0, "prefetcher: ", rows, " rows, ", workers, " workers, ", ahead,
        " batches ahead");
  try {
    for (int64_t i = 0; i < workers; ++i) threads_.emplace_back([this, i] { serve(i); });
  } catch (const std::system_error& error) {
    join();
    fail("prefetcher: the system refuses thread ", threads_.size() + 1, " of ", workers, ": ", error.what());
  }
}

Prefetcher::~Prefetcher() { join(); }

void Prefetcher::join() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

int64_t Prefetcher::fillers() const {
  return threads_.empty() ? (rows_ + rows_at_once - 1) / rows_at_once : int64_t(threads_.size());
}

Prefetcher::Slot* Prefetcher::slot_of(int64_t batch) {
  auto found =
      std::find_if(slots_.begin(), slots_.end(), [&](const Slot& slot) { return slot.batch == batch; });
  return found == slots_.end() ? nullptr : &*found;
}

// The earliest batch first: it is wanted first.
Prefetcher::Slot* Prefetcher::slot_with_work() {
  Slot* first = nullptr;
  for (Slot& slot : slots_)
    if (slot.batch >= 0 && slot.next < rows_ && (!first || slot.batch < first->batch)) first = &slot;
  return first;
}

void Prefetcher::serve(int64_t worker) {
  SerialScope serial;
  std::unique_lock lock(mutex_);
  while (true) {
    Slot* slot = nullptr;
    work_.wait(lock, [&] { return stopping_ || (slot = slot_with_work()); });
    if (stopping_) return;
    int64_t begin = slot->next, end = std::min(begin + rows_at_once, rows_);
    slot->next = end;
    lock.unlock();
    fill_rows(*slot, begin, end, worker);
    lock.lock();
    slot->done += end - begin;
    progress_.notify_all();
  }
}

void Prefetcher::fill_rows(Slot& slot, int64_t begin, int64_t end, int64_t worker) {
  for (int64_t row = begin; row < end; ++row) {
    if (stopping_) return;
    try {
      fill_({.batch = slot.batch, .row = row, .slot = &slot - slots_.data(), .worker = worker});
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (slot.error && slot.failed_row < row) continue;
      slot.error = std::current_exception();
      slot.failed_row = row;
    }
  }
}

// Gives every batch from `number` to `number` + ahead a slot. Slots with others are no longer worked on, and taken once
// their last row that is given out is filled.
void Prefetcher::expect(int64_t number, std::unique_lock<std::mutex>& lock) {
  auto is_wanted = [&](const Slot& slot) { return slot.batch >= number && slot.batch <= number + ahead_; };
  for (Slot& slot : slots_) {
    if (is_wanted(slot) || slot.batch < 0) continue;
    slot.done += rows_ - slot.next;
    slot.next = rows_;
  }
  for (int64_t batch = number; batch <= number + ahead_; ++batch) {
    if (slot_of(batch)) continue;
    Slot& free =
        *std::find_if(slots_.begin(), slots_.end(), [&](const Slot& slot) { return !is_wanted(slot); });
    progress_.wait(lock, [&] { return free.batch < 0 || free.done == rows_; });
    free = {.batch = batch};
  }
}

int64_t Prefetcher::take(int64_t number) {
  check(number >= 0, "prefetcher: there is no batch ", number);
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  misses_ += begun_ && !threads_.empty() && !slot_of(number);
  begun_ = true;
  expect(number, lock);
  Slot& slot = *slot_of(number);
  if (threads_.empty()) {
    lock.unlock();
    fill_here(slot);
    lock.lock();
  } else {
    work_.notify_all();
    progress_.wait(lock, [&] { return slot.done == rows_; });
  }
  waited_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (slot.error) std::rethrow_exception(slot.error);
  return &slot - slots_.data();
}

void Prefetcher::fill_here(Slot& slot) {
  if (slot.done == rows_) return;
  parallel_for(rows_, rows_at_once,
               [&](int64_t begin, int64_t end) { fill_rows(slot, begin, end, begin / rows_at_once); });
  slot.next = slot.done = rows_;
}

}  // namespace reprise::data
