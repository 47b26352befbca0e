// What the fuzzers share: hostile bytes as a file, and the two promises of every reader of them: nothing but
// an Error comes out, and memory stays below twice the bytes plus 1 MiB.
#pragma once

#include <sanitizer/allocator_interface.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "reprise/core/error.h"

namespace reprise::fuzz {

/// Ends the program unless `ok`: libFuzzer then keeps the input.
inline void require(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

inline std::atomic<int64_t> live_bytes{0}, peak_bytes{0};

inline void count_malloc(const volatile void*, size_t bytes) {
  int64_t now = live_bytes += int64_t(bytes);
  if (now > peak_bytes) peak_bytes = now;
}
inline void count_free(const volatile void* address) {
  if (address != nullptr)
    live_bytes -= int64_t(__sanitizer_get_allocated_size(const_cast<const void*>(address)));
}

/// Runs `body` on a reader of `bytes` bytes: whether it ended without an Error. Any other exception escapes,
/// and memory beyond the promise ends the program; `beside` bytes of it are for what is read, not for reading.
template <class Body>
bool reads(size_t bytes, Body&& body, int64_t beside = 0) {
  static int installed = __sanitizer_install_malloc_and_free_hooks(count_malloc, count_free);
  require(installed > 0, "the sanitizer takes no hooks");
  int64_t before = live_bytes;
  peak_bytes = before;
  bool fine = true;
  try {
    body();
  } catch (const Error&) { fine = false; }
  int64_t used = peak_bytes - before, most = 2 * int64_t(bytes) + (1 << 20) + beside;
  if (used > most) {
    std::fprintf(stderr, "fuzz: %lld bytes of memory for %zu bytes of input\n", (long long)used, bytes);
    std::abort();
  }
  return fine;
}

/// A folder in memory for the files of this process, made once.
inline const std::string& folder() {
  struct Folder {
    std::string path = "/dev/shm/reprise_fuzz_" + std::to_string(::getpid());
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static Folder made;
  return made.path;
}

/// Writes a file into `folder()`; returns its path.
inline std::string write(std::string_view name, std::string_view contents) {
  std::string path = folder() + "/" + std::string(name);
  std::ofstream(path, std::ios::binary).write(contents.data(), std::streamsize(contents.size()));
  return path;
}

inline std::string_view text_of(const uint8_t* data, size_t bytes) {
  return {reinterpret_cast<const char*>(data), bytes};
}

}  // namespace reprise::fuzz
