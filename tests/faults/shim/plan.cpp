// Reads the plan from the environment, counts calls and acts at the chosen one. Nothing here allocates: the
// plan may be to let allocations fail.
#include "plan.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace fault {
namespace {

struct Plan {
  char folder[PATH_MAX];
  const char* action;  // "kill", "tear", "short", "pretend", "errno:28", "signal:15"
  const char* only;    // operations that count, ",write,fsync,"; null: all
  const char* bug;
  long at;  // the call that is acted on, from 1; 0: none
  bool always;
  int log, report;
};

Plan plan{};
std::atomic<long> counted{0};

int open_for_append(const char* variable) {
  const char* path = std::getenv(variable);
  if (!path) return -1;
  auto real_open = hidden("open", static_cast<int (*)(const char*, int, ...)>(nullptr));
  int low = real_open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  int high = ::fcntl(low, F_DUPFD_CLOEXEC, 900);  // out of the way of the program's own numbers
  hidden("close", static_cast<int (*)(int)>(nullptr))(low);
  return high;
}

__attribute__((constructor)) void read_environment() {
  const char* folder = std::getenv("FAULT_FOLDER");
  plan.action = std::getenv("FAULT_DO");
  plan.only = std::getenv("FAULT_ONLY");
  plan.bug = std::getenv("FAULT_PLANT");
  plan.at = std::getenv("FAULT_AT") ? std::atol(std::getenv("FAULT_AT")) : 0;
  plan.always = std::getenv("FAULT_ALWAYS") != nullptr;
  plan.log = open_for_append("FAULT_LOG");
  plan.report = open_for_append("FAULT_REPORT");
  if (folder) std::snprintf(plan.folder, sizeof plan.folder, "%s", folder);
}

bool counts(const char* operation) {
  if (!plan.only) return true;
  char word[32];
  std::snprintf(word, sizeof word, ",%s,", operation);
  return std::strstr(plan.only, word) != nullptr;
}

bool action_is(const char* name) { return std::strncmp(plan.action, name, std::strlen(name)) == 0; }

void report(long call, const char* operation, const char* path) {
  if (plan.report < 0) return;
  char line[PATH_MAX + 64];
  int length = std::snprintf(line, sizeof line, "%ld %s %s\n", call, operation, path);
  iovec part{line, size_t(length)};
  if (::writev(plan.report, &part, 1) < 0) std::abort();
}

}  // namespace

bool watched(const char* path) {
  size_t length = std::strlen(plan.folder);
  return length > 0 && std::strncmp(path, plan.folder, length) == 0 && (path[length] == '/' || !path[length]);
}

bool planted(const char* bug) { return plan.bug && std::strcmp(plan.bug, bug) == 0; }

void kill_now() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

Verdict decide(const char* operation, const char* path) {
  if (!plan.action || plan.at == 0 || !counts(operation)) return Verdict::proceed;
  long call = ++counted;
  if (call != plan.at && !(plan.always && call > plan.at)) return Verdict::proceed;
  report(call, operation, path);
  if (action_is("kill")) kill_now();
  if (action_is("tear") || action_is("short")) return Verdict::shorten;
  if (action_is("pretend")) return Verdict::pretend;
  if (action_is("signal:")) ::kill(::getpid(), std::atoi(plan.action + std::strlen("signal:")));
  if (!action_is("errno:")) return Verdict::proceed;
  errno = std::atoi(plan.action + std::strlen("errno:"));
  return Verdict::fail;
}

void log_operation(const char* operation, int descriptor, long long number, const char* path, const char* to,
                   const void* data, size_t bytes) {
  if (plan.log < 0) return;
  struct {
    char operation[12];
    int32_t descriptor;
    int64_t number;
    uint32_t path_bytes, to_bytes, data_bytes;
  } head{};
  std::snprintf(head.operation, sizeof head.operation, "%s", operation);
  head.descriptor = descriptor;
  head.number = number;
  head.path_bytes = uint32_t(std::strlen(path));
  head.to_bytes = uint32_t(std::strlen(to));
  head.data_bytes = uint32_t(bytes);
  iovec parts[] = {{&head, 36},
                   {const_cast<char*>(path), head.path_bytes},
                   {const_cast<char*>(to), head.to_bytes},
                   {const_cast<void*>(data), bytes}};
  int kept = errno;
  if (::writev(plan.log, parts, 4) < 0) std::abort();
  errno = kept;
}

void* hidden_function(const char* name) {
  void* found = ::dlsym(RTLD_NEXT, name);
  if (!found) std::abort();
  return found;
}

}  // namespace fault
