// Offload: the bits of a run without it, what leaves the device and when it comes back, and that nothing is
// left behind.
#include "reprise/autograd/recompute/offload.h"

#include "reprise/core/cuda/event.h"
#include "reprise/core/random.h"
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise {
namespace {

using recompute::Parked;
using testing::expect_error;
using testing::kModes;
using testing::leaf;
using testing::NoLeaks;
using testing::numbers;
using testing::same_bits;

constexpr int64_t kRows = 64, kWidth = 32;
constexpr size_t kBytes = size_t(kRows * kWidth) * sizeof(float);  // of what goes from region to region

std::shared_ptr<Offload> all_sizes(int64_t keep_last = 1) {
  return std::make_shared<Offload>(OffloadOptions{.keep_last = keep_last, .min_bytes = 1});
}

// Layers of linear, GELU and dropout, then the gradients of everything.
struct Chain {
  Tensor x = leaf({kRows, kWidth}, 1);
  TensorList weights;

  explicit Chain(int layers) {
    for (int i = 0; i < layers; ++i) weights.push_back(leaf({kWidth, kWidth}, 10 + uint64_t(i)));
  }
  static Tensor layer(const Tensor& x, const Tensor& w) { return dropout(gelu(linear(x, w, {})), 0.25); }

  template <class Run>
  Tensor forward(const Run& run) const {
    manual_seed(5);
    Tensor h = x;
    for (const Tensor& w : weights) h = run(w, h);
    return h;
  }
  template <class Run>
  TensorList train(const Run& run, bool retain = false) const {
    for (const Tensor& t : weights) t.set_grad({});
    x.set_grad({});
    Tensor y = forward(run);
    sum(y * numbers(y.shape(), 3)).backward({}, retain);
    TensorList out{y.detach(), x.grad()};
    for (const Tensor& w : weights) out.push_back(w.grad());
    return out;
  }
  TensorList plain() const {
    return train([](const Tensor& w, const Tensor& h) { return layer(h, w); });
  }
  static auto offloaded(const std::shared_ptr<Offload>& offload,
                        CheckpointMode mode = CheckpointMode::non_reentrant) {
    return [=](const Tensor& w, const Tensor& h) {
      return checkpoint([w](const Tensor& in) { return layer(in, w); }, h,
                        {.mode = mode, .offload = offload});
    };
  }
};

void expect_same(const TensorList& got, const TensorList& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << "tensor " << i;
}

TEST(Offload, KeepsTheBitsOfOutputsAndGradientsInBothModes) {
  Chain chain(5);
  TensorList want = chain.plain();
  for (CheckpointMode mode : kModes) {
    SCOPED_TRACE(testing::name_of(mode));
    for (int64_t keep_last : {0, 1, 2, 7}) {
      auto offload = all_sizes(keep_last);
      for (int step = 0; step < 3; ++step) expect_same(chain.train(Chain::offloaded(offload, mode)), want);
      EXPECT_EQ(offload->stats().parked_bytes, 0u);
    }
  }
}

TEST(Offload, ParksWhatIsOlderThanTheLastRegions) {
  Chain chain(5);
  for (int64_t keep_last : {0, 1, 3, 4}) {
    auto offload = all_sizes(keep_last);
    chain.train(Chain::offloaded(offload));
    // The first input is a leaf, and stays. On a CUDA device what is still leaving when backward begins turns
    // back, if it is wanted first or next.
    auto parked = uint64_t(keep_last > 0 ? 4 - keep_last : 4);
    uint64_t read = testing::test_device().is_cuda() && keep_last <= 1 ? parked - 1 : parked;
    EXPECT_EQ(offload->stats().written_bytes, parked * kBytes) << keep_last;
    EXPECT_EQ(offload->stats().read_bytes, read * kBytes) << keep_last;
    EXPECT_EQ(offload->stats().peak_parked_bytes, parked * kBytes) << keep_last;
  }
}

}  // namespace
}  // namespace reprise
