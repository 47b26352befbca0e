// One block of a kernel on one OS thread: its threads as fibers, and who runs next. Private to the emulator's
// runtime.
#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reprise/simt/emulator/builtins.h"
#include "reprise/simt/emulator/fiber.h"
#include "reprise/simt/emulator/options.h"
#include "reprise/simt/emulator/runtime.h"
#include "reprise/simt/emulator/shared_arena.h"

namespace reprise::simt {

inline constexpr int warp_lanes = 32;
inline constexpr int max_warps = 32;
inline constexpr int max_barriers = 16;

constexpr uint32_t bit(unsigned i) { return 1u << i; }

/// Calls `body(i)` for each bit i of the mask.
template <class Body>
void for_each_bit(uint32_t mask, Body&& body) {
  for (; mask; mask &= mask - 1) body(unsigned(std::countr_zero(mask)));
}

/// What all blocks of a launch share.
struct Grid {
  const char* name;
  dim3 blocks, threads;
  size_t shared_bytes;
  const std::function<void()>& kernel;
  EmulatorOptions options;
};

/// An Error that already says where in the kernel it happened.
struct KernelError : Error {
  using Error::Error;
};

enum class Status : uint8_t { ready, at_collective, at_barrier, polling, exited };

struct Thread;

/// Lanes that wait for each other, or have met.
struct Meeting {
  uint32_t mask, arrived;
  Collective collective;
  Where where;
  unsigned token;  // of Warp::tokens
  std::array<void*, warp_lanes> records;
};

struct Warp {
  unsigned number;
  std::array<Thread*, warp_lanes> threads;
  uint32_t exist, exited, ready, polling;
  int meetings_begun;
  std::array<Meeting, warp_lanes> meetings;
  unsigned meetings_ended;
  std::array<char, 2> tokens;  // race detector: a meeting's writes, alternately

  uint32_t live() const { return exist & ~exited; }
};

struct Thread {
  Thread(void (*entry)(), size_t stack_bytes, size_t number) : fiber(entry, stack_bytes, number) {}

  Fiber fiber;
  Warp* warp = nullptr;
  uint3 index{};
  ThreadState state{};
  Status status = Status::exited;
  Where where{};      // it waits
  uint32_t mask = 0;  // of the meeting it waits for
  bool (*predicate)(void*) = nullptr;
  void* context = nullptr;
  unsigned copy_group = 0;
  std::vector<CpAsync> copies;
};

struct Barrier {
  int arrived = 0;
  int threads = 0;  // that it waits for; negative: all that live
  int votes = 0;
  unsigned generation = 0;
  Where where{};  // the first of this generation
  std::array<uint32_t, max_warps> waiting{};
  std::array<int, 2> results{};  // votes of ended generations, alternately
  std::array<char, 2> tokens{};
};

class Block;
/// The one that this OS thread runs; null outside kernels.
inline constinit thread_local Block* running_block = nullptr;

class Block {
 public:
  Block() = default;
  ~Block() { drop_threads(); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// Of this OS thread, kept for the next launch.
  static Block& mine();

  /// Runs blocks that `next_block` gives until it gives none (negative). Throws what a kernel failed with.
  void run(const Grid& grid, const std::function<int64_t()>& next_block);

  const Stats& stats() const { return stats_; }
  uint64_t serial() const { return serial_; }

  // What runtime.h offers, asked by the current thread.
  void barrier(int id, int threads, Where where);
  int count(bool predicate, Where where);
  void arrive(int id, int threads, Where where);
  void meet(uint32_t mask, void* record, Collective collective, bool orders_memory, Where where);
  void wait(bool (*predicate)(void*), void* context, Where where);
  void submit(std::function<void()> operation);
  void let_others_first();
  void yield();
  uint32_t active_lanes() const;
  [[noreturn]] void fail(Where where, const std::string& message) const;
  SharedArena& shared() { return shared_; }
  Thread& thread() { return *current_; }
  void count_matrix_rows(const std::array<uint32_t, 8>& offsets);

  /// A load or store of shared memory by the current thread, if it was compiled to say so (access_hooks.cpp).
  void note_access(const void* address, size_t bytes, bool store);
  /// One of device memory that is not in use.
  void note_stray(const void* address, size_t bytes, bool store);

 private:
  // block.cpp: threads and the scheduler
  static void entry();
  std::string run_kernel();
  void start(int64_t number);
  void start_thread(Thread& thread, unsigned linear);
  void run_block(int64_t number);
  void drop_threads();
  void make_ready(Thread& thread);
  void make_wait(Thread& thread, Status status);
  Thread* pick();
  unsigned choose(uint32_t candidates);
  bool wake_pollers();
  void run_async();
  void resume(Fiber& from, Thread& thread);
  void reschedule();
  [[noreturn]] void abandon(std::string message);
  [[noreturn]] void abandon_for(const std::string& error);  ///< of an access of the current thread
  void leave();
  void check_progress();
  uint64_t random();

  // barrier.cpp
  Barrier& come_to_barrier(int id, int threads, Where where);
  void release(Barrier& barrier);

  // warp.cpp
  Meeting& join_meeting(Warp& warp, uint32_t mask, Collective collective, Where where);
  void end_meeting(Warp& warp, Meeting& meeting, uint32_t goes_on);
  void end_meetings_without(Warp& warp);

  // report.cpp
  std::string deadlock_report() const;
  std::string lanes_report(const Warp& warp) const;

  uint64_t serial_ = 0;  // blocks begun
  const Grid* grid_ = nullptr;
  Fiber scheduler_;  // the OS thread itself
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<std::unique_ptr<Warp>> warps_;
  size_t stack_bytes_ = 0;
  unsigned n_warps_ = 0;
  int live_ = 0;
  Thread* current_ = nullptr;
  Warp* warp_ = nullptr;  // of the current thread: its other lanes go first
  uint32_t ready_warps_ = 0;
  std::array<Barrier, max_barriers> barriers_;
  struct Async {
    std::function<void()> operation;
    uint3 thread;
  };
  std::vector<Async> async_;
  SharedArena shared_;
  Order order_ = Order::forward;
  uint64_t random_state_ = 1;
  std::string error_;
  Stats stats_;
  uint64_t yields_ = 0, progress_ = 0;
  std::chrono::steady_clock::time_point progress_time_;
  size_t rotation_ = 0;
  char start_token_ = 0, end_token_ = 0;  // race detector: what precedes and what follows the threads
};

}  // namespace reprise::simt
