// Products that add to a weight's gradient as they are made, against a product and an addition.
#include <functional>
#include <memory>
#include <thread>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/anomaly.h"
#include "reprise/autograd/engine.h"
#include "reprise/autograd/function.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/memory.h"
#include "reprise/kernels/gemm/backend.h"
#include "reprise/tests/autograd/recompute/support.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::same_bits;
using testing::test_device;

Tensor numbers(const Shape& shape, uint64_t seed, DType dtype = DType::f32) {
  NoGrad guard;
  return (sin(arange(numel_of(shape)).to(DType::f64) * 1.37 + double(seed)) * 0.7)
      .to(dtype)
      .reshape(shape)
      .to(test_device());
}

enum class Precision : uint8_t { f64, f32, autocast_bf16, autocast_f16, weights_of_16_bits };
constexpr Precision precisions[] = {Precision::f64, Precision::f32, Precision::autocast_bf16,
                                    Precision::autocast_f16, Precision::weights_of_16_bits};

std::unique_ptr<amp::Autocast> scope_of(Precision precision) {
  if (precision == Precision::autocast_bf16)
    return std::make_unique<amp::Autocast>(test_device(), DType::bf16);
  if (precision == Precision::autocast_f16) return std::make_unique<amp::Autocast>(test_device(), DType::f16);
  return nullptr;
}

// x -> linear -> mlp, of sizes that no tile divides; and the weights in order.
struct Net {
  static constexpr int64_t in = 70, width = 33, hidden = 130;
  Precision precision;
  DType dtype;
  TensorList weights;

  explicit Net(Precision of) : precision(of) {
    dtype = of == Precision::f64                  ? DType::f64
            : of == Precision::weights_of_16_bits ? DType::bf16
                                                  : DType::f32;
    const Shape shapes[] = {{width, in}, {width}, {hidden, width}, {hidden}, {width, hidden}, {width}};
    for (const Shape& shape : shapes) {
      weights.push_back(numbers(shape, weights.size(), dtype).set_requires_grad());
      if (of == Precision::weights_of_16_bits) weights.back().set_grad_dtype(DType::f32);
    }
  }
  Tensor forward(const Tensor& x) const {
    const auto& w = weights;
    return mlp(linear(x, w[0], w[1]), w[2], w[3], w[4], w[5]);
  }
  Tensor loss(uint64_t micro_batch) const {
    const Tensor x = numbers({400, in}, 10 + micro_batch, dtype);
    const auto scope = scope_of(precision);
    const Tensor y = forward(x);
    return sum(y.to(DType::f32) * numbers(y.shape(), 20 + micro_batch));
  }
};

// Over three micro-batches each gradient has the bits of those alone, added up; those of the first `in_place` weights stay where they are.
void expect_sums(const TensorList& weights, size_t in_place, Precision precision,
                 const std::function<Tensor(uint64_t micro_batch)>& loss) {
  TensorList want(weights.size());
  std::vector<const void*> places(weights.size());
  for (uint64_t micro_batch = 0; micro_batch < 3; ++micro_batch) {
    const TensorList alone = autograd::grad({loss(micro_batch)}, weights);
    loss(micro_batch).backward();
    for (size_t i = 0; i < weights.size(); ++i) {
      want[i] = micro_batch > 0 ? want[i] + alone[i] : alone[i].clone();
      const Tensor sum = weights[i].grad();
      EXPECT_TRUE(same_bits(sum, want[i])) << int(precision) << ", weight " << i << " of " << micro_batch;
      EXPECT_TRUE(micro_batch == 0 || i >= in_place || sum.view().data == places[i]);
      places[i] = sum.view().data;
    }
  }
}

TEST(LeafSums, HaveTheBitsOfAProductAndAnAddition) {
  for (Precision precision : precisions) {
    const Net net(precision);
    expect_sums(net.weights, 0, precision, [&](uint64_t micro_batch) { return net.loss(micro_batch); });
  }
}

TEST(LeafSums, OfPatchesHaveTheBitsOfAProductAndAnAddition) {
  for (Precision precision : precisions) {
    const DType dtype = Net(precision).dtype;
    const Tensor weight = numbers({33, 3, 5, 4}, 1, dtype).set_requires_grad(),
                 bias = numbers({33}, 2, dtype).set_requires_grad();
    if (precision == Precision::weights_of_16_bits) weight.set_grad_dtype(DType::f32);
    expect_sums({weight, bias}, 1, precision, [&](uint64_t micro_batch) {
      const Tensor images = numbers({7, 3, 20, 24}, 10 + micro_batch, dtype);
      const auto scope = scope_of(precision);
      const Tensor y = patch_embed(images, weight, bias);
      return sum(y.to(DType::f32) * numbers(y.shape(), 20 + micro_batch));
    });
  }
}

