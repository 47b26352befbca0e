// The thread pool: workers take task numbers from one atomic counter. They spin briefly before they sleep,
// because the next kernel usually starts within microseconds.
#include "reprise/core/parallel.h"

#include <sched.h>

#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "reprise/core/error.h"

namespace reprise {
namespace {

struct Job {
  Job(detail::TaskRef the_task, int64_t the_count) : task(the_task), count(the_count) {}

  detail::TaskRef task;
  int64_t count;
  std::atomic<int64_t> next{0};
  std::atomic<int> workers_inside{0};
  std::mutex error_mutex;
  std::exception_ptr error;

  void work() {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
      try {
        task(i);
      } catch (...) {
        std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
        next.store(count, std::memory_order_relaxed);
      }
    }
  }
};

constexpr int max_threads = 1024;

thread_local bool inside_task = false;

class Pool {
 public:
  explicit Pool(int threads) {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { serve(); });
  }
  ~Pool() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      ticket_.fetch_add(1);
    }
    wake_.notify_all();
    for (auto& worker : workers_) worker.join();
  }
  int threads() const { return int(workers_.size()) + 1; }

  /// Runs the job on this thread and the workers; false if another thread holds the pool.
  bool run(Job& job) {
    std::unique_lock busy(busy_, std::try_to_lock);
    if (!busy) return false;
    {
      std::lock_guard lock(mutex_);
      job_ = &job;
      ticket_.fetch_add(1, std::memory_order_release);
    }
    if (sleepers_.load(std::memory_order_seq_cst) > 0) wake_.notify_all();
    inside_task = true;
    job.work();
    inside_task = false;
    {
      std::lock_guard lock(mutex_);  // from here no worker can enter the job
      job_ = nullptr;
    }
    while (job.workers_inside.load(std::memory_order_acquire) > 0) std::this_thread::yield();
    return true;
  }

 private:
  static constexpr int spins_before_sleep = 20000;  // about 50 us before a worker sleeps

  void serve() {
    inside_task = true;
    uint64_t seen = 0;
    while (true) {
      for (int spin = 0; spin < spins_before_sleep && ticket_.load(std::memory_order_acquire) == seen;
           ++spin) {
        __builtin_ia32_pause();
      }
      std::unique_lock lock(mutex_);
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      wake_.wait(lock, [&] { return ticket_.load() != seen; });
      sleepers_.fetch_sub(1, std::memory_order_seq_cst);
      if (stopping_) return;
      seen = ticket_.load();
      Job* job = job_;
      if (!job) continue;
      job->workers_inside.fetch_add(1, std::memory_order_relaxed);
      lock.unlock();
      job->work();
      job->workers_inside.fetch_sub(1, std::memory_order_release);
    }
  }

  std::mutex busy_;   // held by the thread whose job runs
  std::mutex mutex_;  // guards job_, stopping_ and the change of ticket_
  std::condition_variable wake_;
  std::atomic<uint64_t> ticket_{0};
  std::atomic<int> sleepers_{0};
  Job* job_ = nullptr;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

int default_threads() {
  if (const char* text = std::getenv("REPRISE_NUM_THREADS")) {
    std::string_view digits = text;
    int count = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
    bool whole = error == std::errc() && end == digits.data() + digits.size();
    check(whole && count >= 1 && count <= max_threads, "REPRISE_NUM_THREADS: needs a number from 1 to ",
          max_threads, ", got '", text, "'");
    return count;
  }
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

std::unique_ptr<Pool>& pool() {
  static std::unique_ptr<Pool> instance = std::make_unique<Pool>(default_threads());
  return instance;
}

}  // namespace

int num_threads() { return pool()->threads(); }

void set_num_threads(int count) {
  check(count >= 1 && count <= max_threads, "set_num_threads: needs 1 to ", max_threads, ", got ", count);
  check(!inside_task, "set_num_threads: called inside a parallel_for");
  if (count != num_threads()) pool() = std::make_unique<Pool>(count);
}

void detail::run_tasks(int64_t count, TaskRef task) {
  if (count <= 0) return;
  Job job(task, count);
  bool alone = count == 1 || inside_task || pool()->threads() == 1;
  if (alone || !pool()->run(job)) {
    for (int64_t i = 0; i < count; ++i) task(i);
    return;
  }
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace reprise
