// The CPU's memory: from the C library, in huge pages where it is large; and addresses alone where nothing is computed.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <set>

#include "reprise/core/memory_source.h"
#include "reprise/core/no_compute.h"

namespace reprise {
namespace {

constexpr size_t alignment = 64;
constexpr size_t huge_page = size_t(2) << 20;
constexpr uintptr_t pool_without_pages = 2;  // even: odd ones are graphs'

class CpuSource final : public MemorySource {
 public:
  Device device() const override { return Device::cpu(); }
  size_t rounded(size_t bytes) const override { return size_class(bytes, alignment); }

  void* obtain(size_t bytes) override {
    if (NoCompute::is_on()) return reserve(bytes);
    bool large = bytes >= 2 * huge_page;
    size_t to = large ? huge_page : alignment;
    void* data = std::aligned_alloc(to, (bytes + to - 1) / to * to);
    if (data && large) madvise(data, bytes, MADV_HUGEPAGE);  // advice only: failing costs speed, nothing else
    return data;
  }

  void give_back(void* data, size_t bytes) noexcept override {
    if (without_pages_.erase(data) > 0)
      munmap(data, bytes);
    else
      std::free(data);
  }

  uintptr_t pool_on(uintptr_t stream) const override {
    return NoCompute::is_on() ? pool_without_pages : stream;
  }

  // All of it is 0 again, and pages that something wrote are gone.
  void lend(const MemoryBlock& block) override {
    if (block.pool != pool_without_pages) return;
    if (block.bytes <= NoCompute::small)
      std::memset(block.data, 0, block.bytes);
    else
      madvise(block.data, block.held_bytes, MADV_DONTNEED);
  }

 private:
  // Pages that nothing writes take no memory, and no promise of any.
  void* reserve(size_t bytes) {
    void* data =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) return nullptr;
    without_pages_.insert(data);
    return data;
  }

  std::set<void*> without_pages_;  // the allocator's mutex guards it
};

}  // namespace

std::unique_ptr<MemorySource> make_cpu_source() { return std::make_unique<CpuSource>(); }

}  // namespace reprise
