// A rank that ends at any call of a save: the newest checkpoint is whole, has the bits of one process, and can be gone on with.
// labels: slow, concurrency
#include <gtest/gtest.h>

#include <fcntl.h>
#include <cerrno>
#include <filesystem>

#include "reprise/tests/train/rank_runs.h"

namespace reprise::train {
namespace {

using testing::TempFolder;

// The thread that makes the k-th call that changes a file, from 0, ends before it, as if its process were killed: from then on
// nothing that it calls has an effect.
class KillingCalls final : public io::FileCalls {
 public:
  explicit KillingCalls(int k) : left_(k) {}
  bool has_killed() const { return is_dead_; }

  int open(const char* path, int flags, mode_t mode) override {
    return flags & O_CREAT && dies() ? -1 : FileCalls::open(path, flags, mode);
  }
  ssize_t write(int descriptor, const void* data, size_t bytes) override {
    return dies() ? -1 : FileCalls::write(descriptor, data, bytes);
  }
  int fsync(int descriptor) override { return dies() ? -1 : FileCalls::fsync(descriptor); }
  int rename(const char* from, const char* to) override { return dies() ? -1 : FileCalls::rename(from, to); }
  int unlink(const char* path) override { return dies() ? -1 : FileCalls::unlink(path); }
  int mkdir(const char* path, mode_t mode) override { return dies() ? -1 : FileCalls::mkdir(path, mode); }

 private:
  // True once it is dead.
  bool dies() {
    errno = EIO;
    if (is_dead_) return true;
    if (left_-- > 0) return false;
    is_dead_ = true;
    throw testing::Killed();
  }
  int left_;
  bool is_dead_ = false;
};

struct KilledSaves : ::testing::TestWithParam<int> {
  static constexpr int64_t before = 2, at_end = 4;

  static void SetUpTestSuite() {
    one = new TempFolder;
    testing::expect_well({}, one->path());
  }
  static void TearDownTestSuite() {
    delete one;
    one = nullptr;
  }
  // Two steps and a save more, in which the rank is killed at its k-th call; false if it makes no more.
  bool kill_at(int k) {
    TempFolder folder;
    std::filesystem::copy(begun.path(), folder.path(), std::filesystem::copy_options::recursive);
    KillingCalls calls(k);
    const std::vector<std::string> errors =
        testing::run({.ranks = 2, .stage = 1, .stop_after = 2, .calls = &calls, .rank_of_calls = GetParam()},
                     folder.path());
    if (!calls.has_killed()) return false;
    const std::string& other = errors[size_t(1 - GetParam())];
    EXPECT_EQ(errors[size_t(GetParam())], "killed") << "call " << k;
    EXPECT_NE(other.find(detail::join("rank ", GetParam(), " aborted: killed")), std::string::npos) << other;
    const int64_t saved = load_checkpoint(folder.path(), true).step;
    EXPECT_TRUE(saved == before || saved == at_end) << "call " << k << ": " << saved;
    testing::expect_same_files(folder.path(), one->path(), saved);
    if (k % 7 != 0) return true;
    testing::expect_well({.ranks = 1}, folder.path());
    testing::expect_same_files(folder.path(), one->path(), testing::steps);
    return true;
  }

  static TempFolder* one;  // one process's run
  TempFolder begun;        // of which step 2 is saved
};
TempFolder* KilledSaves::one = nullptr;

TEST_P(KilledSaves, LeaveAWholeCheckpointAtAnyCall) {
  testing::expect_well({.ranks = 2, .stage = 1, .stop_after = before}, begun.path());
  int k = 0;
  while (kill_at(k) && !HasFailure()) ++k;
  EXPECT_GT(k, 5);
}

INSTANTIATE_TEST_SUITE_P(Ranks, KilledSaves, ::testing::Values(0, 1),
                         [](const auto& of) { return "OfRank" + std::to_string(of.param); });

}  // namespace
}  // namespace reprise::train
