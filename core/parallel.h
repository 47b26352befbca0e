// A fixed pool of threads and the one loop that uses it. Results never depend on the number of threads: work
// is cut into the same pieces whatever runs them, and a reduction keeps one partial per piece.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace reprise {

/// Threads that `parallel_for` may use, the caller included. Starts at REPRISE_NUM_THREADS (Error if that is
/// no number from 1 to 1024), else the CPUs this process may run on. Where the system refuses to start as
/// many, there are fewer, and a warning on stderr says so once. The child of a fork starts its own.
int num_threads();

/// Sets the number of threads; Error if `count` is not from 1 to 1024, or inside a parallel_for. Waits for a
/// parallel_for that another thread runs.
void set_num_threads(int count);

/// While it lives, every parallel_for of this thread runs on this thread alone and leaves the pool to others: for threads
/// that work beside a computation, such as those that decode images, and would take its threads from it.
class SerialScope {
 public:
  SerialScope();
  ~SerialScope();
  SerialScope(const SerialScope&) = delete;
};

namespace detail {
/// A borrowed callable: two words, no allocation.
class TaskRef {
 public:
  template <class Body>
  requires(
      !std::is_same_v<std::remove_cv_t<Body>, TaskRef>)  // a copy is a copy, not a reference to a TaskRef
      explicit TaskRef(Body& body)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(body)))),
        call_([](void* object, int64_t i) { (*static_cast<Body*>(object))(i); }) {}
  void operator()(int64_t i) const { call_(object_, i); }

 private:
  void* object_;
  void (*call_)(void*, int64_t);
};
void run_tasks(int64_t count, TaskRef task);
}  // namespace detail

/// Calls `body(i)` for each i in [0, count), in any order, on the pool. Nested calls run on the calling
/// thread. The first exception thrown by a body is rethrown here once all have stopped.
template <class Body>
void parallel_tasks(int64_t count, Body&& body) {
  reprise::detail::run_tasks(count, reprise::detail::TaskRef(body));
}

/// Cuts [0, size) into pieces of `grain` and calls `body(begin, end)` for each. The cut depends on `size` and
/// `grain` alone.
template <class Body>
void parallel_for(int64_t size, int64_t grain, Body&& body) {
  grain = std::max<int64_t>(grain, 1);
  auto piece = [&](int64_t i) { body(i * grain, std::min(size, (i + 1) * grain)); };
  parallel_tasks((size + grain - 1) / grain, piece);
}

}  // namespace reprise
