// Windows of NCCL, over its double: the buckets of DataParallel lie in them, what every failing call of theirs is told as, and what
// is left behind.
// labels: slow, concurrency
// not in tsan: EmulatedNcclWindows.EveryResult
// slow in tsan
#include <gtest/gtest.h>

#include <barrier>
#include <set>
#include <thread>

#include "reprise/autograd/ops.h"
#include "reprise/core/cuda/emulated_queue.h"
#include "reprise/core/cuda/event.h"
#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/distributed/nccl/nccl_channel.h"
#include "reprise/distributed/nccl/nccl_emulated.h"
#include "reprise/simt/emulator/sanitizer.h"
#include "reprise/tests/distributed/nccl/emulated_rank.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

using cuda::emulated::Streams;
using emulated::NcclWindows;
using Rank = testing::EmulatedRank;
using testing::new_id;
using testing::Ranks;
using testing::run_ranks;
using namespace std::chrono_literals;

constexpr int64_t micro_batches = 4;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class EmulatedNcclWindows : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::kinds_with_devices().back() != Ranks::nccl) GTEST_SKIP() << "needs five devices";
    emulated::take_misuses();
  }
  void TearDown() override {
    cuda::emulated::set_streams(before_);
    emulated::set_nccl_fault({});
    emulated::set_nccl_windows(NcclWindows::made);
    EXPECT_EQ(emulated::live_communicators(), 0);
    EXPECT_EQ(emulated::take_misuses(), std::vector<std::string>{});
  }

 private:
  Streams before_ = cuda::emulated::streams();
};

// Three weights, whose gradients at element i are known whole numbers: buckets {third}, {second, first}.
struct Net : nn::Module {
  static constexpr int64_t sizes[] = {300, 20, 2000};
  TensorList weights;
  explicit Net(Device device) {
    for (int64_t n : sizes)
      weights.push_back(
          register_parameter("w" + std::to_string(weights.size()), Tensor::zeros({n}, DType::f32, device)));
  }
  static std::vector<float> slope(int64_t n, int step, int64_t g) {
    std::vector<float> values;
    for (int64_t i = 0; i < n; ++i) values.push_back(float(4 * ((i + n) % 17) + 8 * step + 4 * g));
    return values;
  }
  Tensor loss(int step, int64_t g) const {
    Tensor total;
    for (const Tensor& w : weights) {
      const Tensor x = Tensor::from(slope(w.numel(), step, g), w.shape(), w.device());
      const Tensor part = sum(w * x);
      total = total.defined() ? total + part : part;
    }
    return total;
  }
  // The mean over micro-batches, of which g alone differs.
  static std::vector<float> want(int64_t n, int step) {
    std::vector<float> values = slope(n, step, 0);
    for (float& value : values) value += 6;
    return values;
  }
  std::string wrong(int step) const {
    for (const Tensor& w : weights)
      if (w.grad().to_vector<float>() != want(w.numel(), step))
        return detail::join("wrong gradients of ", w.shape(), " in step ", step);
    return "";
  }
};

constexpr BucketOptions kSmall{.bytes = 4000, .first_bytes = 1000};

std::string step_of(Net& net, DataParallel& parallel, int step) {
  net.zero_grad();
  for (int64_t g : parallel.share(micro_batches)) parallel.backward(net.loss(step, g), g);
  return net.wrong(step);
}

const void* place_of(const Tensor& x) { return x.view().data; }

