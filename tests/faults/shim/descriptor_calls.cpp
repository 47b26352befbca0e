// The calls on open files: each is counted, may fail or do half of its work, and is logged once it worked.
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "descriptors.h"
#include "plan.h"

namespace fault {
namespace {

// Half of the bytes; "tear" is the same with the program killed right after.
size_t half(size_t bytes) { return bytes > 1 ? bytes / 2 : bytes; }

bool tears() {
  const char* action = std::getenv("FAULT_DO");
  return action && std::strcmp(action, "tear") == 0;
}

template <class Call>
ssize_t transfer(const char* operation, int descriptor, long long offset, const void* data, size_t bytes,
                 Call&& call) {
  const char* path = path_of(descriptor);
  if (!watched(path)) return call(bytes);
  Verdict verdict = decide(operation, path);
  if (verdict == Verdict::fail) return -1;
  if (verdict == Verdict::pretend) return ssize_t(bytes);
  ssize_t done = call(verdict == Verdict::shorten ? half(bytes) : bytes);
  if (done > 0 && data) log_operation(operation, descriptor, offset, path, "", data, size_t(done));
  if (verdict == Verdict::shorten && tears()) kill_now();
  return done;
}

template <class Call>
int on_descriptor(const char* operation, int descriptor, long long number, Call&& call) {
  const char* path = path_of(descriptor);
  if (!watched(path)) return call();
  Verdict verdict = decide(operation, path);
  if (verdict == Verdict::fail) return -1;
  int result = verdict == Verdict::pretend ? 0 : call();
  if (result == 0 && verdict != Verdict::pretend) log_operation(operation, descriptor, number, path);
  return result;
}

using WriteCall = ssize_t (*)(int, const void*, size_t);
using PreadCall = ssize_t (*)(int, void*, size_t, off_t);
using PwriteCall = ssize_t (*)(int, const void*, size_t, off_t);

}  // namespace
}  // namespace fault

using namespace fault;

extern "C" {

ssize_t write(int descriptor, const void* data, size_t bytes) {
  static auto real = hidden("write", WriteCall(nullptr));
  if (descriptor == 2 && planted("silent")) return ssize_t(bytes);
  return transfer("write", descriptor, -1, data, bytes, [&](size_t n) { return real(descriptor, data, n); });
}

ssize_t pwrite(int descriptor, const void* data, size_t bytes, off_t offset) {
  static auto real = hidden("pwrite", PwriteCall(nullptr));
  return transfer("write", descriptor, offset, data, bytes,
                  [&](size_t n) { return real(descriptor, data, n, offset); });
}

ssize_t read(int descriptor, void* data, size_t bytes) {
  static auto real = hidden("read", static_cast<ssize_t (*)(int, void*, size_t)>(nullptr));
  return transfer("read", descriptor, -1, nullptr, bytes,
                  [&](size_t n) { return real(descriptor, data, n); });
}

ssize_t pread(int descriptor, void* data, size_t bytes, off_t offset) {
  static auto real = hidden("pread", PreadCall(nullptr));
  return transfer("read", descriptor, offset, nullptr, bytes,
                  [&](size_t n) { return real(descriptor, data, n, offset); });
}

ssize_t pread64(int descriptor, void* data, size_t bytes, off_t offset) {
  return pread(descriptor, data, bytes, offset);
}

ssize_t pwrite64(int descriptor, const void* data, size_t bytes, off_t offset) {
  return pwrite(descriptor, data, bytes, offset);
}

int fsync(int descriptor) {
  static auto real = hidden("fsync", static_cast<int (*)(int)>(nullptr));
  if (planted("no_fsync")) return 0;
  return on_descriptor("fsync", descriptor, 0, [&] { return real(descriptor); });
}

int fdatasync(int descriptor) { return fsync(descriptor); }

int ftruncate(int descriptor, off_t length) noexcept {
  static auto real = hidden("ftruncate", static_cast<int (*)(int, off_t)>(nullptr));
  return on_descriptor("ftruncate", descriptor, length, [&] { return real(descriptor, length); });
}

int ftruncate64(int descriptor, off_t length) noexcept { return ftruncate(descriptor, length); }

int flock(int descriptor, int operation) noexcept {
  static auto real = hidden("flock", static_cast<int (*)(int, int)>(nullptr));
  if (planted("no_lock")) return 0;
  return on_descriptor("flock", descriptor, operation, [&] { return real(descriptor, operation); });
}

int fstat(int descriptor, struct stat* status) noexcept {
  static auto real = hidden("fstat", static_cast<int (*)(int, struct stat*)>(nullptr));
  const char* path = path_of(descriptor);
  if (watched(path) && decide("stat", path) == Verdict::fail) return -1;
  return real(descriptor, status);
}

// As on Linux, the descriptor is gone also where close fails.
int close(int descriptor) {
  static auto real = hidden("close", static_cast<int (*)(int)>(nullptr));
  int failed = on_descriptor("close", descriptor, 0, [] { return 0; });
  forget(descriptor);
  int result = real(descriptor);
  return failed ? failed : result;
}

// Where calls are made to fail, a program that waits before it tries again need not wait.
int nanosleep(const struct timespec* time, struct timespec* left) {
  static auto real =
      hidden("nanosleep", static_cast<int (*)(const struct timespec*, struct timespec*)>(nullptr));
  return std::getenv("FAULT_DO") ? 0 : real(time, left);
}

// The planted bug default_signals: the program's handlers are never put in place.
__sighandler_t signal(int number, __sighandler_t handler) noexcept {
  static auto real = hidden("signal", static_cast<__sighandler_t (*)(int, __sighandler_t)>(nullptr));
  return planted("default_signals") ? SIG_DFL : real(number, handler);
}

int sigaction(int number, const struct sigaction* action, struct sigaction* old) noexcept {
  static auto real =
      hidden("sigaction", static_cast<int (*)(int, const struct sigaction*, struct sigaction*)>(nullptr));
  return planted("default_signals") ? 0 : real(number, action, old);
}
}
