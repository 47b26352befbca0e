// Ranks with a device each, over NCCL's double: gradients to the bit, what every failing call of NCCL is told as, and what is
// left behind.
// labels: slow, concurrency
// not in tsan: EmulatedNccl.GptOnAnyRanksHasTheBitsOfOne
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <thread>

#include "reprise/core/cuda/emulated_queue.h"
#include "reprise/core/cuda/stream.h"
#include "reprise/core/memory.h"
#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/distributed/nccl/nccl_channel.h"
#include "reprise/distributed/nccl/nccl_emulated.h"
#include "reprise/distributed/nccl/nccl_emulated_mailbox.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/simt/emulator/sanitizer.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/nn/small_models.h"
#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

using cuda::emulated::Streams;
using testing::checksum;
using testing::Ranks;
using testing::run_ranks;
using namespace std::chrono_literals;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// With their files. A process that was killed may have left one under this process's number.
std::set<std::string> folders_of_the_double() {
  const std::string ours = detail::join("/dev/shm/reprise-nccl-", getpid(), "-");
  std::set<std::string> paths;
  for (const auto& folder : std::filesystem::directory_iterator("/dev/shm")) {
    if (!folder.path().string().starts_with(ours)) continue;
    paths.insert(folder.path().string());
    for (const auto& file : std::filesystem::directory_iterator(folder)) paths.insert(file.path().string());
  }
  return paths;
}

class EmulatedNccl : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::kinds_with_devices().back() != Ranks::nccl) GTEST_SKIP() << "needs five devices";
    folders_before_ = folders_of_the_double();
    emulated::take_misuses();
  }
  void TearDown() override {
    cuda::emulated::set_streams(before_);
    emulated::set_nccl_fault({});
    EXPECT_EQ(emulated::live_communicators(), 0);
    EXPECT_EQ(emulated::take_misuses(), std::vector<std::string>{});
    EXPECT_EQ(folders_of_the_double(), folders_before_);
  }

 private:
  Streams before_ = cuda::emulated::streams();
  std::set<std::string> folders_before_;
};

// A line for each gradient and weight of two steps.
std::string train(ProcessGroup& group, int64_t micro_batches) {
  manual_seed(uint64_t(7 * group.rank() + 3));  // rank 0's weights are taken by all
  nn::GptOptions options = testing::odd_gpt();
  options.dropout = 0.1;
  nn::Gpt model(options, group.device());
  DataParallel parallel(model, group, {.bytes = 4000, .first_bytes = 500});
  optim::AdamW optimizer(optim::decay_matrices(model, 1e-2, 0.1));
  TextStream lines;
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    for (int64_t g : parallel.share(micro_batches)) {
      const uint64_t seed = uint64_t(1000 * step + g);
      manual_seed(seed);
      const Tensor tokens = testing::random_tokens({2, 5}, options.vocab_size, seed).to(group.device());
      const Tensor targets =
          testing::random_tokens({2, 5}, options.vocab_size, seed + 500).to(group.device());
      parallel.backward(cross_entropy(model(tokens), targets), g);
    }
    for (const auto& [name, p] : model.named_parameters())
      lines << step << " d" << name << ' ' << checksum(p.grad()) << '\n';
    optimizer.step();
    for (const auto& [name, p] : model.named_parameters())
      lines << step << ' ' << name << ' ' << checksum(p) << '\n';
  }
  return lines.str();
}

TEST_F(EmulatedNccl, GptOnAnyRanksHasTheBitsOfOne) {
  for (Streams streams : {Streams::eager, Streams::deferred}) {
    cuda::emulated::set_streams(streams);
    for (int64_t micro_batches : {4, 6}) {
      auto body = [&](ProcessGroup& group) { return train(group, micro_batches); };
      const std::string want = run_ranks(Ranks::nccl, 1, body)[0];
      EXPECT_TRUE(has(want, "1 dh.0.")) << want;
      for (const std::string& got : run_ranks(Ranks::nccl, 2, body)) EXPECT_EQ(got, want);
    }
  }
}

std::string sum_twice(ProcessGroup& group) {
  Tensor x = Tensor::from<float>({1, 2, 3}, {3}).to(group.device());
  Work work;
  for (int call = 0; call < 2; ++call) {
    work = group.all_reduce(x, ReduceOp::sum, "x");
    work.wait();
  }
  work.synchronize();  // a call may fail when streams already wait for it
  group.barrier();     // and on another rank alone
  const std::vector<float> want{4, 8, 12};
  return x.to_vector<float>() == want ? "" : "a wrong sum";
}

