// What is loaded, and who may load.
#include "reprise/core/cuda/emulated_loading.h"

#include <set>
#include <utility>

#include "reprise/core/cuda/emulated_stream.h"
#include "reprise/core/error.h"

namespace reprise::cuda::emulated {
namespace {

using Loaded = std::set<std::pair<int, const void*>>;  // device and kernel

Loaded& loaded() {  // under the lock of all streams
  static auto* all = new Loaded;
  return *all;
}

const char* name_of(CaptureMode mode) {
  return mode == CaptureMode::global        ? "global"
         : mode == CaptureMode::this_thread ? "thread-local"
                                            : "relaxed";
}

bool forbids(const GraphState& capture) {
  if (capture.mode == CaptureMode::this_thread) return capture.thread == std::this_thread::get_id();
  return capture.mode == CaptureMode::global;
}

}  // namespace

void refuse_unsafe(const char* call, const char* what) {
  auto lock = lock_streams();
  const GraphState* forbidding = nullptr;
  for (const std::shared_ptr<GraphState>& capture : captures_under_way())
    if (forbids(*capture)) {
      capture->broken_by = call;
      forbidding = capture.get();
    }
  if (!forbidding) return;
  fail(call, ": ", what, ", which a capture of mode ", name_of(forbidding->mode), " forbids ",
       forbidding->mode == CaptureMode::global ? "all threads" : "the thread that began it");
}

void load_kernel(int device, const void* kernel, const char* name) {
  auto lock = lock_streams();
  if (loaded().contains({device, kernel})) return;
  refuse_unsafe(name, "the first launch of this kernel loads its code");
  loaded().emplace(device, kernel);
}

size_t loaded_kernels(int device) {
  auto lock = lock_streams();
  size_t count = 0;
  for (const auto& [on, kernel] : loaded()) count += on == device;
  return count;
}

void forget_kernels() {
  auto lock = lock_streams();
  loaded().clear();
}

}  // namespace reprise::cuda::emulated
