#include "reprise/tests/distributed/ranks.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "reprise/core/cuda/runtime.h"
#include "reprise/distributed/nccl/nccl_channel.h"
#include "reprise/distributed/threads/thread_groups.h"
#include "reprise/io/crc32c.h"
#include "reprise/tests/support/child.h"
#include "reprise/tests/support/compare.h"

namespace reprise::testing {
namespace {

using distributed::ProcessGroup;

std::string run_body(const RankBody& body, ProcessGroup& group) {
  try {
    return body(group);
  } catch (const distributed::DistributedError& error) {
    return std::string(name_of(error.kind())) + ": " + error.what();
  } catch (const std::exception& error) { return std::string("Error: ") + error.what(); }
}

std::vector<std::string> run_threads(int ranks, const RankBody& body,
                                     const distributed::GroupOptions& options) {
  auto groups = distributed::make_thread_groups(ranks, options);
  std::vector<std::string> wrong(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < wrong.size(); ++rank) {
    threads.emplace_back([&, rank] {
      wrong[rank] = run_body(body, *groups[rank]);
      groups[rank].reset();  // as a process that ends
    });
  }
  for (std::thread& thread : threads) thread.join();
  return wrong;
}

constexpr int most_ranks = 5;  // of a world that tests make

constexpr unsigned rank_seconds = 120;  // then its alarm ends it

}  // namespace

std::vector<distributed::Environment> places_of(int ranks) {
  static int jobs = 0;
  const std::string job = std::to_string(getpid()) + "." + std::to_string(++jobs);
  std::vector<distributed::Environment> places;
  for (int rank = 0; rank < ranks; ++rank)
    places.push_back(
        {.launcher = "test", .rank = rank, .ranks = ranks, .job = job, .port = 20000 + getpid() % 20000});
  return places;
}

StartedPlaces::StartedPlaces(const std::vector<distributed::Environment>& places, const RankBody& body,
                             const distributed::GroupOptions& options,
                             const std::vector<distributed::JoinOptions>& joins) {
  for (size_t i = 0; i < places.size(); ++i)
    children_.push_back(start(body, places[i], options, joins.at(i)));
}

std::vector<std::string> StartedPlaces::outcomes() {
  std::vector<std::string> all;
  for (const Child& child : children_) all.push_back(outcome_of(child));
  return all;
}

StartedPlaces::Child StartedPlaces::start(const RankBody& body, const distributed::Environment& place,
                                          const distributed::GroupOptions& options,
                                          distributed::JoinOptions join) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t pid = fork_at_rest();
  if (pid == 0) {
    alarm(rank_seconds);
    close(ends[0]);
    std::string wrong;
    try {
      join.peer_timeout = options.peer_timeout;
      auto group = ProcessGroup::over(connect_gloo(place, join), options);
      wrong = run_body(body, *group);
    } catch (const distributed::TransportError& error) {
      wrong = std::string(name_of(error.failure().kind)) + ": " + error.what();
    } catch (const std::exception& error) { wrong = std::string("Error: ") + error.what(); }
    const bool is_written = write(ends[1], wrong.data(), wrong.size()) == ssize_t(wrong.size());
    _exit(is_written ? 0 : 1);
  }
  close(ends[1]);
  return {pid, ends[0]};
}

std::string StartedPlaces::outcome_of(const Child& child) {
  std::string text;
  char bytes[4096];
  for (ssize_t n; (n = read(child.from, bytes, sizeof(bytes))) > 0;) text.append(bytes, size_t(n));
  close(child.from);
  int status = 0;
  waitpid(child.pid, &status, 0);
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return text;
}

std::vector<std::string> run_places(const std::vector<distributed::Environment>& places, const RankBody& body,
                                    const distributed::GroupOptions& options,
                                    const distributed::JoinOptions& join) {
  return run_places(places, body, options, std::vector(places.size(), join));
}

std::vector<std::string> run_places(const std::vector<distributed::Environment>& places, const RankBody& body,
                                    const distributed::GroupOptions& options,
                                    const std::vector<distributed::JoinOptions>& joins) {
  return StartedPlaces(places, body, options, joins).outcomes();
}

std::string name_of(Ranks kind) {
  return kind == Ranks::threads ? "threads" : kind == Ranks::gloo ? "gloo" : "nccl";
}

std::vector<Ranks> kinds_of_ranks() {
#if defined(__SANITIZE_THREAD__)
  return {Ranks::threads};  // ThreadSanitizer ends a child that starts threads
#else
  return distributed::has_gloo() ? std::vector{Ranks::threads, Ranks::gloo} : std::vector{Ranks::threads};
#endif
}

std::vector<Ranks> kinds_with_devices() {
  std::vector<Ranks> kinds = kinds_of_ranks();
  setenv("REPRISE_EMULATOR_DEVICES", std::to_string(most_ranks).c_str(), 0);
  if (distributed::has_nccl() && cuda::device_count() >= most_ranks) kinds.push_back(Ranks::nccl);
  return kinds;
}

std::vector<std::string> run_ranks(Ranks kind, int ranks, const RankBody& body,
                                   const distributed::GroupOptions& options) {
  distributed::GroupOptions own = options;
  if (kind == Ranks::nccl) own.device = Device::cuda();
  return kind == Ranks::gloo ? run_places(places_of(ranks), body, own) : run_threads(ranks, body, own);
}

std::string checksum(const Tensor& x) {
  if (!x.defined()) return "none";
  const std::vector<unsigned char> bytes = bytes_of(x.to(Device::cpu()));
  return std::to_string(io::crc32c({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

void expect_ranks_well(Ranks kind, int ranks, const RankBody& body) {
  const std::vector<std::string> wrong = run_ranks(kind, ranks, body);
  for (size_t rank = 0; rank < wrong.size(); ++rank)
    EXPECT_EQ(wrong[rank], "") << "rank " << rank << " of " << ranks << " over " << name_of(kind);
}

}  // namespace reprise::testing