// What both ranks say once the call number `call` of rank `device` has failed; false where there are not so many.
bool try_fault(int device, int call, int result, const testing::RankBody& body = sum_twice) {
  const std::set<std::string> folders = folders_of_the_double();
  const size_t held = allocator(Device::cuda(device)).stats().allocated;
  emulated::set_nccl_fault(emulated::NcclFault{device, call, result});
  const auto wrong = run_ranks(Ranks::nccl, 2, body, {.timeout = 20s});
  const std::string function = emulated::failed_nccl_function();
  const std::string what =
      detail::join("call ", call, " of rank ", device, ", ", function, ", gives ", result);
  EXPECT_EQ(emulated::live_communicators(), 0) << what;
  EXPECT_EQ(allocator(Device::cuda(device)).stats().allocated, held) << what;
  EXPECT_EQ(folders_of_the_double(), folders) << what;
  if (function.empty()) return false;
  if (wrong[0].empty() &&
      wrong[1].empty()) {  // nothing was in progress any more, or the call is to be asked about
    const bool is_end = function == "ncclCommFinalize" || function == "ncclCommDestroy" ||
                        function == "ncclCommAbort" || function == "ncclCommGetAsyncError";
    EXPECT_TRUE(is_end || result == 7) << what;
    return true;
  }
  for (int rank : {0, 1}) {
    const std::string& one = wrong[size_t(rank)];
    if (rank == device && function == "ncclGetUniqueId") {  // of this rank alone
      EXPECT_TRUE(one.starts_with("Error: NCCL: ncclGetUniqueId: ")) << what << ": " << one;
      continue;
    }
    EXPECT_TRUE(one.starts_with("transport: ") || one.starts_with("left: ")) << what << ": " << one;
    EXPECT_TRUE(has(one, detail::join("rank ", device))) << what << ": " << one;
    EXPECT_TRUE(has(one, function == "ncclCommGetAsyncError" ? "NCCL" : function)) << what << ": " << one;
    EXPECT_TRUE(has(one, "join") || has(one, "all_reduce") || has(one, "ring_sum") || has(one, "barrier") ||
                has(one, "ring_scatter") || has(one, "all_gather") || has(one, "broadcast"))
        << what << ": " << one;
  }
  return true;
}

TEST_F(EmulatedNccl, EveryNcclResult) {
  const int unknown = 15;  // the largest that an ncclResult_t can hold
  const std::vector<int> some{1, unknown}, all{1, 2, 3, 4, 5, 6, 7, unknown};
  testing::expect_ranks_well(Ranks::nccl, 2, sum_twice);
  for (int device : {0, 1})
    for (int result : simt::sanitizer::thread ? some : all) {  // minutes under ThreadSanitizer
      int call = 1;
      while (try_fault(device, call, result) && !HasFailure()) ++call;
      EXPECT_GT(call, 10);
      if (HasFailure()) return;
    }
}

// Sums in the tree's order, sent by rank, are sum_twice.
std::string calls_of_nccl(ProcessGroup& group) {
  const Tensor x = Tensor::from<float>({1, 2, 3}, {3}).to(group.device());
  group.ring_sum(x, "x").wait();
  const Tensor all = Tensor::empty({6}, DType::f32, group.device());
  group.all_gather(all, x, "x").wait();
  group.broadcast(all, 1, "x").wait();
  const Tensor part = Tensor::empty({3}, DType::f32, group.device());
  const Work work = group.ring_scatter(part, all, "x");
  work.wait();
  work.synchronize();
  group.barrier();
  const bool is_right = all.to_vector<float>() == std::vector<float>{2, 4, 6, 2, 4, 6} &&
                        part.to_vector<float>() == std::vector<float>{4, 8, 12};
  return is_right ? "" : "wrong numbers";
}

TEST_F(EmulatedNccl, EveryResultOfItsOwnCollectives) {
  testing::expect_ranks_well(Ranks::nccl, 2, calls_of_nccl);
  std::set<std::string> functions;
  for (int device : {0, 1})
    for (int result : {1, 6, 7}) {
      int call = 1;
      for (; try_fault(device, call, result, calls_of_nccl) && !HasFailure(); ++call)
        functions.insert(emulated::failed_nccl_function());
      EXPECT_GT(call, 5);
      if (HasFailure()) return;
    }
  for (const char* function : {"ncclAllReduce", "ncclReduceScatter", "ncclAllGather", "ncclBroadcast"})
    EXPECT_TRUE(functions.contains(function)) << function;
}

