// The thread pool. Workers spin briefly before they sleep, because the next kernel usually starts within microseconds.
//
// Note [Shares]. Each thread has a share of a job's tasks, neighbours, and takes from others' when its own are done. Tasks
// go through tensors from their beginning to their end, so that a thread finds most of what it reads in its own cache: it
// wrote it in the kernel before.
#include "reprise/core/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "reprise/core/error.h"
#include "reprise/core/no_compute.h"
#include "reprise/core/number_in.h"

namespace reprise {
namespace {

constexpr int max_threads = 1024;

thread_local bool inside_pool = false;  // this thread works for a pool: what it starts, it runs alone
thread_local int loops_around = 0;      // parallel_for's that this thread is in
thread_local int serial_scopes = 0;     // SerialScopes that this thread is in

constinit std::atomic<int> wanted{0};       // threads; 0: not chosen
constinit std::atomic<uint64_t> forked{0};  // times that this process is the child of a fork

class Job {
 public:
  Job(detail::TaskRef task, int64_t count, int threads)
      : task_(task), shares_(std::min({int64_t(threads), int64_t(max_shares), count})) {
    for (int64_t i = 0; i < shares_; ++i) {
      share_[i].next.store(i * count / shares_, std::memory_order_relaxed);
      share_[i].end = (i + 1) * count / shares_;
    }
  }

  /// The share of the `thread`-th thread, then what is left of the others'. The child of a task ends with that task.
  void work(int thread) {
    const uint64_t process = forked.load(std::memory_order_relaxed);
    for (int64_t i = 0; i < shares_ && process == forked.load(std::memory_order_relaxed); ++i)
      work_on(share_[(thread + i) % shares_], process);
  }

  std::atomic<int> workers_inside{0};
  std::exception_ptr error;

 private:
  struct alignas(64) Share {
    std::atomic<int64_t> next;
    int64_t end;
  };
  static constexpr int max_shares = 32;

  void work_on(Share& share, uint64_t process) {
    for (int64_t i; (i = share.next.fetch_add(1, std::memory_order_relaxed)) < share.end;) {
      if (process != forked.load(std::memory_order_relaxed)) return;
      try {
        task_(i);
      } catch (...) {
        std::lock_guard lock(error_mutex_);
        if (!error) error = std::current_exception();
        for (int64_t other = 0; other < shares_; ++other)
          share_[other].next.store(share_[other].end, std::memory_order_relaxed);
      }
    }
  }

  detail::TaskRef task_;
  const int64_t shares_;
  std::mutex error_mutex_;
  Share share_[max_shares];
};

int usable_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, int(std::thread::hardware_concurrency()));
}

int default_threads() {
  const char* text = std::getenv("REPRISE_NUM_THREADS");
  if (!text) return std::min(usable_cpus(), max_threads);
  int count = number_in<int>(text).value_or(0);
  check(count >= 1 && count <= max_threads, "REPRISE_NUM_THREADS: needs a number from 1 to ", max_threads,
        ", got '", text, "'");
  return count;
}

// Note [The pool outlives everything]
// It is never destroyed: destructors of statics may compute, and threads may still compute at exit. The child
// of a fork has one thread, and finds the pool's locks as they were at that moment; it leaves that pool alone
// and makes its own at the first use.
class Pool {
 public:
  explicit Pool(Pool* of_parent) : of_parent_(of_parent) {}

  int threads() {
    if (int count = threads_.load(std::memory_order_acquire)) return count;
    std::lock_guard busy(busy_);
    if (threads_.load() == 0) start(wanted.load() ? wanted.load() : default_threads());
    return threads_.load();
  }

  /// Waits for the job of another thread.
  void resize(int count) {
    resizers_.fetch_add(1);  // other threads work alone meanwhile: the lock is not handed over in order
    std::lock_guard busy(busy_);
    resizers_.fetch_sub(1);
    if (count == threads_.load()) return;
    stop();
    start(count);
  }

  /// Runs the job on this thread and the workers; false if another thread holds the pool.
  bool run(Job& job) {
    if (resizers_.load(std::memory_order_relaxed) > 0) return false;
    std::unique_lock busy(busy_, std::try_to_lock);
    if (!busy) return false;
    const uint64_t process = forked.load(std::memory_order_relaxed);
    {
      std::lock_guard lock(mutex_);
      job_ = &job;
      ticket_.fetch_add(1, std::memory_order_release);
    }
    if (sleepers_.load(std::memory_order_seq_cst) > 0) wake_.notify_all();
    inside_pool = true;
    job.work(0);
    inside_pool = false;
    check(process == forked.load(std::memory_order_relaxed),
          "parallel_for: the process was forked inside it: the threads that did the rest are the parent's");
    {
      std::lock_guard lock(mutex_);  // from here no worker can enter the job
      job_ = nullptr;
    }
    while (job.workers_inside.load(std::memory_order_acquire) > 0) std::this_thread::yield();
    return true;
  }

