// The system calls that files are read and written with, behind one seam, so that tests can make each of them
// fail or record their order. Everything else in Reprise writes files through io/file.h.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

namespace reprise::io {

/// The calls as POSIX has them: the same results, the same errno.
class FileCalls {
 public:
  virtual ~FileCalls() = default;
  virtual int open(const char* path, int flags, mode_t mode);
  virtual ssize_t write(int descriptor, const void* data, size_t bytes);
  virtual ssize_t read(int descriptor, void* data, size_t bytes);
  virtual ssize_t pread(int descriptor, void* data, size_t bytes, off_t offset);
  virtual int fsync(int descriptor);
  virtual int ftruncate(int descriptor, off_t bytes);
  virtual int close(int descriptor);
  virtual int rename(const char* from, const char* to);
  virtual int unlink(const char* path);
  virtual int mkdir(const char* path, mode_t mode);
};

/// The calls in force on this thread.
FileCalls& file_calls();

/// Error "op: path: what errno says (errno N)".
[[noreturn]] void fail_with_errno(const char* op, const std::string& path);

/// Puts other calls in force on this thread while it lives.
class FileCallsScope {
 public:
  explicit FileCallsScope(FileCalls& calls);
  ~FileCallsScope();
  FileCallsScope(const FileCallsScope&) = delete;
  FileCallsScope& operator=(const FileCallsScope&) = delete;

 private:
  FileCalls* previous_;
};

}  // namespace reprise::io
