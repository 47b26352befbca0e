#include "reprise/distributed/threads/thread_groups.h"

#include "reprise/distributed/threads/switchboard.h"

namespace reprise::distributed {
namespace {

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(std::shared_ptr<Switchboard> board, int rank, int ranks)
      : board_(std::move(board)), rank_(rank), ranks_(ranks) {}

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  void post(int to, uint64_t tag, const Note& note) override { board_->post(rank_, to, tag, note); }
  Note take(int from, uint64_t tag, Clock::time_point deadline) override {
    return board_->take(from, rank_, tag, deadline);
  }
  void exchange(uint64_t tag, std::span<const Send> sends, std::span<const Receive> receives,
                Clock::time_point deadline) override {
    board_->exchange(rank_, tag, sends, receives, deadline);
  }
  std::optional<Failure> failure() const override { return board_->failure(); }
  Failure explain(const Failure& own) override { return board_->fail(own); }
  void fail(const Failure& failure) override { board_->fail(failure); }
  void leave(const std::string& last) override { board_->leave(rank_, last); }

 private:
  std::shared_ptr<Switchboard> board_;
  int rank_, ranks_;
};

}  // namespace

std::vector<std::shared_ptr<Transport>> make_thread_transports(int ranks) {
  auto board = std::make_shared<Switchboard>(ranks);
  std::vector<std::shared_ptr<Transport>> transports;
  for (int rank = 0; rank < ranks; ++rank)
    transports.push_back(std::make_shared<ThreadTransport>(board, rank, ranks));
  return transports;
}

std::vector<std::unique_ptr<ProcessGroup>> make_thread_groups(int ranks, const GroupOptions& options) {
  check(ranks >= 1, "make_thread_groups: ", ranks, " ranks");
  check_no_tls(options.tls, "ranks that are threads have no connections; leave it out");
  std::vector<std::unique_ptr<ProcessGroup>> groups;
  GroupOptions own = options;
  for (const auto& transport : make_thread_transports(ranks)) {
    if (own.device.is_cuda()) own.device = Device::cuda(options.device.index + transport->rank());
    groups.push_back(ProcessGroup::over(transport, own));
  }
  return groups;
}

}  // namespace reprise::distributed
