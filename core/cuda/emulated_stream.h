// What the emulator's handles point to: streams as queues of closures, events as points in them, graphs as
// recorded closures.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "reprise/core/cuda/capture_mode.h"
#include "reprise/core/cuda/stream_priority.h"

namespace reprise::cuda::emulated {

using Work = std::function<void()>;
struct StreamState;

/// What a piece of work is. Two graphs have one shape if they are the same kinds in the same order.
enum class WorkKind { kernel, copy, set, graph, mark };

struct Recorded {
  WorkKind kind;
  Work run;
};

/// What is captured, in the order of capture, which respects all waits.
struct GraphState {
  std::vector<Recorded> works;
  StreamState* origin = nullptr;
  CaptureMode mode = CaptureMode::relaxed;
  std::thread::id thread;  // which began it
  std::string broken_by;   // the call that made it invalid
  /// Of the other streams that take part: whether nothing waits for their last work yet.
  std::map<StreamState*, bool> unjoined;
};

/// A place in a stream, passed when all before it has run.
struct Point {
  StreamState* stream = nullptr;
  bool passed = false;
  std::chrono::steady_clock::time_point time;
  std::shared_ptr<GraphState> captured;  // if it was made while this graph was captured, of `works` then
  size_t captured_works = 0;
};

struct EventState {
  std::shared_ptr<Point> last;  // where it was last recorded
};

struct StreamState {
  struct Item {
    Work run;
    std::shared_ptr<Point> wait;     // instead of work
    std::function<bool()> is_ready;  // asked before `run`; empty: it always is
  };
  int device = 0;
  StreamPriority priority = StreamPriority::normal;
  std::deque<Item> items;
  std::shared_ptr<GraphState> capture;
  size_t captured_works = 0;  // of the graph's, when this stream last added one
};

/// One lock for all of it, held while work runs too: pieces of work of two streams never run at once.
std::unique_lock<std::recursive_mutex> lock_streams();

StreamState& stream_of(void* handle);  ///< null is the default stream of device 0
StreamPriority priority_of(void* handle);
StreamState* add_stream(int device);
void remove_stream(StreamState* stream);
std::vector<std::shared_ptr<GraphState>> captures_under_way();

void add(StreamState& stream, WorkKind kind, Work work);

// Note [Work that waits for others]
// What one rank's stream does may depend on another rank, a thread of this process or another process (an exchange of
// NCCL's double). Such an item says when it is ready. Who waits for a stream asks it again and again, and gives the lock away
// in between, so that the other rank's calls go on; who only adds work runs what is ready and leaves the rest.

/// Runs the stream's first item, if there is one and it does not wait. False if nothing was done.
bool advance(StreamState& stream);
// These return once it is done. The caller holds the lock once, and no item is running.
void run_all(StreamState& stream);
void run_all_of_device(int device);
void run_until(const std::shared_ptr<Point>& point);
bool runs_at_once(const StreamState& stream);

}  // namespace reprise::cuda::emulated