TEST_F(EmulatedNcclWindows, GradientsLieInThemFromStepToStep) {
  for (Streams streams : {Streams::eager, Streams::deferred})
    for (SumOrder order : {SumOrder::tree, SumOrder::fast}) {
      cuda::emulated::set_streams(streams);
      testing::expect_ranks_well(Ranks::nccl, 2, [&](ProcessGroup& group) -> std::string {
        Net net(group.device());
        DataParallel parallel(net, group, kSmall);
        parallel.set_sum_order(order);
        std::set<const void*> places;
        for (int step = 0; step < 3; ++step) {
          if (const std::string wrong = step_of(net, parallel, step); !wrong.empty()) return wrong;
          for (const Tensor& w : net.weights) places.insert(place_of(w.grad()));
          const Tensor& second = net.weights[1].grad();
          for (const Tensor& first : {net.weights[2].grad(), second})
            if (reinterpret_cast<uintptr_t>(place_of(first)) % window_alignment)
              return "not at a window's begin";
          if (place_of(net.weights[0].grad()) != static_cast<const float*>(place_of(second)) + 20)
            return "not one flat buffer";
        }
        group.barrier();
        const int windows = emulated::live_windows();
        group.barrier();
        if (windows != 2 * 2) return detail::join(windows, " windows, of 2 buckets on 2 ranks");
        return places.size() == 3 ? "" : "a bucket has another buffer in another step";
      });
    }
}

TEST_F(EmulatedNcclWindows, KeptGradientsKeepTheirValues) {
  testing::expect_ranks_well(Ranks::nccl, 2, [](ProcessGroup& group) -> std::string {
    Net net(group.device());
    DataParallel parallel(net, group, kSmall);
    step_of(net, parallel, 0);
    const void* place = place_of(net.weights[2].grad());
    {
      const Tensor kept = net.weights[2].grad();
      if (const std::string wrong = step_of(net, parallel, 1); !wrong.empty()) return wrong;
      if (kept.to_vector<float>() != Net::want(2000, 0)) return "a gradient that is kept has changed";
      if (place_of(net.weights[2].grad()) == place) return "it was sent from there";
    }
    if (const std::string wrong = step_of(net, parallel, 2); !wrong.empty()) return wrong;
    return place_of(net.weights[2].grad()) == place ? "" : "the window is not used again";
  });
}

TEST_F(EmulatedNcclWindows, GradientsThatOneRankKeepsAreAMismatch) {
  const auto wrong = run_ranks(Ranks::nccl, 2, [](ProcessGroup& group) -> std::string {
    Net net(group.device());
    DataParallel parallel(net, group, kSmall);
    step_of(net, parallel, 0);
    const Tensor kept = group.rank() == 0 ? net.weights[2].grad() : Tensor();
    step_of(net, parallel, 1);
    group.barrier();
    return "";
  });
  for (const std::string& one : wrong)
    EXPECT_TRUE(has(one, "mismatch: ") && has(one, "(w2), gradients of an earlier step are kept\"")) << one;
}

TEST_F(EmulatedNcclWindows, ThereAreNoneWhereNotWanted) {
  testing::expect_ranks_well(Ranks::nccl, 2, [](ProcessGroup& group) -> std::string {
    Net net(group.device());
    DataParallel without(net, group, {.windows = false});
    if (const std::string wrong = step_of(net, without, 0); !wrong.empty()) return wrong;
    return emulated::live_windows() == 0 ? "" : "a window";
  });
  testing::expect_ranks_well(Ranks::nccl, 2, [](ProcessGroup& group) -> std::string {
    Net net(group.device());
    DataParallel parallel(net, group, kSmall);
    step_of(net, parallel, 0);
    net.zero_grad();
    parallel.scatter_gradients();
    for (int64_t g : parallel.share(micro_batches)) parallel.backward(net.loss(1, g), g);
    group.barrier();
    return emulated::live_windows() == 0 ? "" : "a window of whole gradients beside a rank's part";
  });
  testing::expect_ranks_well(Ranks::nccl, 2, [](ProcessGroup& group) -> std::string {
    Net net(group.device());
    DataParallel parallel(net, group, kSmall);
    step_of(net, parallel, 0);
    net.zero_grad();
    parallel.set_bucket_hook([](GradientBucket& bucket, ProcessGroup& ranks) {
      return ranks.all_reduce(bucket.sums, ReduceOp::sum, bucket.label);
    });
    for (int step = 1; step < 3; ++step)
      if (const std::string wrong = step_of(net, parallel, step); !wrong.empty()) return wrong;
    group.barrier();
    return emulated::live_windows() == 0 ? "" : "a window of a bucket that a hook sends";
  });
  testing::expect_ranks_well(Ranks::nccl, 1, [](ProcessGroup& group) -> std::string {
    return group.make_window(3, DType::f32).defined() ? "a window of one rank" : "";
  });
}