TEST_F(EmulatedNccl, WaitLetsTheHostGoOn) {
  cuda::emulated::set_streams(Streams::deferred);
  testing::expect_ranks_well(Ranks::nccl, 2, [](ProcessGroup& group) -> std::string {
    for (int round = 0; round < 20; ++round) {
      const Tensor x = Tensor::from<float>({1, 2}, {2}).to(group.device());
      const Work work = group.all_reduce(x);
      work.wait();
      const Tensor y = x * 3.0;  // on the current stream, behind the sum
      if (y.to_vector<float>() != std::vector<float>{6, 12}) return "read before it was written";
      work.synchronize();
      if (!work.is_done()) return "not done";
    }
    return "";
  });
}

TEST_F(EmulatedNccl, WaitOnIsForWhatComesOnThatStream) {
  cuda::emulated::set_streams(Streams::deferred);
  testing::expect_ranks_well(Ranks::nccl, 2, [](ProcessGroup& group) -> std::string {
    for (int round = 0; round < 20; ++round) {
      const Tensor x = Tensor::from<float>({1, 2}, {2}).to(group.device());
      const cuda::OwnedStream side(group.device());
      const Work work = group.all_reduce(x);
      work.wait_on(side.get());
      const cuda::StreamScope scope(side.get());
      const Tensor y = x * 3.0;
      if (y.to_vector<float>() != std::vector<float>{6, 12}) return "read before it was written";
      work.synchronize();
    }
    return "";
  });
}

TEST_F(EmulatedNccl, RankThatLeavesIsToldToThoseThatWait) {
  const auto wrong = run_ranks(Ranks::nccl, 3, [](ProcessGroup& group) -> std::string {
    Tensor x = Tensor::zeros({3}, DType::f32, group.device());
    group.all_reduce(x).synchronize();
    group.barrier();  // the first call is over on all
    if (group.rank() == 1) return "gone";
    group.all_reduce(x, ReduceOp::sum, "gradients").synchronize();
    return "no error";
  });
  EXPECT_EQ(wrong[1], "gone");
  for (int rank : {0, 2}) {
    EXPECT_TRUE(has(wrong[size_t(rank)], "left: ")) << wrong[size_t(rank)];
    EXPECT_TRUE(has(wrong[size_t(rank)], "gradients")) << wrong[size_t(rank)];
  }
}

// Where one rank ends the world, the others abort while they, and the other groups of theirs, ask about calls.
TEST_F(EmulatedNccl, NoThreadIsInNcclWhileOneAborts) {
  for (int round = 0; round < 3; ++round) {
    const auto wrong = run_ranks(Ranks::nccl, 4, [](ProcessGroup& group) -> std::string {
      const auto second = group.subgroup({0, 1, 2, 3}, "second");
      Tensor x = Tensor::zeros({3}, DType::f32, group.device()), y = x.clone();
      for (int call = 0;; ++call) {
        if (call == 3 && group.rank() == 3) group.abort("enough");
        const Work work = group.all_reduce(x), other = second->all_reduce(y);
        work.synchronize();
        other.synchronize();
      }
    });
    for (const std::string& one : wrong) EXPECT_TRUE(has(one, "left: ") && has(one, "enough")) << one;
  }
  EXPECT_EQ(emulated::take_misuses(), std::vector<std::string>{});
}

TEST_F(EmulatedNccl, RefusesTensorsElsewhere) {
  const auto wrong = run_ranks(Ranks::nccl, 2, [](ProcessGroup& group) -> std::string {
    const Device other = Device::cuda(1 - group.rank());
    group.all_reduce(Tensor::zeros({3}, DType::f32, other));
    return "";
  });
  EXPECT_TRUE(has(wrong[0], "all_reduce: x is on cuda:1, the group's tensors are on the CPU or cuda:0"))
      << wrong[0];
  testing::expect_ranks_well(Ranks::nccl, 2, [](ProcessGroup& group) -> std::string {
    const Tensor here = Tensor::zeros({2}, DType::f32, group.device()), host = Tensor::zeros({1});
    testing::expect_error([&] { group.all_gather(here, host); }, "all_gather: in is on cpu, out is on cuda:");
    return "";
  });
}

