// A CUDA device's memory: pools are streams, fences are events.
#include "reprise/core/memory_source.h"

#include "reprise/core/cuda/runtime.h"

namespace reprise {
namespace {

constexpr size_t alignment = 512;

void* handle_of(uintptr_t pool) { return reinterpret_cast<void*>(pool); }

class CudaSource final : public MemorySource {
 public:
  explicit CudaSource(Device device) : device_(device) {}
  Device device() const override { return device_; }
  size_t rounded(size_t bytes) const override { return size_class(bytes, alignment); }
  void* obtain(size_t bytes) override { return cuda::allocate(device_.index, bytes); }
  void give_back(void* data, size_t bytes) noexcept override {
    cuda::release(device_.index, data);
    (void)bytes;
  }

  uintptr_t current_pool() const override {
    return reinterpret_cast<uintptr_t>(current_stream(device_).handle());
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
};

}  // namespace

std::unique_ptr<MemorySource> make_cuda_source(Device device) {
  check_device(device);
  return std::make_unique<CudaSource>(device);
}

}  // namespace reprise
