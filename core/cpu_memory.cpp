// The CPU's memory: from the C library, in huge pages where it is large.
#include <sys/mman.h>

#include <cstdlib>

#include "reprise/core/memory_source.h"

namespace reprise {
namespace {

constexpr size_t alignment = 64;
constexpr size_t huge_page = size_t(2) << 20;

class CpuSource final : public MemorySource {
 public:
  Device device() const override { return Device::cpu(); }
  size_t rounded(size_t bytes) const override { return size_class(bytes, alignment); }

  void* obtain(size_t bytes) override {
    bool large = bytes >= 2 * huge_page;
    size_t to = large ? huge_page : alignment;
    void* data = std::aligned_alloc(to, (bytes + to - 1) / to * to);
    if (data && large) madvise(data, bytes, MADV_HUGEPAGE);  // advice only: failing costs speed, nothing else
    return data;
  }

  void give_back(void* data, size_t) noexcept override { std::free(data); }
};

}  // namespace

std::unique_ptr<MemorySource> make_cpu_source() { return std::make_unique<CpuSource>(); }

}  // namespace reprise
