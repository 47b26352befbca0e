// The allocator of each device, and the category of each thread.
#include "reprise/core/memory.h"

#include <mutex>

#include "reprise/core/memory_source.h"

namespace reprise {
namespace {

thread_local MemoryCategory category_now = MemoryCategory::activations;

// Allocators are never destroyed: tensors in statics may outlive any order.
Allocator& cuda_allocator(Device device) {
  static std::mutex mutex;
  static auto* allocators = new std::vector<Allocator*>;
  std::lock_guard lock(mutex);
  size_t index = size_t(device.index);
  if (index >= allocators->size() || !(*allocators)[index]) {
    check_device(device);
    allocators->resize(std::max(allocators->size(), index + 1));
    (*allocators)[index] = new Allocator(make_cuda_source(device));
  }
  return *(*allocators)[index];
}

}  // namespace

std::string_view name_of(MemoryCategory category) {
  constexpr std::string_view names[] = {"parameters", "gradients", "optimizer", "activations",
                                        "recompute",  "workspace", "data"};
  return names[size_t(category)];
}

Allocator& allocator(Device device) {
  if (device.is_cuda()) return cuda_allocator(device);
  static Allocator* cpu = new Allocator(make_cpu_source());
  return *cpu;
}

namespace {

// Made while there is one thread: a fork cannot meet it half made.
[[maybe_unused]] const Allocator& made_early = allocator(Device::cpu());

}  // namespace

MemoryScope::MemoryScope(MemoryCategory category) : previous_(category_now) { category_now = category; }
MemoryScope::~MemoryScope() { category_now = previous_; }
MemoryCategory current_memory_category() { return category_now; }

}  // namespace reprise