TEST_F(EmulatedNcclWindows, WithoutThemBucketsLieInOrdinaryMemory) {
  for (NcclWindows kind : {NcclWindows::none_made, NcclWindows::refused, NcclWindows::absent}) {
    emulated::set_nccl_windows(kind);
    std::mutex mutex;
    std::vector<std::string> told;
    const GroupOptions options{.timeout = 60s, .tell = [&](const std::string& line) {
                                 std::lock_guard lock(mutex);
                                 told.push_back(line);
                               }};
    const auto wrong = run_ranks(
        Ranks::nccl, 3,
        [](ProcessGroup& group) -> std::string {
          Net net(group.device());
          for (int round = 0; round < 2; ++round) {
            DataParallel parallel(net, group, kSmall);
            net.zero_grad();
            for (int64_t g : parallel.share(3)) parallel.backward(net.loss(0, g) * 0.75, g);
            std::vector<float> want = Net::slope(20, 0, 1);
            for (float& value : want) value *= 0.75f;
            if (net.weights[1].grad().to_vector<float>() != want) return "wrong gradients";
            if (emulated::live_windows() != 0) return "a window";
          }
          return "";
        },
        options);
    for (const std::string& one : wrong) EXPECT_EQ(one, "");
    const size_t lines = kind == NcclWindows::absent ? 0 : 1;
    ASSERT_EQ(told.size(), lines);
    for (const std::string& line : told) {
      EXPECT_TRUE(line.starts_with("rank 0: NCCL makes no windows")) << line;
      EXPECT_TRUE(line.ends_with(" (bucket 0): from here on there is ordinary memory")) << line;
    }
  }
}

TEST_F(EmulatedNcclWindows, TheirMemoryGoesBackToNccl) {
  testing::expect_ranks_well(Ranks::nccl, 2, [](ProcessGroup& group) -> std::string {
    Allocator& memory = allocator(group.device());
    memory.empty_cache();
    const size_t before = memory.stats().reserved;
    for (int round = 0; round < 2; ++round) {
      Net net(group.device());
      DataParallel parallel(net, group, kSmall);
      step_of(net, parallel, 0);
      if (memory.stats().reserved < before + 2 * 4096 + 8000) return "where are they?";
    }
    group.all_reduce(Tensor::zeros({1}, DType::f32, group.device()))
        .synchronize();  // those of the last round end
    memory.empty_cache();
    return memory.stats().reserved == before ? "" : "some is left";
  });
}

TEST_F(EmulatedNcclWindows, TheirMemoryIsWaitedForBeforeItGoesBack) {
  cuda::emulated::set_streams(Streams::deferred);
  testing::expect_ranks_well(Ranks::nccl, 2, [](ProcessGroup& group) -> std::string {
    group.all_reduce(Tensor::zeros({1}, DType::f32, group.device())).synchronize();
    void* stream = current_stream(group.device()).handle();
    allocator(group.device()).empty_cache();  // else cudaFree of other memory waits
    {
      cuda::LibraryMemoryScope scope(nccl_memory());
      Tensor::zeros({1000}, DType::f32, group.device());
    }
    if (cuda::emulated::pending(stream) == 0) return "nothing is in progress";
    allocator(group.device()).empty_cache();
    return cuda::emulated::pending(stream) == 0 ? "" : "freed while it is written";
  });
}

