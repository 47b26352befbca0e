// The real system calls, and the scope that replaces them.
#include "reprise/io/file_calls.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "reprise/core/error.h"

namespace reprise::io {
namespace {

thread_local FileCalls* replaced = nullptr;

}  // namespace

int FileCalls::open(const char* path, int flags, mode_t mode) { return ::open(path, flags, mode); }
ssize_t FileCalls::write(int descriptor, const void* data, size_t bytes) {
  return ::write(descriptor, data, bytes);
}
ssize_t FileCalls::read(int descriptor, void* data, size_t bytes) { return ::read(descriptor, data, bytes); }
ssize_t FileCalls::pread(int descriptor, void* data, size_t bytes, off_t offset) {
  return ::pread(descriptor, data, bytes, offset);
}
int FileCalls::fsync(int descriptor) { return ::fsync(descriptor); }
int FileCalls::ftruncate(int descriptor, off_t bytes) { return ::ftruncate(descriptor, bytes); }
int FileCalls::close(int descriptor) { return ::close(descriptor); }
int FileCalls::rename(const char* from, const char* to) { return ::rename(from, to); }
int FileCalls::unlink(const char* path) { return ::unlink(path); }
int FileCalls::mkdir(const char* path, mode_t mode) { return ::mkdir(path, mode); }

FileCalls& file_calls() {
  static FileCalls real;  // holds no state
  return replaced != nullptr ? *replaced : real;
}

void fail_with_errno(const char* op, const std::string& path) {
  int reason = errno;
  fail(op, ": ", path, ": ", std::strerror(reason), " (errno ", reason, ")");
}

FileCallsScope::FileCallsScope(FileCalls& calls) : previous_(replaced) { replaced = &calls; }
FileCallsScope::~FileCallsScope() { replaced = previous_; }

}  // namespace reprise::io
