// Device memory by whole pages of one region, closed by mprotect, and the shadow that says what of it is in use.
#include "reprise/core/cuda/emulated_region.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>

#include "reprise/core/error.h"

namespace reprise::cuda::emulated {
namespace {

constexpr size_t page = 4096;

struct Pages {
  char* first = nullptr;
  size_t used = 0;                          // the part that has ever been given out
  std::multimap<size_t, char*> free_pages;  // by size
  bool open = false;
};

Pages* pages = nullptr;

bool protect(int protection) {
  return pages->used == 0 || mprotect(pages->first, pages->used, protection) == 0;
}

// A signal handler may only write and return: the default action then ends the process at the same place.
void on_fault(int signal, siginfo_t* info, void*) {
  auto* address = static_cast<char*>(info->si_addr);
  if (address >= pages->first && address < pages->first + pages->used) {
    constexpr std::string_view text =
        "emulator: the host touched device memory outside of a kernel or a copy (REPRISE_EMULATOR_GUARD)\n";
    [[maybe_unused]] ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  }
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
}

void* reserve(size_t bytes, int protection) {
  void* first = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return first == MAP_FAILED ? nullptr : first;
}

void reserve_region() {
  auto* first = static_cast<char*>(reserve(Region::bytes, PROT_NONE));
  check(first != nullptr, "emulator: mmap of ", Region::bytes, " bytes of addresses failed");
  pages = new Pages;
  pages->first = first;
  region.first = first;
  region.shadow = static_cast<uint8_t*>(reserve(Region::bytes / 8, PROT_READ | PROT_WRITE));
  pages->open = !guard_enabled();
  if (pages->open) return;
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}

size_t in_pages(size_t bytes) { return (bytes + page - 1) / page * page; }

}  // namespace

Region region;

bool guard_enabled() {
  static const bool enabled = [] {
    const char* text = std::getenv("REPRISE_EMULATOR_GUARD");
    std::string_view value = text ? text : "0";
    check(value == "0" || value == "1", "REPRISE_EMULATOR_GUARD: needs 0 or 1, got '", value, "'");
    return value == "1";
  }();
  return enabled;
}

void* region_allocate(size_t bytes) {
  if (!pages) reserve_region();
  size_t size = in_pages(bytes);
  char* begin = nullptr;
  if (auto found = pages->free_pages.find(size); found != pages->free_pages.end()) {
    begin = found->second;
    pages->free_pages.erase(found);
  } else {
    if (pages->used + size > Region::bytes) return nullptr;
    begin = pages->first + pages->used;
    pages->used += size;
    if (pages->open) open_guard();
  }
  return begin + (size - bytes) / 256 * 256;
}

void region_free(void* data, size_t bytes) noexcept {
  size_t size = in_pages(bytes);
  char* begin = static_cast<char*>(data) - (size - bytes) / 256 * 256;
  madvise(begin, size, MADV_DONTNEED);  // gives the memory back; failing costs memory, nothing else
  pages->free_pages.emplace(size, begin);
}

void open_guard() {
  if (!pages) return;
  pages->open = true;
  invariant(protect(PROT_READ | PROT_WRITE), "emulator: mprotect of ", pages->used, " bytes failed");
}

void close_guard() {
  if (!pages) return;
  pages->open = false;
  protect(PROT_NONE);  // failing costs the guard, nothing else
}

void set_in_use(const void* data, size_t bytes, bool in_use) noexcept {
  if (bytes == 0 || !region.contains(data)) return;
  const size_t first = region.offset(data), end = first + bytes;
  if (in_use) {  // from a multiple of 256
    std::memset(region.shadow + first / 8, 8, bytes / 8);
    if (end % 8) region.shadow[end / 8] = uint8_t(end % 8);
  } else {
    const size_t whole = (first + 7) / 8;
    if (first % 8) region.shadow[first / 8] = std::min(region.shadow[first / 8], uint8_t(first % 8));
    std::memset(region.shadow + whole, 0, (end + 7) / 8 - whole);
  }
}

std::string described(const void* address, size_t count) {
  TextStream text;
  text << count << " bytes ";
  size_t inside = 0;
  while (inside < count && region.is_in_use(address, inside + 1)) ++inside;
  const size_t offset = region.offset(address), last = offset / 8;
  size_t group = last;
  while (group > 0 && last - group < page && region.shadow[group] == 0) --group;
  if (inside > 0)
    text << "of which a buffer has the first " << inside;
  else if (region.shadow[group] == 0)
    text << "where no buffer is near";
  else
    text << "at byte " << offset - (8 * group + region.shadow[group]) << " behind the end of a buffer";
  return text.str();
}

}  // namespace reprise::cuda::emulated