// Windows that end before their group, and one that does not.
std::string make_and_end(ProcessGroup& group) {
  for (int64_t numel : {100, 3000}) {
    Tensor window = group.make_window(numel, DType::f32, "x");
    if (!window.defined()) return "no window";
    Tensor x = window.slice(0, 0, numel);
    x.fill_(double(group.rank() + 1));
    const Work work = group.ring_sum(x, "x");
    work.wait();
    work.synchronize();
    if (x.to_vector<float>() != std::vector<float>(size_t(numel), 3)) return "a wrong sum";
    if (numel == 100) group.end_window(window);
  }
  group.broadcast(Tensor::zeros({1}, DType::f32, group.device()), 0).synchronize();  // the first one ends
  allocator(group.device()).empty_cache();
  group.barrier();
  return "";
}

// What both ranks say once the call number `call` of rank `device` has failed; false where there are not so many.
bool try_fault(int device, int call, int result, std::set<std::string>& functions) {
  const size_t held = allocator(Device::cuda(device)).stats().allocated;
  emulated::set_nccl_fault(emulated::NcclFault{device, call, result});
  const auto wrong = run_ranks(Ranks::nccl, 2, make_and_end, {.timeout = 20s});
  const std::string function = emulated::failed_nccl_function();
  const std::string what =
      detail::join("call ", call, " of rank ", device, ", ", function, ", gives ", result);
  EXPECT_EQ(emulated::live_communicators(), 0) << what;
  EXPECT_EQ(emulated::live_windows(), 0) << what;
  EXPECT_EQ(emulated::take_misuses(), std::vector<std::string>{}) << what;
  EXPECT_EQ(allocator(Device::cuda(device)).stats().allocated, held) << what;
  if (function.empty()) return false;
  functions.insert(function);
  if (wrong[0].empty() && wrong[1].empty()) {
    // Memory that lacks is asked for again, a rank that leaves harms no other, and what is in progress is asked about.
    const std::set<std::string> harmless{
        "ncclMemAlloc",          "ncclMemFree",      "ncclCommWindowDeregister",
        "ncclCommGetAsyncError", "ncclCommFinalize", "ncclCommDestroy",
        "ncclCommAbort"};
    EXPECT_TRUE(harmless.contains(function) || result == ncclInProgress) << what;
    return true;
  }
  for (int rank : {0, 1}) {
    const std::string& one = wrong[size_t(rank)];
    if (rank == device && function == "ncclGetUniqueId") continue;
    if (rank == device && function == "ncclMemAlloc") {  // before the call, which this rank does not make
      EXPECT_TRUE(one.starts_with(detail::join("Error: NCCL on cuda:", device, ": ncclMemAlloc: "))) << one;
      continue;
    }
    EXPECT_TRUE(one.starts_with("transport: ") || one.starts_with("left: ")) << what << ": " << one;
    EXPECT_TRUE(has(one, detail::join("rank ", device))) << what << ": " << one;
    if (function == "ncclMemAlloc") continue;
    EXPECT_TRUE(has(one, function == "ncclCommGetAsyncError" ? "NCCL" : function)) << what << ": " << one;
  }
  return true;
}

TEST_F(EmulatedNcclWindows, EveryResult) {
  testing::expect_ranks_well(Ranks::nccl, 2, make_and_end);
  EXPECT_EQ(emulated::live_windows(), 0);
  const std::vector<int> some{1, 5},
      all{1, 2, 3, 4, 5, 6, 7, 15};  // 15: the largest that an ncclResult_t can hold
  std::set<std::string> functions;
  for (int device : {0, 1})
    for (int result : simt::sanitizer::thread ? some : all) {
      int call = 1;
      while (try_fault(device, call, result, functions) && !HasFailure()) ++call;
      EXPECT_GT(call, 12);
      if (HasFailure()) return;
    }
  for (const char* function :
       {"ncclMemAlloc", "ncclMemFree", "ncclCommWindowRegister", "ncclCommWindowDeregister"})
    EXPECT_TRUE(functions.contains(function)) << function;
}

