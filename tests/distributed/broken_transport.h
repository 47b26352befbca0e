// Ranks that are threads, one of which meets something in a call that no other rank has caused.
#pragma once

#include <atomic>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "reprise/distributed/process_group.h"
#include "reprise/distributed/threads/thread_groups.h"

namespace reprise::testing {

/// Which function of a transport throws: on the thread that makes a call, as it is compared, or as its payload moves.
enum class Broken : uint8_t { post, take, exchange };

/// Another transport, in which `act` is called before one function from its k-th call on, from 0.
class BrokenTransport : public distributed::Transport {
 public:
  BrokenTransport(std::shared_ptr<Transport> base, Broken which, int k, std::function<void()> act)
      : base_(std::move(base)), which_(which), left_(k), act_(std::move(act)) {}

  int rank() const override { return base_->rank(); }
  int ranks() const override { return base_->ranks(); }
  void post(int to, uint64_t tag, const distributed::Note& note) override {
    meet(Broken::post);
    base_->post(to, tag, note);
  }
  distributed::Note take(int from, uint64_t tag, distributed::Clock::time_point deadline) override {
    meet(Broken::take);
    return base_->take(from, tag, deadline);
  }
  void exchange(uint64_t tag, std::span<const Send> sends, std::span<const Receive> receives,
                distributed::Clock::time_point deadline) override {
    meet(Broken::exchange);
    base_->exchange(tag, sends, receives, deadline);
  }
  std::optional<distributed::Failure> failure() const override {
    if (lacks_memory_) throw std::bad_alloc();
    return base_->failure();
  }
  std::exception_ptr own_error() const override { return own_error_; }
  /// What a thread of the transport has met.
  void meet_own(std::exception_ptr error) { own_error_ = std::move(error); }
  /// What is asked for about failures, and told, finds no memory.
  void lack_memory() { lacks_memory_ = true; }
  distributed::Failure explain(const distributed::Failure& own) override { return base_->explain(own); }
  void fail(const distributed::Failure& failure) override {
    base_->fail(failure);
    if (lacks_memory_) throw std::bad_alloc();
  }
  void leave(const std::string& last) override { base_->leave(last); }

 private:
  void meet(Broken function) {
    if (function == which_ && left_-- <= 0) act_();
  }

  std::shared_ptr<Transport> base_;
  Broken which_;
  std::atomic<int> left_;
  std::function<void()> act_;
  std::exception_ptr own_error_{};
  bool lacks_memory_ = false;
};

/// The groups of ranks, of which one has such a transport.
inline std::vector<std::unique_ptr<distributed::ProcessGroup>> make_groups_with_broken(
    int ranks, int broken_rank, Broken which, int k, const std::function<void()>& act) {
  std::vector<std::unique_ptr<distributed::ProcessGroup>> groups;
  for (auto& transport : distributed::make_thread_transports(ranks)) {
    if (transport->rank() == broken_rank)
      transport = std::make_shared<BrokenTransport>(std::move(transport), which, k, act);
    groups.push_back(
        distributed::ProcessGroup::over(std::move(transport), {.timeout = std::chrono::seconds(20)}));
  }
  return groups;
}

}  // namespace reprise::testing
