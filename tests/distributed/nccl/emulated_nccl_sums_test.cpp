// NCCL's own sums, over its double: what they wait for, what is refused, and how unequal ones end. That they are within the
// bound and the same on all ranks: ring_test.cpp, data_parallel/fast_sums_test.cpp.
// labels: concurrency
#include <gtest/gtest.h>

#include <barrier>
#include <cmath>
#include <functional>
#include <set>
#include <thread>
#include <utility>

#include "reprise/autograd/ops.h"
#include "reprise/core/cuda/emulated_queue.h"
#include "reprise/core/cuda/event.h"
#include "reprise/core/cuda/runtime.h"
#include "reprise/distributed/nccl/nccl_emulated.h"
#include "reprise/tests/distributed/nccl/emulated_rank.h"
#include "reprise/tests/distributed/ranks.h"

namespace reprise::distributed {
namespace {

using cuda::emulated::Streams;
using Rank = testing::EmulatedRank;
using testing::new_id;
using testing::Ranks;
using testing::run_ranks;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class EmulatedNcclSums : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::kinds_with_devices().back() != Ranks::nccl) GTEST_SKIP() << "needs five devices";
  }
  void TearDown() override {
    cuda::emulated::set_streams(before_);
    EXPECT_EQ(emulated::live_communicators(), 0);
  }

 private:
  Streams before_ = cuda::emulated::streams();
};

// 1, 2^24 and -2^24 add to 0 where the 1 is added to one of the others first, else to 1.
TEST_F(EmulatedNcclSums, AreInNoOneOrder) {
  testing::expect_ranks_well(Ranks::nccl, 3, [](ProcessGroup& group) -> std::string {
    const float values[] = {1, std::ldexp(1.0f, 24), -std::ldexp(1.0f, 24)};
    std::set<std::vector<float>> sums;
    for (int call = 0; call < 4; ++call) {
      const Tensor x = Tensor::empty({640}, DType::f32, group.device()).fill_(values[group.rank()]);
      group.ring_sum(x).wait();
      sums.insert(x.to_vector<float>());
    }
    for (const std::vector<float>& one : sums)
      if (std::set<float>(one.begin(), one.end()) != std::set<float>{0, 1}) return "one order within a call";
    return sums.size() > 1 ? "" : "one order in all calls";
  });
}

TEST_F(EmulatedNcclSums, PartsAreInNoOneOrder) {
  testing::expect_ranks_well(Ranks::nccl, 3, [](ProcessGroup& group) -> std::string {
    const float values[] = {1, std::ldexp(1.0f, 24), -std::ldexp(1.0f, 24)};
    const Tensor in = Tensor::empty({3 * 640}, DType::f32, group.device()).fill_(values[group.rank()]),
                 out = Tensor::empty({640}, DType::f32, group.device());
    std::set<std::vector<float>> sums;
    for (int call = 0; call < 4; ++call) {
      group.ring_scatter(out, in).wait();
      sums.insert(out.to_vector<float>());
    }
    for (const std::vector<float>& one : sums)
      if (std::set<float>(one.begin(), one.end()) != std::set<float>{0, 1}) return "one order within a call";
    return sums.size() > 1 ? "" : "one order in all calls";
  });
}

TEST_F(EmulatedNcclSums, AreBehindWhatWritesAndBeforeWhatReads) {
  cuda::emulated::set_streams(Streams::deferred);
  testing::expect_ranks_well(Ranks::nccl, 2, [](ProcessGroup& group) -> std::string {
    for (int round = 0; round < 20; ++round) {
      const Tensor x = Tensor::from<float>({1, 2}, {2}).to(group.device()) * 2.0;
      const Work work = group.ring_sum(x);
      work.wait();
      const Tensor y = x * 3.0;
      if (y.to_vector<float>() != std::vector<float>{12, 24}) return "read before it was written";
      work.synchronize();
      const Tensor part = Tensor::empty({1}, DType::f32, group.device());
      const Work scattered = group.ring_scatter(part, y * 2.0);
      scattered.wait();
      const Tensor z = part * 3.0;
      if (z.item() != (group.rank() == 0 ? 144 : 288)) return "a part was read before it was written";
      scattered.synchronize();
    }
    return "";
  });
}