TEST_F(EmulatedNcclWindows, NoMemoryForThemIsOutOfMemory) {
  const auto wrong = run_ranks(Ranks::nccl, 2, [](ProcessGroup& group) -> std::string {
    group.barrier();
    Allocator& memory = allocator(group.device());
    memory.empty_cache();
    memory.set_limit(memory.stats().reserved + 1000);
    std::string told = "none";
    try {
      group.make_window(100'000, DType::f32);
    } catch (const OutOfMemory& error) { told = error.what(); }
    memory.set_limit(0);
    return told;
  });
  for (const std::string& one : wrong) EXPECT_TRUE(one.starts_with("out of memory on cuda:")) << one;
}

TEST_F(EmulatedNcclWindows, TheDoubleReportsMisuse) {
  cuda::select_device(0);
  const Nccl& nccl = nccl_library();
  const auto stream = static_cast<cudaStream_t>(current_stream(Device::cuda(0)).handle());
  void *memory = nullptr, *window = nullptr, *other = nullptr;
  ASSERT_EQ(nccl.mem_alloc(&memory, 8192), ncclSuccess);
  char* data = static_cast<char*>(memory);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % window_alignment, 0u);
  ncclComm_t gone = nullptr;
  {
    Rank rank(new_id(), 0, 1);
    gone = rank.communicator;
    auto begin = [&](void* at, size_t bytes, int flags = symmetric_window) {
      return nccl.comm_window_register(rank.communicator, at, bytes, &other, flags);
    };
    auto last = [&] { return std::string(nccl.get_last_error(rank.communicator)); };
    auto sum = [&](char* at, size_t count) {
      return nccl.all_reduce(at, at, count, ncclFloat32, ncclSum, rank.communicator, stream);
    };
    EXPECT_EQ(begin(data, 4096, 0), ncclInvalidArgument) << "not symmetric";
    EXPECT_EQ(begin(data + 64, 4096), ncclInvalidArgument);
    EXPECT_EQ(last(), "a window that is not aligned");
    EXPECT_EQ(begin(data, 4000), ncclInvalidArgument);
    EXPECT_EQ(begin(data, 12288), ncclInvalidArgument);
    EXPECT_EQ(last(), "a window of memory that is not ncclMemAlloc's");
    EXPECT_EQ(nccl.comm_window_register(rank.communicator, data, 4096, &window, symmetric_window),
              ncclInProgress);
    EXPECT_EQ(begin(data + 4096, 4096), ncclInvalidUsage);
    EXPECT_EQ(last(), "a call before the one before is done");
    EXPECT_EQ(window, nullptr) << "it is not there before the call is done";
    rank.settle();
    EXPECT_NE(window, nullptr);
    EXPECT_EQ(begin(data, 8192), ncclInvalidArgument);
    EXPECT_EQ(last(), "two windows overlap");
    EXPECT_EQ(sum(data + 2048, 1024), ncclInvalidArgument) << "2,048 bytes within, and 2,048 beyond";
    EXPECT_EQ(last(), "memory within a window and beyond it");
    EXPECT_EQ(sum(data + 2048, 512), ncclInProgress);
    rank.settle();
    EXPECT_EQ(sum(data + 4096, 1024), ncclInProgress) << "behind it";
    rank.settle();
    EXPECT_EQ(nccl.mem_free(memory), ncclInvalidArgument);
    EXPECT_EQ(nccl.comm_window_deregister(rank.communicator, &other), ncclInvalidArgument);
    EXPECT_EQ(emulated::live_windows(), 1);
  }
  EXPECT_EQ(emulated::live_windows(), 0) << "an abort takes them along";
  EXPECT_EQ(nccl.comm_window_deregister(gone, window), ncclInvalidArgument);
  EXPECT_EQ(nccl.mem_free(memory), ncclSuccess);
  EXPECT_EQ(nccl.mem_free(memory), ncclInvalidArgument);
  EXPECT_EQ(
      emulated::take_misuses(),
      (std::vector<std::string>{
          "a call on memory within a window and beyond it", "ncclMemFree: memory that is a window",
          "ncclCommWindowDeregister: no such window", "ncclCommWindowDeregister: the communicator is gone",
          "ncclMemFree: memory that is not ncclMemAlloc's, or free already"}));
}

