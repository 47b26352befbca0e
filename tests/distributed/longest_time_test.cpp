// Times that options may not give ranks: the clock could not count them.
#include <gtest/gtest.h>

#include "reprise/distributed/gloo/gloo_transport.h"
#include "reprise/distributed/process_group.h"
#include "reprise/distributed/threads/thread_groups.h"
#include "reprise/distributed/transport.h"
#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

using std::chrono::milliseconds;
using testing::expect_error;
using namespace std::chrono_literals;

constexpr milliseconds most = longest_time, more = most + 1ms;

std::string refusal(const char* option, milliseconds time) {
  return detail::join(option, " is ", time.count(), " ms; it is to be from 0 to 16777216000 ms");
}

TEST(LongestTime, HoldsForEachTimeOfAGroup) {
  for (const milliseconds time : {more, milliseconds::max()}) {
    const std::vector<std::pair<GroupOptions, const char*>> bad{{{.timeout = time}, "timeout"},
                                                                {{.peer_timeout = time}, "peer_timeout"},
                                                                {{.notice_after = time}, "notice_after"}};
    for (const auto& [options, name] : bad) {
      const std::string words = refusal(name, time);
      expect_error([&] { ProcessGroup::alone(options); }, "ProcessGroup: ", words);
      expect_error([&] { ProcessGroup::join(options); }, "ProcessGroup: ", words);
      expect_error([&] { make_thread_groups(2, options); }, "ProcessGroup: ", words);
    }
  }
  expect_error([] { ProcessGroup::alone({.notice_after = milliseconds::min()}); },
               refusal("notice_after", milliseconds::min()));
}

TEST(LongestTime, HoldsForAJoin) {
  if (!has_gloo()) GTEST_SKIP();
  const Environment second{.rank = 1, .ranks = 2, .port = 20000};
  expect_error([&] { connect_gloo(second, {.timeout = milliseconds::max()}); },
               refusal("join: timeout", milliseconds::max()));
  expect_error([&] { connect_gloo(second, {.timeout = 1s, .peer_timeout = milliseconds::max()}); },
               refusal("join: peer_timeout", milliseconds::max()));
}

// What another rank would meet is refused before.
TEST(LongestTime, IsCheckedBeforeRanksMeet) {
  setenv("RANK", "1", 1);
  setenv("WORLD_SIZE", "2", 1);
  setenv("MASTER_ADDR", "localhost", 1);
  setenv("MASTER_PORT", "20000", 1);
  expect_error([] { ProcessGroup::join({.timeout = 300ms, .notice_after = more}); },
               refusal("notice_after", more));
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) unsetenv(name);
}

TEST(LongestTime, IsLongEnoughToWaitFor) {
  const auto groups = make_thread_groups(2, {.timeout = most, .peer_timeout = most, .notice_after = most});
  Tensor x = Tensor::zeros({3}), y = Tensor::zeros({3});
  x.fill_(1), y.fill_(2);
  Work first = groups[0]->all_reduce(x), second = groups[1]->all_reduce(y);
  first.wait();
  second.wait();
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(3, 3));
}

}  // namespace
}  // namespace reprise::distributed
