// Guarded device memory: one region of address space, given out by whole pages, closed by mprotect.
#include "reprise/core/cuda/emulated_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string_view>

#include "reprise/core/error.h"

namespace reprise::cuda::emulated {
namespace {

constexpr size_t page = 4096;
constexpr size_t region_bytes = size_t(256) << 30;  // of addresses: memory is taken where it is touched

struct Region {
  char* first = nullptr;
  size_t used = 0;                          // the part that has ever been given out
  std::multimap<size_t, char*> free_pages;  // by size
  bool open = false;
};

Region* region = nullptr;

bool protect(int protection) {
  return region->used == 0 || mprotect(region->first, region->used, protection) == 0;
}

// A signal handler may only write and return: the default action then ends the process at the same place.
void on_fault(int signal, siginfo_t* info, void*) {
  auto* address = static_cast<char*>(info->si_addr);
  if (address >= region->first && address < region->first + region->used) {
    constexpr std::string_view text =
        "emulator: the host touched device memory outside of a kernel or a copy (REPRISE_EMULATOR_GUARD)\n";
    [[maybe_unused]] ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  }
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
}

void reserve_region() {
  void* first = mmap(nullptr, region_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  check(first != MAP_FAILED, "emulator: mmap of ", region_bytes, " bytes of addresses failed");
  region = new Region;
  region->first = static_cast<char*>(first);
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}

size_t in_pages(size_t bytes) { return (bytes + page - 1) / page * page; }

}  // namespace

bool guard_enabled() {
  static const bool enabled = [] {
    const char* text = std::getenv("REPRISE_EMULATOR_GUARD");
    std::string_view value = text ? text : "0";
    check(value == "0" || value == "1", "REPRISE_EMULATOR_GUARD: needs 0 or 1, got '", value, "'");
    return value == "1";
  }();
  return enabled;
}

void* guarded_allocate(size_t bytes) {
  if (!region) reserve_region();
  size_t size = in_pages(bytes);
  char* begin = nullptr;
  if (auto found = region->free_pages.find(size); found != region->free_pages.end()) {
    begin = found->second;
    region->free_pages.erase(found);
  } else {
    if (region->used + size > region_bytes) return nullptr;
    begin = region->first + region->used;
    region->used += size;
    if (region->open) open_guard();
  }
  return begin + (size - bytes) / 256 * 256;
}

void guarded_free(void* data, size_t bytes) noexcept {
  size_t size = in_pages(bytes);
  char* begin = static_cast<char*>(data) - (size - bytes) / 256 * 256;
  madvise(begin, size, MADV_DONTNEED);  // gives the memory back; failing costs memory, nothing else
  region->free_pages.emplace(size, begin);
}

void open_guard() {
  if (!region) return;
  region->open = true;
  invariant(protect(PROT_READ | PROT_WRITE), "emulator: mprotect of ", region->used, " bytes failed");
}

void close_guard() {
  if (!region) return;
  region->open = false;
  protect(PROT_NONE);  // failing costs the guard, nothing else
}

}  // namespace reprise::cuda::emulated
