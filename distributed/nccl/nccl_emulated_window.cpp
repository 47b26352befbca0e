#include "reprise/distributed/nccl/nccl_emulated_window.h"

#include <map>
#include <mutex>

#include "reprise/core/cuda/emulated_memory.h"
#include "reprise/core/cuda/runtime.h"
#include "reprise/core/error.h"
#include "reprise/distributed/nccl/nccl_channel.h"
#include "reprise/distributed/nccl/nccl_emulated_misuse.h"

namespace reprise::distributed::emulated {
namespace {

struct Block {
  void* base;  // of the emulator's memory, which is not aligned
  size_t bytes;
  int windows;  // that it is, of all communicators
};

struct Memory {
  std::mutex mutex;
  std::map<char*, Block> blocks;
};

Memory& memory() {
  static auto* one = new Memory;  // outlives every static that holds device memory
  return *one;
}

// False if no block has these bytes.
bool count_window(char* data, size_t bytes, int change) {
  std::lock_guard lock(memory().mutex);
  const auto next = memory().blocks.upper_bound(data);
  if (next == memory().blocks.begin()) return false;
  auto& [first, block] = *std::prev(next);
  if (data + bytes > first + block.bytes) return false;
  block.windows += change;
  return true;
}

}  // namespace

void* obtain_window_memory(int device, size_t bytes) {
  void* base = cuda::allocate(device, bytes + window_alignment);
  if (!base) return nullptr;
  const auto address = reinterpret_cast<uintptr_t>(base);
  char* data = static_cast<char*>(base) + (window_alignment - address % window_alignment);
  std::lock_guard lock(memory().mutex);
  memory().blocks[data] = {base, bytes, 0};
  return data;
}

bool free_window_memory(void* data) {
  std::lock_guard lock(memory().mutex);
  const auto found = memory().blocks.find(static_cast<char*>(data));
  if (found == memory().blocks.end()) {
    report_misuse("ncclMemFree: memory that is not ncclMemAlloc's, or free already");
    return false;
  }
  if (found->second.windows > 0) {
    report_misuse("ncclMemFree: memory that is a window");
    return false;
  }
  cuda::emulated::free_memory(found->second.base);
  memory().blocks.erase(found);
  return true;
}

Windows::Windows(std::shared_ptr<Mailbox> mailbox, int rank, int ranks)
    : mailbox_(std::move(mailbox)), rank_(rank), ranks_(ranks) {}

Windows::~Windows() {
  for (const Window& window : windows_) count_window(window.data, window.bytes, -1);
}

std::string Windows::begin(void* data, size_t bytes, void** handle, NcclWindows kind) {
  char* first = static_cast<char*>(data);
  if (begun_) return "a window before the one before is done";
  if (reinterpret_cast<uintptr_t>(data) % window_alignment || bytes % window_alignment || !bytes)
    return "a window that is not aligned";
  for (const Window& other : windows_)
    if (first < other.data + other.bytes && other.data < first + bytes) return "two windows overlap";
  if (!count_window(first, bytes, 1)) return "a window of memory that is not ncclMemAlloc's";
  count_window(first, bytes, -1);
  const int number = ++made_;
  begun_ = Begun{{first, bytes, number},
                 handle,
                 kind,
                 detail::join("window ", number, " of ", bytes, " bytes"),
                 std::vector<std::optional<std::string>>(size_t(ranks_))};
  for (int to = 0; to < ranks_; ++to)
    if (to != rank_) mailbox_->put(to, begun_->letter.data(), begun_->letter.size());
  return "";
}

bool Windows::is_settled() {
  if (!begun_) return true;
  bool has_all = true;
  for (int from = 0; from < ranks_; ++from) {
    if (from == rank_) continue;
    std::optional<std::string>& letter = begun_->letters[size_t(from)];
    if (!letter) letter = mailbox_->take(from, begun_->letter.size());
    has_all = has_all && letter == begun_->letter;
  }
  if (has_all) finish();
  return has_all;
}

void Windows::finish() {
  const Begun begun = *std::exchange(begun_, {});
  if (begun.kind == NcclWindows::none_made) return;
  windows_.push_back(begun.window);
  count_window(begun.window.data, begun.window.bytes, 1);
  *begun.handle = &windows_.back();
}

bool Windows::end(void* handle) {
  for (auto window = windows_.begin(); window != windows_.end(); ++window) {
    if (&*window != handle) continue;
    count_window(window->data, window->bytes, -1);
    windows_.erase(window);
    return true;
  }
  return false;
}

std::optional<std::string> Windows::place_of(const void* data, size_t bytes) const {
  const char* first = static_cast<const char*>(data);
  for (const Window& window : windows_) {
    const char* end = window.data + window.bytes;
    if (first >= end || first + bytes <= window.data) continue;
    if (first < window.data || first + bytes > end) return {};
    return detail::join("window ", window.number, " at ", first - window.data);
  }
  return "";
}

}  // namespace reprise::distributed::emulated
