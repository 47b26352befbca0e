// flock on a file that is never removed: a lock on a removed file would keep no one out.
#include "reprise/train/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "reprise/core/error.h"

namespace reprise::train {
namespace {

constexpr int patience = 15;  // tries: a process that was just killed may need a moment to end

[[noreturn]] void fail_with_errno(const char* op, const std::string& path) {
  int reason = errno;
  fail(op, ": ", path, ": ", std::strerror(reason), " (errno ", reason, ")");
}

// No link is followed: the holder's name is written into the file.
int open_lock(const std::string& path) {
  for (;;) {
    int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (descriptor >= 0) return descriptor;
    if (errno != EINTR) fail_with_errno("lock", path);
  }
}

// Whether `path` is still the file that was opened: the program that removed it may have locked another one.
bool is_still(const std::string& path, int descriptor) {
  struct stat opened, there;
  if (::fstat(descriptor, &opened) != 0) fail_with_errno("lock", path);
  if (::lstat(path.c_str(), &there) != 0) {
    if (errno != ENOENT) fail_with_errno("lock", path);
    return false;
  }
  return opened.st_ino == there.st_ino && opened.st_dev == there.st_dev;
}

std::string contents(int descriptor) {
  std::array<char, 300> text{};
  ssize_t bytes = ::pread(descriptor, text.data(), text.size(), 0);
  std::string holder(text.data(), size_t(std::max<ssize_t>(bytes, 0)));
  while (!holder.empty() && holder.back() == '\n') holder.pop_back();
  for (char& c : holder)
    if (c < ' ' || c > '~') c = '?';
  return holder.empty() ? "another process" : holder;
}

// For people: the lock holds without it, so a full disk is no failure.
void write_holder(int descriptor) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::string holder = "process " + std::to_string(::getpid()) + " on " + host.data() + "\n";
  if (::ftruncate(descriptor, 0) == 0 &&
      ::pwrite(descriptor, holder.data(), holder.size(), 0) != ssize_t(holder.size()))
    errno = 0;
}

}  // namespace

RunLock::RunLock(const std::string& run_folder, const Tell& tell) {
  std::string path = run_folder + "/" + file_name;
  for (int tries = 0;;) {
    descriptor_ = open_lock(path);
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) {
      try {
        if (is_still(path, descriptor_)) break;
      } catch (const Error&) {
        ::close(std::exchange(descriptor_, -1));
        throw;
      }
    } else if (errno == EWOULDBLOCK && tries++ < patience) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } else if (errno == EWOULDBLOCK) {
      std::string holder = contents(descriptor_);
      ::close(std::exchange(descriptor_, -1));
      fail(run_folder, ": ", holder, " trains there; wait for its end, or choose another folder");
    } else if (errno != EINTR) {
      tell(reprise::detail::join("the file system of ", run_folder, " knows no locks (", std::strerror(errno),
                                 "): see to it that no other process trains there"));
      return;
    }
    ::close(std::exchange(descriptor_, -1));
  }
  write_holder(descriptor_);
}

RunLock::RunLock(RunLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

RunLock::~RunLock() {
  if (descriptor_ < 0) return;
  if (::ftruncate(descriptor_, 0) != 0) errno = 0;  // it is read only where it is held
  ::close(descriptor_);
}

}  // namespace reprise::train
