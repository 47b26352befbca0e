// Files on POSIX descriptors.
#include "reprise/io/file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "reprise/core/error.h"
#include "reprise/io/file_calls.h"

namespace reprise::io {
namespace {

// Linux moves at most 2 GiB - 4 KiB in one call.
constexpr size_t largest_transfer = size_t(1) << 30;

int open_descriptor(const std::string& path, int flags, const char* op) {
  for (;;) {
    int descriptor = file_calls().open(path.c_str(), flags | O_CLOEXEC, 0666);
    if (descriptor >= 0) return descriptor;
    if (errno != EINTR) fail_with_errno(op, path);
  }
}

}  // namespace

// The name first: where there is no memory for it, nothing is opened, or created and left.
File::File(const std::string& path, int flags, const char* op)
    : path_(path), descriptor_(open_descriptor(path, flags, op)) {}

File File::open(const std::string& path) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer; it has no effect on regular files.
  File file(path, O_RDONLY | O_NONBLOCK, "open");
  file.check_regular();
  return file;
}

File File::create(const std::string& path) {
  return File(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND, "create");
}

File File::append(const std::string& path) {
  File file(path, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK, "append");
  file.check_regular();
  return file;
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) file_calls().close(descriptor_);
}

void File::check_regular() const {
  struct stat status;
  if (::fstat(descriptor_, &status) != 0) fail_with_errno("open", path_);
  check(!S_ISDIR(status.st_mode), "open: ", path_, ": is a folder, not a file");
  check(S_ISREG(status.st_mode), "open: ", path_, ": is not a regular file");
}

uint64_t File::size() const {
  check(descriptor_ >= 0, "size: ", path_, ": the file is closed");
  struct stat status;
  if (::fstat(descriptor_, &status) != 0) fail_with_errno("size", path_);
  return uint64_t(status.st_size);
}

void File::read_at(uint64_t offset, void* data, size_t bytes) const {
  check(descriptor_ >= 0, "read: ", path_, ": the file is closed");
  check(offset <= uint64_t(INT64_MAX) - bytes, "read: ", path_, ": offset ", offset, " is out of range");
  auto* out = static_cast<char*>(data);
  while (bytes > 0) {
    ssize_t got = file_calls().pread(descriptor_, out, std::min(bytes, largest_transfer), off_t(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_with_errno("read", path_);
    check(got > 0, "read: ", path_, ": the file ends at byte ", offset, ", ", bytes, " bytes early");
    out += got;
    offset += uint64_t(got);
    bytes -= size_t(got);
  }
}

void File::write(const void* data, size_t bytes) {
  check(descriptor_ >= 0, "write: ", path_, ": the file is closed");
  const auto* in = static_cast<const char*>(data);
  while (bytes > 0) {
    ssize_t put = file_calls().write(descriptor_, in, std::min(bytes, largest_transfer));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_with_errno("write", path_);
    check(put > 0, "write: ", path_, ": the system took none of ", bytes, " bytes");
    in += put;
    bytes -= size_t(put);
  }
}

void File::write_whole(std::string_view text) {
  uint64_t before = size();
  try {
    write(text);
  } catch (const Error&) {
    // If this fails too, readers still skip the torn line; the first Error says more.
    while (file_calls().ftruncate(descriptor_, off_t(before)) != 0 && errno == EINTR) {}
    throw;
  }
}

void File::sync() {
  check(descriptor_ >= 0, "sync: ", path_, ": the file is closed");
  while (file_calls().fsync(descriptor_) != 0) {
    if (errno != EINTR) fail_with_errno("sync", path_);
  }
}

void File::close() {
  check(descriptor_ >= 0, "close: ", path_, ": the file is closed");
  // On Linux the descriptor is gone even after EINTR: a second close could hit another thread's file.
  if (file_calls().close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR)
    fail_with_errno("close", path_);
}

std::string read_file(const std::string& path, uint64_t most) {
  File file = File::open(path);
  uint64_t size = file.size();
  check(size <= most, "read: ", path, ": has ", size, " bytes; at most ", most, " make sense there");
  std::string bytes;
  try {
    bytes.resize(size);
  } catch (const std::exception&) {  // bad_alloc or length_error
    fail("read: ", path, ": no memory for its ", size, " bytes");
  }
  file.read_at(0, bytes.data(), bytes.size());
  return bytes;
}

void sync_folder(const std::string& folder) {
  int descriptor = open_descriptor(folder, O_RDONLY | O_DIRECTORY, "sync");
  int result = 0;
  while ((result = file_calls().fsync(descriptor)) != 0 && errno == EINTR) {}
  int reason = errno;
  bool closed = file_calls().close(descriptor) == 0 || errno == EINTR;
  if (result == 0 && !closed) fail_with_errno("close", folder);
  errno = reason;
  // Some network file systems cannot sync a folder and say EINVAL; there is nothing more to do there.
  if (result != 0 && reason != EINVAL) fail_with_errno("sync", folder);
}

void make_folders_durable(const std::string& folder) {
  check(!folder.empty(), "make folder: the name is empty");
  for (size_t end = 0; end < folder.size();) {
    end = std::min(folder.find('/', end + 1), folder.size());
    std::string path = folder.substr(0, end);
    std::error_code unseen;  // what is wrong with a path that cannot be looked at, making it tells better
    if (std::filesystem::is_directory(path, unseen)) continue;
    // Another process may have made it meanwhile, but not yet durable.
    bool is_made = file_calls().mkdir(path.c_str(), 0777) == 0 ||
                   (errno == EEXIST && std::filesystem::is_directory(path, unseen));
    if (!is_made) fail_with_errno("make folder", path);
    sync_folder(parent_folder(path));
  }
}

std::string parent_folder(const std::string& path) {
  size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace reprise::io
