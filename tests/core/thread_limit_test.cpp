// Threads that the system refuses to start: there are fewer, and the program goes on.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <string>

#include "reprise/core/error.h"
#include "reprise/core/parallel.h"
#include "reprise/core/tensor.h"
#include "reprise/tests/support/child.h"

namespace reprise {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool memory_can_be_limited = false;  // the sanitizer's own has no limit
#else
constexpr bool memory_can_be_limited = true;
#endif

// Room for some stacks of 8 MiB, beyond what is there.
void limit_memory(size_t more_bytes) {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlim_t bytes = pages * 4096 + more_bytes;
  rlimit limit{bytes, bytes};
  setrlimit(RLIMIT_AS, &limit);
}

TEST(ThreadLimit, LeavesFewerThreadsAndMemoryForTheRestAndSaysSoOnce) {
  if (!memory_can_be_limited) GTEST_SKIP();
  auto more_threads_than_fit = [] {
    limit_memory(size_t(300) << 20);
    ::testing::internal::CaptureStderr();
    for (int asked : {1000, 900, 1000}) {
      set_num_threads(asked);
      if (num_threads() >= 100) return 1;
      std::atomic<int64_t> sum = 0;
      parallel_tasks(1000, [&](int64_t i) { sum += i; });
      Tensor x = Tensor::zeros({10'000'000});
      if (sum != 499'500) return 2;
    }
    std::string said = ::testing::internal::GetCapturedStderr();
    return said.find("not all of 1000 threads") == 9 && said.find('\n') == said.size() - 1 ? 0 : 3;
  };
  EXPECT_EQ(testing::outcome_of_child(more_threads_than_fit), "exit 0");
}

// What a program that starts with this environment ends with: its number of threads, or 99 for the Error.
[[noreturn]] void end_with_threads() {
  try {
    std::_Exit(num_threads());
  } catch (const Error& error) {
    bool named = std::string(error.what()).find("REPRISE_NUM_THREADS: needs a number from 1 to 1024") == 0;
    std::_Exit(named ? 99 : 98);
  }
}

TEST(ThreadLimitDeathTest, TheEnvironmentIsANumberOfThreadsOrAnError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a new process, whose pool has not started
  auto expect = [](const char* text, int code) {
    setenv("REPRISE_NUM_THREADS", text, 1);
    EXPECT_EXIT(end_with_threads(), ::testing::ExitedWithCode(code), "") << text;
    unsetenv("REPRISE_NUM_THREADS");
  };
  expect("1", 1);
  expect("3", 3);
  for (const char* wrong : {"", "0", "-1", "1025", "two", "2 ", " 2", "+2", "2.0", "99999999999999999999"})
    expect(wrong, 99);
}

}  // namespace
}  // namespace reprise