TEST_F(EmulatedNcclSums, IntegersWrapAndAnEmptyOneMovesNothing) {
  testing::expect_ranks_well(Ranks::nccl, 3, [](ProcessGroup& group) -> std::string {
    const Tensor bytes = Tensor::from<uint8_t>({200, 1}, {2}).to(group.device());
    group.ring_sum(bytes).wait();
    if (bytes.to_vector<uint8_t>() != std::vector<uint8_t>{88, 3}) return "u8";
    const Tensor large = Tensor::from<int32_t>({1 << 30}, {1}).to(group.device());
    group.ring_sum(large).wait();
    if (large.to_vector<int32_t>()[0] != int32_t(uint32_t(3) << 30)) return "i32";
    const int64_t sent = group.communication().bytes;
    group.ring_sum(Tensor::empty({0}, DType::f32, group.device())).wait();
    if (group.communication().bytes != sent) return "an empty tensor is sent";
    group.ring_sum(Tensor::zeros({300}, DType::f32, group.device())).wait();
    if (group.communication().bytes - sent != 2 * 2 * 400) return "not a ring's share of bytes";
    const Tensor all = Tensor::from<uint8_t>({100, 1, 2}, {3}).to(group.device()),
                 own = Tensor::zeros({1}, DType::u8, group.device());
    const int64_t before = group.communication().bytes;
    group.ring_scatter(own, all).wait();
    if (own.to_vector<uint8_t>()[0] != std::vector<uint8_t>{44, 3, 6}[size_t(group.rank())])
      return "u8, a part";
    group.ring_scatter(own.slice(0, 0, 0), all.slice(0, 0, 0)).wait();
    return group.communication().bytes - before == 2 ? "" : "not a ring's share of bytes, of a part";
  });
}

TEST_F(EmulatedNcclSums, AreComparedBeforeAnythingMoves) {
  for (DType other : {DType::f32, DType::i32}) {
    const auto wrong = run_ranks(Ranks::nccl, 2, [&](ProcessGroup& group) -> std::string {
      const bool is_first = group.rank() == 0;
      const DType dtype = is_first ? DType::f32 : other;
      group.ring_sum(Tensor::zeros({is_first ? 3 : 4}, dtype, group.device()), "gradients").synchronize();
      return "";
    });
    for (const std::string& one : wrong)
      EXPECT_TRUE(has(one, "mismatch: ") && has(one, "ring_sum f32 (3,) on cuda \"gradients\"")) << one;
  }
}

TEST_F(EmulatedNcclSums, TheDoubleReportsMisuse) {
  Rank rank(new_id(), 0, 1);
  const Device device = Device::cuda(0);
  const auto stream = static_cast<cudaStream_t>(current_stream(device).handle());
  Tensor x = Tensor::empty({9}, DType::f32, device).fill_(1), host = Tensor::zeros({9});
  cuda::select_device(0);
  auto* data = static_cast<float*>(x.view().data);
  auto sum = [&](const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op) {
    return rank.nccl.all_reduce(in, out, count, type, op, rank.communicator, stream);
  };
  auto last = [&] { return std::string(rank.nccl.get_last_error(rank.communicator)); };
  EXPECT_EQ(sum(data, data, 9, ncclFloat32, ncclAvg), ncclInvalidArgument);
  EXPECT_EQ(sum(data, data, 9, ncclFloat8e4m3, ncclSum), ncclInvalidArgument);
  EXPECT_EQ(sum(host.view().data, data, 9, ncclFloat32, ncclSum), ncclInvalidArgument);
  EXPECT_EQ(last(), "not the memory of a device");
  EXPECT_EQ(sum(data, host.view().data, 9, ncclFloat32, ncclSum), ncclInvalidArgument);
  EXPECT_THROW(sum(data, data, 1 << 20, ncclFloat32, ncclSum), Error) << "beyond its end";
  EXPECT_EQ(sum(data, data + 1, 8, ncclFloat32, ncclSum), ncclInvalidArgument);
  EXPECT_EQ(last(), "what is given and the result overlap");
  auto scatter = [&](const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op) {
    return rank.nccl.reduce_scatter(in, out, count, type, op, rank.communicator, stream);
  };
  EXPECT_EQ(scatter(data, data, 9, ncclFloat32, ncclMax), ncclInvalidArgument);
  EXPECT_EQ(scatter(data, data, 9, ncclFloat8e5m2, ncclSum), ncclInvalidArgument);
  EXPECT_EQ(scatter(data, host.view().data, 9, ncclFloat32, ncclSum), ncclInvalidArgument);
  EXPECT_EQ(last(), "not the memory of a device");
  EXPECT_EQ(scatter(data + 1, data, 8, ncclFloat32, ncclSum), ncclInvalidArgument);
  EXPECT_EQ(last(), "what is given and the result overlap");
  EXPECT_EQ(rank.nccl.group_start(), ncclSuccess);
  EXPECT_EQ(sum(data, data, 9, ncclFloat32, ncclSum), ncclInvalidUsage);
  EXPECT_EQ(last(), "the double takes no collective in a group");
  EXPECT_EQ(rank.nccl.group_end(), ncclSuccess);
  EXPECT_EQ(rank.nccl.broadcast(data, data, 36, ncclUint8, 1, rank.communicator, stream),
            ncclInvalidArgument);
  EXPECT_EQ(last(), "a root that is none");
  EXPECT_EQ(rank.nccl.all_gather(data, data + 1, 8, ncclUint8, rank.communicator, stream),
            ncclInvalidArgument);
  EXPECT_EQ(last(), "what is given and the result overlap");
  cuda::select_device(1);
  EXPECT_EQ(sum(data, data, 9, ncclFloat32, ncclSum), ncclInvalidUsage);
  EXPECT_EQ(last(), "another device than the communicator's");
  cuda::select_device(0);
  EXPECT_EQ(sum(data, data, 9, ncclFloat32, ncclSum), ncclInProgress);
  EXPECT_EQ(sum(data, data, 9, ncclFloat32, ncclSum), ncclInvalidUsage);
  EXPECT_EQ(last(), "a call before the one before is done");
  rank.settle();
  EXPECT_EQ(scatter(data, data, 9, ncclFloat32, ncclSum), ncclInProgress) << "of one rank, in place";
  rank.settle();
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(9, 1));
}

