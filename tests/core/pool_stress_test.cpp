// The pool and the allocator under several threads at once, while the number of threads changes: what
// ThreadSanitizer is to see.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "reprise/core/memory.h"
#include "reprise/core/parallel.h"
#include "reprise/core/tensor.h"

namespace reprise {
namespace {

constexpr int callers = 3, rounds = 60;

// Takes the tensor that another thread left, and leaves one: memory is freed where it was not allocated.
class Exchange {
 public:
  Tensor swap(Tensor x) {
    std::lock_guard lock(mutex_);
    std::swap(x, left_);
    return x;
  }

 private:
  std::mutex mutex_;
  Tensor left_;
};

int64_t sum_of(const Tensor& x) {
  std::atomic<int64_t> sum = 0;
  TensorView view = x.view();
  const auto* values = static_cast<const int64_t*>(view.data);
  parallel_for(x.numel(), 100, [&](int64_t begin, int64_t end) {
    int64_t part = 0;
    for (int64_t i = begin; i < end; ++i) part += values[i];
    sum += part;
  });
  return sum;
}

TEST(PoolStress, ThreadsComputeAllocateAndFreeWhileTheirNumberChanges) {
  int before = num_threads();
  Exchange exchange;
  std::atomic<int> wrong = 0, done = 0;
  auto caller = [&](int who) {
    for (int round = 0; round < rounds; ++round) {
      int64_t size = 1 + 997 * ((round * 7 + who * 13) % 40);
      Tensor x = Tensor::from(std::vector<int64_t>(size_t(size), 3), {size});
      if (sum_of(x) != 3 * size) ++wrong;
      Tensor other = exchange.swap(std::move(x));
      if (other.defined() && sum_of(other) != 3 * other.numel()) ++wrong;
      allocator(Device::cpu()).stats();
    }
    ++done;
  };
  std::vector<std::thread> threads;
  for (int who = 0; who < callers; ++who) threads.emplace_back(caller, who);
  for (int count = 1; done < callers; count = count % 5 + 1) {
    set_num_threads(count);
    if (count == 5) allocator(Device::cpu()).empty_cache();
  }
  for (std::thread& thread : threads) thread.join();
  set_num_threads(before);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace reprise
