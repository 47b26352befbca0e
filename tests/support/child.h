// A child process for one question: what it answers, or which signal ended it. A child that hangs is ended by
// its alarm.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace reprise::testing {
inline const pid_t first_process = getpid();
}

// LeakSanitizer asks this at the end of a process. A forked child holds what the parent's other threads held
// and cannot give it back: its leaks are not counted.
extern "C" [[gnu::used]] inline int __lsan_is_turned_off() {
  return getpid() != reprise::testing::first_process;
}

// In programs with AddressSanitizer; most tests are compiled without asking for it (tests/CMakeLists.txt).
extern "C" [[gnu::weak]] void __asan_init();

namespace reprise::testing {

constexpr unsigned child_seconds = 60;

/// ThreadSanitizer ends a child that starts threads.
#if defined(__SANITIZE_THREAD__)
constexpr bool children_have_threads = false;
#else
constexpr bool children_have_threads = true;
#endif

inline bool other_threads_sleep() {
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    if (thread.path().filename() == std::to_string(gettid())) continue;
    std::ifstream in(thread.path() / "stat");  // of one that has just ended there is none
    std::string line;
    std::getline(in, line);
    const size_t name_end = line.rfind(") ");
    if (name_end != std::string::npos && line[name_end + 2] != 'S') return false;
  }
  return true;
}

inline std::string describe(int status) {
  if (WIFEXITED(status)) return "exit " + std::to_string(WEXITSTATUS(status));
  return "signal " + std::to_string(WTERMSIG(status));  // 14: its alarm
}

/// Forks, after what is to be written. A fork copies one thread, and what another holds at that moment, such as a lock of
/// AddressSanitizer's malloc, stays held in the child: there it waits until all others sleep, as those of the pool do.
inline pid_t fork_at_rest() {
  std::fflush(nullptr);
  while (&__asan_init && !other_threads_sleep()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return fork();
}

/// Forks. The child calls `body()` and ends by exit() with what it returns.
template <class Body>
std::string outcome_of_child(Body&& body) {
  pid_t child = fork_at_rest();
  if (child == 0) {
    alarm(child_seconds);
    std::exit(body());
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return "no child";
  return describe(status);
}

/// One that was forked already.
inline std::string outcome_of(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child ? describe(status) : "no child";
}

}  // namespace reprise::testing
