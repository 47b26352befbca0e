// Prefetcher: threads that fill numbered batches ahead of their reader. What a row holds is a function of its
// number alone, so no thread, order or depth changes a bit.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace reprise::data {

/// Where a row of a batch goes.
struct RowPlace {
  int64_t batch = 0;   ///< the number of the batch
  int64_t row = 0;     ///< of the batch
  int64_t slot = 0;    ///< which of the `ahead` + 1 memories
  int64_t worker = 0;  ///< whose scratch memory may be used
};

class Prefetcher {
 public:
  using Fill = std::function<void(const RowPlace&)>;

  /// Starts `workers` threads, which keep the `ahead` batches behind the one last taken in work. They leave the compute
  /// pool alone (SerialScope). Without threads `take` fills its batch on the pool. Error if the system refuses them.
  Prefetcher(int64_t rows, int64_t workers, int64_t ahead, Fill fill);
  /// Ends all threads, each after the row it is at.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;

  /// Waits until batch `number` is whole and returns its slot, which stays as it is until the next call. What `fill`
  /// threw is thrown here, by the batch that has the row; of several rows the first one's.
  int64_t take(int64_t number);

  int64_t slots() const { return int64_t(slots_.size()); }
  /// Threads that call `fill`, for scratch memory: each has its own number below this.
  int64_t fillers() const;
  double waited_seconds() const { return waited_seconds_; }  ///< of all calls of `take`
  int64_t misses() const { return misses_; }  ///< batches that were taken and that no thread had expected

 private:
  struct Slot {
    int64_t batch = -1;
    int64_t next = 0, done = 0;  // rows that are given out, and that are filled
    int64_t failed_row = -1;
    std::exception_ptr error{};
  };

  void serve(int64_t worker);
  Slot* slot_of(int64_t batch);
  Slot* slot_with_work();
  void expect(int64_t number, std::unique_lock<std::mutex>& lock);
  void fill_rows(Slot& slot, int64_t begin, int64_t end, int64_t worker);
  void fill_here(Slot& slot);
  void join();

  const int64_t rows_, ahead_;
  const Fill fill_;
  std::mutex mutex_;  // guards the slots
  std::condition_variable work_, progress_;
  std::vector<Slot> slots_;
  std::atomic<bool> stopping_{false};  // changes under the lock, for who waits
  bool begun_ = false;
  double waited_seconds_ = 0;
  int64_t misses_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace reprise::data