// What rank 1 does while rank 0 adds 8 floats: groups compare calls first, so this is what a bug of theirs would be. Both look for
// `looks` times 3 ms whether it is done.
std::string met_by(const std::function<void(const Rank&, void*, cudaStream_t)>& second, int looks = 100) {
  const ncclUniqueId id = new_id();
  std::string first_is_done;
  std::barrier both_have_looked(2);
  auto run_rank = [&](int place) {
    Rank rank(id, place, 2);
    const Device device = Device::cuda(place);
    const Tensor x = Tensor::zeros({16}, DType::f32, device);
    const auto stream = static_cast<cudaStream_t>(current_stream(device).handle());
    void* data = x.view().data;
    if (place == 0)
      rank.nccl.all_reduce(data, data, 8, ncclFloat32, ncclSum, rank.communicator, stream);
    else
      second(rank, data, stream);
    cuda::Event done(device);
    done.record(current_stream(device));
    for (int i = 0; i < looks && !done.is_done(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    if (place == 0) first_is_done = done.is_done() ? "done" : "waits";
    both_have_looked.arrive_and_wait();  // an abort takes what the other one has not seen yet
    rank.nccl.comm_abort(std::exchange(rank.communicator, nullptr));
    while (!done.is_done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  std::thread other([&] { run_rank(1); });
  run_rank(0);
  other.join();
  return first_is_done;
}

TEST_F(EmulatedNcclSums, UnequalOnesWaitUntilTheyAreAborted) {
  auto sum_of = [](size_t count, ncclDataType_t type) {
    return [=](const Rank& rank, void* data, cudaStream_t stream) {
      EXPECT_EQ(rank.nccl.all_reduce(data, data, count, type, ncclSum, rank.communicator, stream),
                ncclInProgress);
    };
  };
  EXPECT_EQ(met_by(sum_of(8, ncclFloat32), 20'000), "done");  // at once, but on a machine that has other work
  EXPECT_EQ(met_by(sum_of(7, ncclFloat32)), "waits");
  EXPECT_EQ(met_by(sum_of(8, ncclInt32)), "waits");
  EXPECT_EQ(met_by([](const Rank& rank, void* data, cudaStream_t stream) {  // as many bytes from each
              EXPECT_EQ(rank.nccl.reduce_scatter(data, static_cast<float*>(data) + 4, 4, ncclFloat32, ncclSum,
                                                 rank.communicator, stream),
                        ncclInProgress);
            }),
            "waits");
  EXPECT_EQ(met_by([](const Rank& rank, void* data, cudaStream_t stream) {
              EXPECT_EQ(rank.nccl.all_gather(static_cast<char*>(data) + 32, data, 32, ncclUint8,
                                             rank.communicator, stream),
                        ncclInProgress);
            }),
            "waits");
  EXPECT_EQ(met_by([](const Rank& rank, void* data, cudaStream_t stream) {
              EXPECT_EQ(rank.nccl.group_start(), ncclSuccess);
              EXPECT_EQ(rank.nccl.recv(data, 32, ncclUint8, 0, rank.communicator, stream), ncclSuccess);
              EXPECT_EQ(rank.nccl.send(data, 32, ncclUint8, 0, rank.communicator, stream), ncclSuccess);
              EXPECT_EQ(rank.nccl.group_end(), ncclInProgress);
            }),
            "waits");
  emulated::take_misuses();  // its ranks abort beside one another, as channels do not
}

}  // namespace
}  // namespace reprise::distributed
