// Switchboard: where ranks that are threads put what they send, and find what was sent to them.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "reprise/distributed/transport.h"

namespace reprise::distributed {

/// Shared by all ranks; see Transport for the functions.
class Switchboard {
 public:
  explicit Switchboard(int ranks) : left_(size_t(ranks)) {}

  void post(int from, int to, uint64_t tag, const Note& note);
  Note take(int from, int to, uint64_t tag, Clock::time_point deadline);
  void exchange(int rank, uint64_t tag, std::span<const Transport::Send> sends,
                std::span<const Transport::Receive> receives, Clock::time_point deadline);
  /// The first failure counts: that one is returned.
  Failure fail(const Failure& failure);
  std::optional<Failure> failure() const;
  void leave(int rank, const std::string& last);

 private:
  using Route = std::tuple<int, int, uint64_t>;  // from, to, tag
  // Memory of a sender that waits in `exchange`.
  struct Posting {
    const void* data;
    size_t bytes;
    enum { waiting, copying, done } state = waiting;
  };
  void wait_for(std::unique_lock<std::mutex>& lock, int rank, Clock::time_point deadline,
                Failure (*late)(int), auto&& ready);
  void receive(std::unique_lock<std::mutex>& lock, int rank, uint64_t tag, const Transport::Receive& into,
               Clock::time_point deadline);
  void withdraw(std::unique_lock<std::mutex>& lock, int rank, uint64_t tag,
                std::span<const Transport::Send> sends, std::deque<Posting>& mine);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Route, std::deque<Note>> notes_;
  std::map<Route, std::deque<Posting*>> postings_;
  std::optional<Failure> failure_;
  std::vector<std::optional<std::string>> left_;  // the last call of each that has
};

}  // namespace reprise::distributed