// A group of GPUs takes tensors of the CPU too, which go another way.
TEST_F(EmulatedNccl, ScattersTensorsOfTheCpu) {
  const auto sums = run_ranks(Ranks::nccl, 3, [](ProcessGroup& group) -> std::string {
    const int r = group.rank();
    std::vector<float> values;
    for (int i = 0; i < 6; ++i) values.push_back(float(10 * i + r));
    const Tensor in = Tensor::from(values, {6});
    std::string all;
    for (int way = 0; way < 3; ++way) {
      const Tensor out = Tensor::empty({2});
      if (way == 0) group.reduce_scatter(out, in).wait();
      if (way == 1) group.scatter_nodes(out, {in}, 3).wait();
      if (way == 2) group.ring_scatter(out, in).wait();
      all += detail::join(out.to_vector<float>()[0], ' ', out.to_vector<float>()[1], ' ');
    }
    return all;
  });
  // Part r of three times 10 i, and 0 + 1 + 2.
  EXPECT_EQ(sums[0], "3 33 3 33 3 33 ");
  EXPECT_EQ(sums[2], "123 153 123 153 123 153 ");
}

TEST_F(EmulatedNccl, PlaceIsComparedBetweenRanks) {
  const auto wrong = run_ranks(Ranks::nccl, 2, [](ProcessGroup& group) -> std::string {
    group.all_reduce(Tensor::zeros({3}, DType::f32, group.rank() ? group.device() : Device::cpu())).wait();
    return "";
  });
  for (const std::string& one : wrong) EXPECT_TRUE(has(one, "mismatch: ") && has(one, "on cuda")) << one;
}

TEST_F(EmulatedNccl, TwoRanksOnOneGpuAreRefused) {
  const cuda::DeviceProperties before = cuda::properties(1);
  cuda::DeviceProperties same = before;
  same.bus_id = cuda::properties(0).bus_id;
  cuda::emulated::set_properties(1, same);
  const auto wrong = run_ranks(Ranks::nccl, 3, [](ProcessGroup& group) -> std::string {
    group.barrier();
    return "";
  });
  cuda::emulated::set_properties(1, before);
  for (const std::string& one : wrong)
    EXPECT_TRUE(has(one, "refused: ranks 0 and 1 both use GPU emulated:0")) << one;
}

TEST_F(EmulatedNccl, GpusOfDifferentKindsAreToldOnce) {
  const cuda::DeviceProperties before = cuda::properties(1);
  cuda::DeviceProperties other = before;
  other.name = "Another GPU";
  std::mutex mutex;
  std::vector<std::string> told;
  auto sum_in_groups = [](ProcessGroup& group) -> std::string {
    const auto part = group.subgroup({0, 1, 2}, "part");
    const Tensor x = Tensor::zeros({3}, DType::f32, group.device());
    group.all_reduce(x).synchronize();
    part->all_reduce(x).synchronize();
    return "";
  };
  auto run = [&] {
    return run_ranks(Ranks::nccl, 3, sum_in_groups, {.timeout = 20s, .tell = [&](const std::string& line) {
                                                       std::lock_guard lock(mutex);
                                                       told.push_back(line);
                                                     }});
  };
  EXPECT_EQ(run(), std::vector<std::string>(3));
  EXPECT_EQ(told, std::vector<std::string>());
  cuda::emulated::set_properties(1, other);
  EXPECT_EQ(run(), std::vector<std::string>(3));
  cuda::emulated::set_properties(1, before);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(has(told[0], "ranks have GPUs of different kinds")) << told[0];
  EXPECT_TRUE(has(told[0], "\n  Another GPU (9.0, 132 multiprocessors) on rank 1")) << told[0];
  EXPECT_TRUE(has(told[0], detail::join("\n  ", before.name, " (")) && has(told[0], " on ranks 0 2"))
      << told[0];
}

TEST_F(EmulatedNccl, CallsAreOnStreamsOfHighPriority) {
  using cuda::StreamPriority;
  const size_t high = emulated::nccl_calls_on(StreamPriority::high),
               normal = emulated::nccl_calls_on(StreamPriority::normal);
  testing::expect_ranks_well(Ranks::nccl, 2, calls_of_nccl);
  EXPECT_GT(emulated::nccl_calls_on(StreamPriority::high), high);
  EXPECT_EQ(emulated::nccl_calls_on(StreamPriority::normal), normal);
}

