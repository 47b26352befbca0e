// The calls that name or change folders' entries: each is counted, may fail, and is logged once it worked.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>

#include "descriptors.h"
#include "plan.h"

namespace fault {
namespace {

template <class Call>
int change(const char* operation, const Path& path, Call&& call, long long number = 0) {
  if (!watched(path.text)) return call();
  Verdict verdict = decide(operation, path.text);
  if (verdict == Verdict::fail) return -1;
  int result = verdict == Verdict::pretend ? 0 : call();
  if (result >= 0 && verdict != Verdict::pretend) log_operation(operation, -1, number, path.text);
  return result;
}

int open_in(int folder, const char* name, int flags, mode_t mode) {
  static auto real = hidden("openat", static_cast<int (*)(int, const char*, int, ...)>(nullptr));
  Path path(folder, name);
  if (!watched(path.text)) return real(folder, name, flags, mode);
  if (decide(flags & O_DIRECTORY ? "opendir" : "open", path.text) == Verdict::fail) return -1;
  bool there = ::faccessat(AT_FDCWD, path.text, F_OK, 0) == 0;
  int descriptor = real(folder, name, flags, mode);
  if (descriptor < 0) return descriptor;
  remember(descriptor, path.text);
  log_operation(there ? "open" : "create", descriptor, flags, path.text);
  return descriptor;
}

mode_t mode_argument(int flags, va_list& rest) { return flags & O_CREAT ? va_arg(rest, mode_t) : 0; }

// The planted bug late_rename: a folder is renamed only once the next file has been, which breaks the order
// of a save.
char delayed_from[PATH_MAX], delayed_to[PATH_MAX];

int rename_now(const char* from, const char* to) {
  static auto real = hidden("rename", static_cast<int (*)(const char*, const char*)>(nullptr));
  Path path(AT_FDCWD, from), target(AT_FDCWD, to);
  if (!watched(path.text)) return real(from, to);
  Verdict verdict = decide("rename", target.text);
  if (verdict == Verdict::fail) return -1;
  if (verdict == Verdict::pretend) return 0;
  int result = real(from, to);
  if (result == 0) log_operation("rename", -1, 0, path.text, target.text);
  return result;
}

int rename_late(const char* from, const char* to) {
  struct stat status;
  if (::stat(from, &status) == 0 && S_ISDIR(status.st_mode)) {
    ::snprintf(delayed_from, sizeof delayed_from, "%s", from);
    ::snprintf(delayed_to, sizeof delayed_to, "%s", to);
    return 0;
  }
  int result = rename_now(from, to);
  if (delayed_from[0]) rename_now(delayed_from, delayed_to);
  delayed_from[0] = 0;
  return result;
}

}  // namespace
}  // namespace fault

using namespace fault;

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  int result = open_in(AT_FDCWD, path, flags, mode_argument(flags, rest));
  va_end(rest);
  return result;
}

int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  int result = open_in(AT_FDCWD, path, flags, mode_argument(flags, rest));
  va_end(rest);
  return result;
}

int openat(int folder, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  int result = open_in(folder, path, flags, mode_argument(flags, rest));
  va_end(rest);
  return result;
}

int openat64(int folder, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  int result = open_in(folder, path, flags, mode_argument(flags, rest));
  va_end(rest);
  return result;
}

FILE* fopen(const char* path, const char* mode) {
  static auto real = hidden("fopen", static_cast<FILE* (*)(const char*, const char*)>(nullptr));
  Path whole(AT_FDCWD, path);
  if (watched(whole.text) && decide("open", whole.text) == Verdict::fail) return nullptr;
  return real(path, mode);
}

FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }

DIR* opendir(const char* path) {
  static auto real = hidden("opendir", static_cast<DIR* (*)(const char*)>(nullptr));
  Path whole(AT_FDCWD, path);
  if (watched(whole.text) && decide("opendir", whole.text) == Verdict::fail) return nullptr;
  return real(path);
}

int rename(const char* from, const char* to) {
  return planted("late_rename") ? rename_late(from, to) : rename_now(from, to);
}

int unlink(const char* path) noexcept {
  static auto real = hidden("unlink", static_cast<int (*)(const char*)>(nullptr));
  return change("unlink", Path(AT_FDCWD, path), [&] { return real(path); });
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  static auto real = hidden("unlinkat", static_cast<int (*)(int, const char*, int)>(nullptr));
  return change(flags & AT_REMOVEDIR ? "rmdir" : "unlink", Path(folder, path),
                [&] { return real(folder, path, flags); });
}

int remove(const char* path) noexcept {
  static auto real = hidden("remove", static_cast<int (*)(const char*)>(nullptr));
  return change("unlink", Path(AT_FDCWD, path), [&] { return real(path); });
}

int rmdir(const char* path) noexcept {
  static auto real = hidden("rmdir", static_cast<int (*)(const char*)>(nullptr));
  return change("rmdir", Path(AT_FDCWD, path), [&] { return real(path); });
}

int mkdir(const char* path, mode_t mode) noexcept {
  static auto real = hidden("mkdir", static_cast<int (*)(const char*, mode_t)>(nullptr));
  return change("mkdir", Path(AT_FDCWD, path), [&] { return real(path, mode); });
}

int stat(const char* path, struct stat* status) noexcept {
  static auto real = hidden("stat", static_cast<int (*)(const char*, struct stat*)>(nullptr));
  Path whole(AT_FDCWD, path);
  if (watched(whole.text) && decide("stat", whole.text) == Verdict::fail) return -1;
  return real(path, status);
}

int lstat(const char* path, struct stat* status) noexcept {
  static auto real = hidden("lstat", static_cast<int (*)(const char*, struct stat*)>(nullptr));
  Path whole(AT_FDCWD, path);
  if (watched(whole.text) && decide("stat", whole.text) == Verdict::fail) return -1;
  return real(path, status);
}
}