// Forward and back: with strides, groups, and windows of one pixel.
TEST(LeafSums, OfConvolutionsHaveTheBitsOfAProductAndAnAddition) {
  for (Precision precision : precisions) {
    const DType dtype = Net(precision).dtype;
    TensorList weights = {numbers({8, 3, 3, 3}, 1, dtype), numbers({6, 4, 1, 1}, 2, dtype),
                          numbers({6, 5, 2, 3}, 3, dtype)};
    for (const Tensor& weight : weights) {
      weight.set_requires_grad();
      if (precision == Precision::weights_of_16_bits) weight.set_grad_dtype(DType::f32);
    }
    expect_sums(weights, weights.size(), precision, [&](uint64_t micro_batch) {
      const Tensor images = numbers({7, 3, 9, 10}, 10 + micro_batch, dtype);
      const auto scope = scope_of(precision);
      const Tensor down = conv2d(images, weights[0], {}, {.stride = {1, 2}, .padding = 1});
      const Tensor y = conv_transpose2d(conv2d(down, weights[1], {}, {.groups = 2}), weights[2], {}, {});
      return sum(y.to(DType::f32) * numbers(y.shape(), 20 + micro_batch));
    });
  }
}

// The CPU's own products add as they are made; others have the sum in scratch memory.
TEST(LeafSums, OfConvolutionsTakeNoTensorOfTheWeightsSize) {
  if (!test_device().is_cpu() || kernels::gemm_backend() != kernels::GemmBackend::own)
    GTEST_SKIP() << "of the CPU's own products";
  const Tensor weight = numbers({512, 64, 3, 3}, 1).set_requires_grad(), images = numbers({1, 64, 3, 3}, 2);
  Allocator& memory = allocator(test_device());
  for (int pass = 0; pass < 3; ++pass) {
    const Tensor y = sum(conv2d(images, weight));
    const size_t before = memory.stats().allocated;
    memory.reset_peaks();
    y.backward();
    const size_t taken = memory.stats().peak_allocated - before,
                 bytes = size_t(weight.numel()) * sizeof(float);
    EXPECT_EQ(taken >= bytes, pass == 0) << taken << " bytes in pass " << pass;
  }
}

TEST(LeafSums, OfPatchesTakeNoTensorOfTheWeightsSize) {
  const Tensor weight = numbers({512, 3, 16, 16}, 1).set_requires_grad(), images = numbers({1, 3, 16, 16}, 2);
  Allocator& memory = allocator(test_device());
  for (int pass = 0; pass < 3; ++pass) {
    const Tensor y = sum(patch_embed(images, weight, {}));
    const size_t before = memory.stats().allocated;
    memory.reset_peaks();
    y.backward();
    const size_t taken = memory.stats().peak_allocated - before,
                 bytes = size_t(weight.numel()) * sizeof(float);
    EXPECT_EQ(taken >= bytes, pass == 0) << taken << " bytes in pass " << pass;
  }
}

TEST(LeafSums, WeightsThatAreUsedTwiceHaveBothGradients) {
  const Tensor x = numbers({9, 30}, 1), weight = numbers({30, 30}, 2).set_requires_grad();
  Tensor want;
  for (int pass = 0; pass < 3; ++pass) {
    auto loss = [&] { return sum(linear(linear(x, weight), weight) * numbers({9, 30}, uint64_t(pass))); };
    loss().backward();
    const Tensor alone = autograd::grad({loss()}, {weight})[0];
    want = pass == 0 ? alone.clone() : want + alone;
    EXPECT_TRUE(same_bits(weight.grad(), want)) << "pass " << pass;
  }
}

// With checkpoints of either mode, of which one plays a weight that another part of the pass uses too.
TEST(LeafSums, KeepEveryBitUnderRecompute) {
  auto trained = [](std::optional<CheckpointMode> mode, bool shared) {
    const Net net(Precision::f32);
    for (uint64_t micro_batch = 0; micro_batch < 3; ++micro_batch) {
      auto region = [&](const Tensor& x) { return net.forward(x); };
      Tensor x = numbers({40, Net::in}, micro_batch).set_requires_grad();
      Tensor y = mode ? checkpoint(region, x, {.mode = *mode}) : region(x);
      if (shared) y = y + linear(x, net.weights[0]);
      sum(y * numbers(y.shape(), 30 + micro_batch)).backward();
    }
    TensorList grads;
    for (const Tensor& w : net.weights) grads.push_back(w.grad());
    return grads;
  };
  for (bool shared : {false, true}) {
    const TensorList want = trained({}, shared);
    for (CheckpointMode mode : testing::kModes) {
      const TensorList got = trained(mode, shared);
      EXPECT_TRUE(same_bits(got, want)) << (shared ? "shared" : "");
    }
  }
}