TEST_F(EmulatedNcclWindows, ACommunicatorThatEndsWithOneIsReported) {
  cuda::select_device(0);
  const Nccl& nccl = nccl_library();
  void *memory = nullptr, *window = nullptr;
  ASSERT_EQ(nccl.mem_alloc(&memory, 4096), ncclSuccess);
  Rank rank(new_id(), 0, 1);
  nccl.comm_window_register(rank.communicator, memory, 4096, &window, symmetric_window);
  rank.settle();
  EXPECT_EQ(nccl.comm_finalize(rank.communicator), ncclInProgress);
  rank.settle();
  EXPECT_EQ(nccl.comm_destroy(std::exchange(rank.communicator, nullptr)), ncclSuccess);
  EXPECT_EQ(nccl.mem_free(memory), ncclSuccess);
  EXPECT_EQ(emulated::take_misuses(), std::vector<std::string>{"ncclCommDestroy: 1 windows are left"});
}

// What becomes of a sum of 8 floats of two ranks, each at its offset in its window. Windows of one size come; what else is to wait
// is looked for so many times.
std::string sum_in_windows(size_t first_bytes, size_t second_bytes, size_t first_offset, size_t second_offset,
                           int looks) {
  const ncclUniqueId id = new_id();
  std::string told;
  std::barrier both_have_looked(2);
  auto run_rank = [&](int place) {
    Rank rank(id, place, 2);
    const size_t bytes = place == 0 ? first_bytes : second_bytes;
    void *memory = nullptr, *window = nullptr;
    EXPECT_EQ(rank.nccl.mem_alloc(&memory, 8192), ncclSuccess);
    EXPECT_EQ(rank.nccl.comm_window_register(rank.communicator, memory, bytes, &window, symmetric_window),
              ncclInProgress);
    const int looks_for_window = first_bytes == second_bytes ? 20'000 : looks;
    for (int i = 0; i < looks_for_window && !window; ++i) {
      ncclResult_t state;
      rank.nccl.comm_get_async_error(rank.communicator, &state);
      std::this_thread::sleep_for(3ms);
    }
    std::string end = window ? "sum waits" : "window waits";
    cuda::Event done(Device::cuda(place));
    if (window) {
      const Stream stream = current_stream(Device::cuda(place));
      rank.settle();
      char* at = static_cast<char*>(memory) + (place == 0 ? first_offset : second_offset);
      rank.nccl.all_reduce(at, at, 8, ncclFloat32, ncclSum, rank.communicator,
                           static_cast<cudaStream_t>(stream.handle()));
      done.record(stream);
      for (int i = 0; i < looks && !done.is_done(); ++i) std::this_thread::sleep_for(3ms);
      if (done.is_done()) end = "done";
    }
    both_have_looked.arrive_and_wait();  // an abort takes what the other one has not seen yet
    rank.nccl.comm_abort(std::exchange(rank.communicator, nullptr));
    while (window && !done.is_done()) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(rank.nccl.mem_free(memory), ncclSuccess);
    if (place == 0) told = end;
  };
  std::thread other([&] { run_rank(1); });
  run_rank(0);
  other.join();
  return told;
}

TEST_F(EmulatedNcclWindows, UnequalOnesWaitUntilTheyAreAborted) {
  EXPECT_EQ(sum_in_windows(4096, 4096, 64, 64, 20'000), "done");
  EXPECT_EQ(sum_in_windows(4096, 8192, 64, 64, 100), "window waits");
  EXPECT_EQ(sum_in_windows(4096, 4096, 64, 128, 100), "sum waits");
  EXPECT_EQ(sum_in_windows(4096, 4096, 64, 4096, 100), "sum waits") << "one is beyond its window";
  emulated::take_misuses();  // its ranks abort beside one another, as channels do not
}

}  // namespace
}  // namespace reprise::distributed
