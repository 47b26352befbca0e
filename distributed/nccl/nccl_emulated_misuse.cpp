#include "reprise/distributed/nccl/nccl_emulated_misuse.h"

#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>
#include <utility>

#include "reprise/core/cuda/emulated_stream.h"

namespace reprise::distributed::emulated {
namespace {

constexpr std::chrono::milliseconds time_of_abort{1};  // so that a thread that does not wait for it comes by

struct Misuses {
  std::mutex mutex;
  std::vector<std::string> list{};
  ~Misuses() {
    for (const std::string& words : list) std::fprintf(stderr, "emulator: NCCL: %s\n", words.c_str());
  }
};

Misuses& misuses() {
  static Misuses one;
  return one;
}

std::atomic<size_t>& calls_on(cuda::StreamPriority priority) {
  static std::atomic<size_t> normal{0}, high{0};
  return priority == cuda::StreamPriority::high ? high : normal;
}

}  // namespace

std::vector<std::string> take_misuses() {
  std::lock_guard lock(misuses().mutex);
  return std::exchange(misuses().list, {});
}

void report_misuse(const std::string& words) {
  std::lock_guard lock(misuses().mutex);
  misuses().list.push_back(words);
}

void note_stream(void* stream) { ++calls_on(cuda::emulated::priority_of(stream)); }

size_t nccl_calls_on(cuda::StreamPriority priority) { return calls_on(priority); }

Inside::Inside(bool is_abort) : is_abort_(is_abort) {
  const int inside = ++threads, aborting = is_abort ? ++aborts : aborts.load();
  if (inside > 1 && aborting > 0)
    report_misuse("a thread is in NCCL while another one aborts a communicator");
  if (is_abort) std::this_thread::sleep_for(time_of_abort);
}

Inside::~Inside() {
  if (is_abort_) --aborts;
  --threads;
}

}  // namespace reprise::distributed::emulated