// The second micro-batch makes no tensor of the weight's size, and the first one's gradient stays where it is.
TEST(LeafSums, TakeNoMemoryOfTheirOwn) {
  const int64_t side = 512;
  const Tensor x = numbers({3, side}, 1), weight = numbers({side, side}, 2).set_requires_grad();
  Allocator& memory = allocator(test_device());
  const void* place = nullptr;
  for (int pass = 0; pass < 3; ++pass) {
    Tensor loss = sum(linear(x, weight));
    memory.reset_peaks();
    const size_t before = memory.stats().allocated;
    loss.backward();
    const size_t taken = memory.stats().peak_allocated - before, bytes = size_t(side * side) * sizeof(float);
    if (pass == 0) place = weight.grad().view().data;
    EXPECT_EQ(taken >= bytes, pass == 0) << taken << " bytes in pass " << pass;
    EXPECT_EQ(weight.grad().view().data, place);
  }
}

// Who looks at a gradient on its way to the leaf sees that of the pass, not the sum.
TEST(LeafSums, HooksSeeWhatThePassGives) {
  const Net net(Precision::f32);
  net.loss(0).backward();
  const Tensor& weight = net.weights[0];
  const Tensor first = weight.grad().clone(), second = autograd::grad({net.loss(1)}, {weight})[0];
  Tensor seen;
  int behind = 0;
  const auto remove =
      weight.register_hook([&](const Tensor& dweight) { return seen = dweight.clone(), Tensor(); });
  autograd::register_post_accumulate_hook(weight, [&] {
    ++behind;
    EXPECT_TRUE(same_bits(weight.grad(), behind == 1 ? first + second : first + second + second));
  });
  net.loss(1).backward();
  EXPECT_TRUE(same_bits(seen, second));
  remove();
  const uint64_t version = weight.grad().version();
  net.loss(1).backward();
  EXPECT_EQ(behind, 2);
  EXPECT_GT(weight.grad().version(), version);
}

// An operation that gives the leaf's own gradient back as a gradient.
struct GivesWhatIsThere : autograd::Function<GivesWhatIsThere> {
  static constexpr const char* name = "gives_what_is_there";
  Tensor forward(const Tensor& x, const Tensor&) { return sum(x); }
  TensorList backward(const TensorList&) { return {leaf().grad(), Tensor()}; }
  static Tensor& leaf() {
    static Tensor kept;
    return kept;
  }
};

TEST(LeafSums, AGradientThatIsTheLeafsOwnIsAdded) {
  GivesWhatIsThere::leaf() = numbers({3, 4}, 1).set_requires_grad();
  const Tensor x = GivesWhatIsThere::leaf(), one = full(x.shape(), 1.0).to(test_device());
  x.set_grad(one.clone());
  GivesWhatIsThere::apply(x, x.detach()).backward();
  EXPECT_TRUE(same_bits(x.grad(), one * 2.0));
  GivesWhatIsThere::leaf() = {};
}

TEST(LeafSums, ManyThreadsLoseNothing) {
  const Tensor x = full({5, 40}, 1.0).to(test_device()), weight = numbers({30, 40}, 1).set_requires_grad();
  weight.set_grad(zeros({30, 40}).to(test_device()));
  auto passes = [&] {
    for (int i = 0; i < 50; ++i) sum(linear(x, weight)).backward();
  };
  std::thread other(passes);
  passes();
  other.join();
  EXPECT_TRUE(same_bits(weight.grad(), full({30, 40}, 500.0).to(test_device())));
}

// What cannot be added to in place: expanded ones, ones in a graph, ones of 16 bits, which round twice.
TEST(LeafSums, OtherGradientsAreAddedAsBefore) {
  const Tensor x = numbers({5, 6}, 1), weight = numbers({4, 6}, 2).set_requires_grad();
  const Tensor alone = autograd::grad({sum(linear(x, weight))}, {weight})[0];
  weight.set_grad(full({1, 1}, 2.0).to(test_device()).expand({4, 6}));
  sum(linear(x, weight)).backward();
  EXPECT_TRUE(same_bits(weight.grad(), full({4, 6}, 2.0).to(test_device()) + alone));

  weight.set_grad({});
  sum(linear(x, weight)).backward();
  sum(linear(x, weight)).backward({}, {}, /*create_graph=*/true);
  sum(linear(x, weight)).backward();
  EXPECT_TRUE(same_bits(weight.grad().detach(), alone + alone + alone));
  weight.set_grad({});

  const Tensor half = numbers({40, 60}, 2, DType::bf16).set_requires_grad(),
               in = numbers({50, 60}, 1, DType::bf16);
  const Tensor of_half = autograd::grad({sum(linear(in, half))}, {half})[0];
  for (int pass = 0; pass < 3; ++pass) sum(linear(in, half)).backward();
  EXPECT_TRUE(same_bits(half.grad(), of_half + of_half + of_half));
}

}  // namespace
}  // namespace reprise
