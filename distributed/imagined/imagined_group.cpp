#include "reprise/distributed/imagined/imagined_group.h"

#include "reprise/core/no_compute.h"

namespace reprise::distributed {
namespace {

class ImaginedRanks final : public Transport {
 public:
  ImaginedRanks(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

  bool is_imagined() const override { return true; }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  void post(int, uint64_t, const Note&) override { refuse(); }
  Note take(int, uint64_t, Clock::time_point) override { refuse(); }
  void exchange(uint64_t, std::span<const Send>, std::span<const Receive>, Clock::time_point) override {
    if (!NoCompute::is_on()) refuse();
  }
  std::optional<Failure> failure() const override { return {}; }
  Failure explain(const Failure& own) override { return own; }
  void fail(const Failure&) override {}
  void leave(const std::string&) override {}

 private:
  [[noreturn]] void refuse() const {
    throw TransportError(
        {FailureKind::transport, rank_,
         "the other ranks are imagined (imagined_group): calls are for code within a NoCompute"});
  }

  const int rank_, ranks_;
};

}  // namespace

std::unique_ptr<ProcessGroup> imagined_group(int rank, int ranks) {
  check(rank >= 0 && rank < ranks, "imagined_group: there is no rank ", rank, " among ", ranks);
  return ProcessGroup::over(std::make_shared<ImaginedRanks>(rank, ranks));
}

}  // namespace reprise::distributed