 private:
  static constexpr int spins_before_sleep = 20000;  // about 50 us before a worker sleeps

  // With fewer threads where the system refuses. Those it gave took what the program needs itself, then: a
  // limit on memory or on threads leaves nothing. So half of them go, and never more stay than there are
  // CPUs.
  void start(int count) {
    threads_.store(1);
    const int asked = count;
    std::string reason;
    while (!try_start(count, reason)) {
      count = std::min(int(workers_.size() + 1) / 2, usable_cpus());
      stop();
    }
    threads_.store(int(workers_.size()) + 1, std::memory_order_release);
    if (reason.empty() || std::exchange(warned_, true)) return;
    std::cerr << detail::join("warning: not all of ", asked, " threads can be started (", reason,
                              "); going on with ", workers_.size() + 1, "\n");
  }

  bool try_start(int count, std::string& reason) {
    try {
      while (int(workers_.size()) + 1 < count)
        workers_.emplace_back([this, number = int(workers_.size()) + 1] { serve(number); });
      return true;
    } catch (const std::exception& error) {  // std::system_error, std::bad_alloc
      reason = error.what();
      return false;
    }
  }

  void stop() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      ticket_.fetch_add(1);
    }
    wake_.notify_all();
    for (auto& worker : workers_) worker.join();
    workers_.clear();
    threads_.store(1);
    stopping_ = false;
  }

  void serve(int number) {
    inside_pool = true;
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
      const uint64_t process = forked.load(std::memory_order_relaxed);
      job->work(number);
      if (process != forked.load(std::memory_order_relaxed)) end_child();
      job->workers_inside.fetch_sub(1, std::memory_order_release);
    }
  }

  // A task forked, and its child came back here: the thread that waits for it is the parent's.
  [[noreturn]] static void end_child() {
    constexpr std::string_view text =
        "parallel_for: the process was forked inside it, on a thread of the pool: the child ends here\n";
    [[maybe_unused]] ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    _exit(EXIT_FAILURE);
  }

  std::mutex busy_;   // held by the thread whose job runs, or that changes the threads
  std::mutex mutex_;  // guards job_, stopping_ and the change of ticket_
  std::condition_variable wake_;
  std::atomic<uint64_t> ticket_{0};
  std::atomic<int> sleepers_{0}, resizers_{0};
  std::atomic<int> threads_{0};  // the caller included; 0: not started
  Job* job_ = nullptr;
  bool stopping_ = false, warned_ = false;
  std::vector<std::thread> workers_;
  [[maybe_unused]] Pool* const of_parent_;  // before the fork: left alone, but not lost
};

constinit std::atomic<Pool*> current{nullptr};
constinit std::atomic<Pool*> of_parent{nullptr};

void in_child() {
  if (Pool* pool = current.exchange(nullptr)) of_parent.store(pool);
  forked.fetch_add(1);
}

const int registered = pthread_atfork(nullptr, nullptr, in_child);

Pool& pool() {
  Pool* pool = current.load(std::memory_order_acquire);
  if (pool) return *pool;
  check(registered == 0, "parallel_for: no memory to follow forks");
  auto made = std::make_unique<Pool>(of_parent.load());
  if (current.compare_exchange_strong(pool, made.get())) pool = made.release();
  return *pool;
}

}  // namespace

int num_threads() { return pool().threads(); }

void set_num_threads(int count) {
  check(count >= 1 && count <= max_threads, "set_num_threads: needs 1 to ", max_threads, ", got ", count);
  check(!inside_pool && loops_around == 0, "set_num_threads: called inside a parallel_for");
  pool().resize(count);
  wanted.store(count);
}

SerialScope::SerialScope() { ++serial_scopes; }
SerialScope::~SerialScope() { --serial_scopes; }

void detail::run_tasks(int64_t count, TaskRef task) {
  if (count <= 0 || (count > 1 && NoCompute::is_on())) return;
  struct Loop {
    Loop() { ++loops_around; }
    ~Loop() { --loops_around; }
  } loop;
  auto run_alone = [&] {
    for (int64_t i = 0; i < count; ++i) task(i);
  };
  if (count == 1 || inside_pool || serial_scopes > 0) return run_alone();
  const int threads = pool().threads();
  if (threads == 1) return run_alone();
  Job job(task, count, threads);
  if (!pool().run(job)) return run_alone();
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace reprise
