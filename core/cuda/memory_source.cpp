// A CUDA device's memory: pools are streams, fences are events; and what libraries hand out of it.
#include "reprise/core/memory_source.h"

#include <map>
#include <new>

#include "reprise/core/cuda/library_memory.h"
#include "reprise/core/cuda/runtime.h"

namespace reprise {
namespace {

constexpr size_t alignment = 512;
constexpr uintptr_t of_library =
    4;  // in the number of a pool; a stream's handle is the address of something larger

void* handle_of(uintptr_t pool) { return reinterpret_cast<void*>(pool); }

class CudaSource final : public MemorySource {
 public:
  explicit CudaSource(Device device) : device_(device) {}
  Device device() const override { return device_; }
  size_t rounded(size_t bytes) const override { return size_class(bytes, alignment); }
  void* obtain(size_t bytes) override {
    const cuda::LibraryMemory* library = cuda::LibraryMemoryScope::current();
    if (!library) return cuda::allocate(device_.index, bytes);
    void* data = library->obtain(device_.index, bytes);
    try {
      if (data) libraries_[data] = library;
    } catch (const std::bad_alloc&) {
      library->give_back(device_.index, data);
      throw;
    }
    return data;
  }
  void give_back(void* data, size_t) noexcept override {
    const auto found = libraries_.extract(data);
    if (!found) return cuda::release(device_.index, data);
    found.mapped()->give_back(device_.index, data);
  }

  uintptr_t current_pool() const override {
    return reinterpret_cast<uintptr_t>(current_stream(device_).handle());
  }
  uintptr_t pool_on(uintptr_t stream) const override {
    return cuda::LibraryMemoryScope::current() ? stream + of_library : stream;
  }

  void lend(const MemoryBlock& block) override {
    void* stream = handle_of(block.stream);
    size_t slack = block.held_bytes - block.bytes;
    cuda::mark_memory(block.data, block.bytes, true, stream);
    if (slack) cuda::mark_memory(static_cast<char*>(block.data) + block.bytes, slack, false, stream);
  }
  void take_back(const MemoryBlock& block) noexcept override {
    cuda::mark_memory(block.data, block.bytes, false, handle_of(block.stream));
  }

  void* fence(uintptr_t stream) override {
    check(!cuda::is_capturing(handle_of(stream)), "memory: a captured stream has no fences");
    void* event = cuda::create_event(device_.index);
    cuda::record_event(event, handle_of(stream));
    return event;
  }
  bool has_passed(void* event) override {
    if (!cuda::is_event_done(event)) return false;
    cuda::destroy_event(event);
    return true;
  }
  void wait(void* event) override {
    cuda::synchronize_event(event);
    cuda::destroy_event(event);
  }

 private:
  Device device_;
  std::map<void*, const cuda::LibraryMemory*> libraries_;  // of their blocks; the allocator's mutex guards it
};

}  // namespace

std::unique_ptr<MemorySource> make_cuda_source(Device device) {
  check_device(device);
  return std::make_unique<CudaSource>(device);
}

}  // namespace reprise
