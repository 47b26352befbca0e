// Device memory by whole pages of one region, closed by mprotect, and the shadow that says what of it is in use.
#include "reprise/core/cuda/emulated_region.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <string_view>
#include <utility>

#include "reprise/core/error.h"

namespace reprise::cuda::emulated {
namespace {

constexpr size_t page = 4096;
constexpr size_t most_addresses = size_t(256) << 30, fewest_addresses = size_t(1) << 30;

}  // namespace

// What of the region is given out.
class Pages {
 public:
  bool reserve();
  bool extend(size_t bytes);
  bool protect(int protection) const { return used() == 0 || mprotect(first(), used(), protection) == 0; }
  char* first() const { return region.first_; }
  size_t used() const { return region.used_.load(std::memory_order_relaxed); }

  std::multimap<size_t, char*> free;  // by size
  bool open = false;
};

constinit Region region;

namespace {

Pages* pages = nullptr;

// A signal handler may only write and return: the default action then ends the process at the same place.
void on_fault(int signal, siginfo_t* info, void*) {
  auto* address = static_cast<char*>(info->si_addr);
  if (address >= pages->first() && address < pages->first() + pages->used()) {
    constexpr std::string_view text =
        "emulator: the host touched device memory outside of a kernel or a copy (REPRISE_EMULATOR_GUARD)\n";
    [[maybe_unused]] ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  }
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
}

void add_fault_handler() {
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}

// Addresses alone: no memory, and nothing that counts against a limit of data.
char* reserve_addresses(size_t bytes) {
  void* first = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return first == MAP_FAILED ? nullptr : static_cast<char*>(first);
}

size_t in_pages(size_t bytes) { return (bytes + page - 1) / page * page; }

// With the page behind it.
size_t block_of(size_t bytes) { return in_pages(bytes) + page; }

// Of a block's bytes those before its data.
size_t gap_before(size_t bytes) { return (in_pages(bytes) - bytes) / 256 * 256; }

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

// Less where a limit of addresses (ulimit -v) asks for it.
bool Pages::reserve() {
  for (size_t bytes = most_addresses; bytes >= fewest_addresses; bytes /= 4) {
    char* first = reserve_addresses(bytes + bytes / 8);
    if (!first) continue;
    region.first_ = first;
    region.shadow_ = reinterpret_cast<uint8_t*>(first + bytes);
    region.bytes_.store(bytes, std::memory_order_release);
    open = !guard_enabled();
    if (guard_enabled()) add_fault_handler();
    return extend(page);  // nothing is before the first block either
  }
  return false;
}

// The next `bytes` of the region, and their shadow; false where there is no memory for them.
bool Pages::extend(size_t bytes) {
  const size_t after = used() + bytes;
  if (after > region.bytes_) return false;
  if (open && mprotect(first() + used(), bytes, PROT_READ | PROT_WRITE) != 0) return false;
  if (mprotect(region.shadow_, in_pages(after / 8), PROT_READ | PROT_WRITE) != 0) return false;
  region.used_.store(after, std::memory_order_release);
  return true;
}

void* region_allocate(size_t bytes) {
  if (!pages) {
    pages = new Pages;
    if (!pages->reserve()) {
      delete std::exchange(pages, nullptr);
      return nullptr;
    }
  }
  const size_t size = block_of(bytes);
  char* begin = pages->first() + pages->used();
  if (auto found = pages->free.find(size); found != pages->free.end()) {
    begin = found->second;
    pages->free.erase(found);
  } else if (!pages->extend(size)) {
    return nullptr;
  }
  return begin + gap_before(bytes);
}

void region_free(void* data, size_t bytes) noexcept {
  const size_t size = block_of(bytes);
  char* begin = static_cast<char*>(data) - gap_before(bytes);
  madvise(begin, size, MADV_DONTNEED);  // gives the memory back; failing costs memory, nothing else
  try {
    pages->free.emplace(size, begin);
  } catch (const std::bad_alloc&) {}  // costs addresses
}

void open_guard() {
  if (!pages) return;
  pages->open = true;
  invariant(pages->protect(PROT_READ | PROT_WRITE), "emulator: mprotect of ", pages->used(), " bytes failed");
}

void close_guard() {
  if (!pages) return;
  pages->open = false;
  pages->protect(PROT_NONE);  // failing costs the guard, nothing else
}

void Region::set_in_use(const void* data, size_t bytes, bool in_use) noexcept {
  if (bytes == 0 || !contains(data)) return;
  const size_t first = offset(data), end = first + bytes;
  if (in_use) {  // from a multiple of 256
    std::memset(shadow_ + first / 8, 8, bytes / 8);
    if (end % 8) shadow_[end / 8] = uint8_t(end % 8);
  } else {
    const size_t whole = (first + 7) / 8;
    if (first % 8) shadow_[first / 8] = std::min(shadow_[first / 8], uint8_t(first % 8));
    std::memset(shadow_ + whole, 0, (end + 7) / 8 - whole);
  }
}

std::string Region::described(const void* address, size_t count) const {
  constexpr size_t near_groups = 512;
  size_t inside = 0;
  while (inside < count && is_in_use(address, inside + 1)) ++inside;
  const size_t at = offset(address), here = at / 8, groups = used_ / 8;
  auto where = [&] {
    TextStream text;
    if (inside > 0) {
      text << " of which a buffer has the first " << inside;
      return text.str();
    }
    for (size_t i = 0; i < near_groups; ++i) {
      if (const size_t group = here - i; i <= here && group < groups && shadow_[group] > 0) {
        text << " at byte " << at - (8 * group + shadow_[group]) << " behind a buffer";
        return text.str();
      }
      if (const size_t group = here + i; group < groups && shadow_[group] > 0) {
        text << " at byte " << 8 * group - at << " before a buffer";
        return text.str();
      }
    }
    return std::string(", and no buffer is near");
  };
  return detail::join(count, count == 1 ? " byte" : " bytes", where());
}

}  // namespace reprise::cuda::emulated