// A world of which a channel hears nothing.
class QuietWorld final : public Transport {
 public:
  int rank() const override { return 0; }
  int ranks() const override { return 2; }
  void post(int, uint64_t, const Note&) override {}
  Note take(int, uint64_t, Clock::time_point) override { return {}; }
  void exchange(uint64_t, std::span<const Send>, std::span<const Receive>, Clock::time_point) override {}
  std::optional<Failure> failure() const override { return {}; }
  Failure explain(const Failure& own) override { return own; }
  void fail(const Failure&) override {}
  void leave(const std::string&) override {}
};

// Groups compare calls first, so this is what a bug of theirs would be.
TEST_F(EmulatedNccl, UnequalMessagesWaitUntilTheyAreAborted) {
  const std::string id = new_nccl_id("lo");
  auto run_rank = [&](int rank) -> std::string {
    const Device device = Device::cuda(rank);
    cuda::select_device(rank);
    const Stream stream = current_stream(device);
    NcclChannel channel({std::make_shared<QuietWorld>(), device, rank, 2, id}, Clock::now() + 10s);
    const Tensor x = Tensor::zeros({8}, DType::u8, device);
    cuda::Event done(device);
    const Transport::Send send{1, x.view().data, 8};
    const Transport::Receive receive{0, x.view().data, 4};
    channel.exchange(stream, {&send, rank == 0 ? 1u : 0u}, {&receive, rank == 1 ? 1u : 0u},
                     Clock::now() + 10s);
    done.record(stream);
    try {
      channel.wait(done, Clock::now() + 300ms);
    } catch (const TransportError& error) {
      for (int i = 0; i < 1000 && !done.is_done(); ++i) std::this_thread::sleep_for(5ms);
      if (!done.is_done()) return "it goes on though it was aborted";
      return name_of(error.failure().kind) == "late" ? "late" : error.what();
    }
    return "done";
  };
  std::string first, second;
  std::thread other([&] { second = run_rank(1); });
  first = run_rank(0);
  other.join();
  EXPECT_EQ(first, "late");
  EXPECT_EQ(second, "late");
}

TEST_F(EmulatedNccl, NoMessageLooksTakenWhileACommunicatorIsAborted) {
  const std::string id = detail::join(getpid(), "-mailbox");
  emulated::Mailbox first(id, 0), second(id, 1);
  std::vector<std::string> messages;
  for (int i = 0; i < 2000; ++i) messages.push_back(first.put(1, "words", 5));
  std::thread other([&] { second.abort(); });
  const std::filesystem::path folder = std::filesystem::path(messages[0]).parent_path();
  int looked_taken = 0;
  while (std::filesystem::exists(folder))
    for (const std::string& message : messages) looked_taken += first.is_taken(message);
  other.join();
  EXPECT_EQ(looked_taken, 0);
  first.abort();
}

TEST_F(EmulatedNccl, ARankMayLeaveBeforeAnotherAsksWhetherAllAreThere) {
  const std::string id = detail::join(getpid(), "-leaves");
  emulated::Mailbox first(id, 0), second(id, 1);
  const std::filesystem::path folder = std::filesystem::path(second.put(0, "words", 5)).parent_path();
  EXPECT_TRUE(first.has_all(2));
  first.leave();
  EXPECT_TRUE(second.has_all(2));
  EXPECT_FALSE(second.has_all(3));
  second.leave();
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(EmulatedNccl, OfAnOlderVersionIsRefused) {
  emulated::set_nccl_version(21805);
  testing::expect_error([] { new_nccl_id("lo"); },
                        "NCCL: its version is 21805, ranks on GPUs need 21900 or newer");
  emulated::set_nccl_version(21900);
  EXPECT_NO_THROW(new_nccl_id("lo"));
  emulated::set_nccl_version({});
}

TEST_F(EmulatedNccl, SetsWhatTheUserHasNot) {
  new_nccl_id("lo");
  EXPECT_STREQ(std::getenv("NCCL_RAS_ENABLE"), "0");
  EXPECT_STREQ(std::getenv("NCCL_SOCKET_IFNAME"), "=lo");
  EXPECT_STREQ(std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT"), "1");
}

}  // namespace
}  // namespace reprise::distributed
