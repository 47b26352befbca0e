// Attention by cuDNN's graphs against loops in f64: on a GPU by the library, in the emulator by its model of it, which has
// engines of the kinds that the library has.
// also by cuDNN
#include <cstdlib>
#include <random>

#include "reprise/core/cuda/graph.h"
#include "reprise/core/tensor.h"
#include "reprise/kernels/attention/backend.h"
#include "reprise/tests/kernels/attention/reference.h"

namespace reprise::kernels {
namespace {

using namespace testing;
using reprise::testing::test_device;

// P, dS and results are rounded to 8 bits (bf16) or 11 (f16): relative to the largest element, a few roundings.
constexpr double kBf16 = 1e-2, kF16 = 1.25e-3;

class AttentionCudnn : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test_device().is_cpu() || !has_attention_backend(AttentionBackend::cudnn))
      GTEST_SKIP() << "needs a CUDA device and a build with cuDNN";
    set_attention_backend(AttentionBackend::cudnn);
    Call<BFloat16> probe({1, 1, 1, 8, 8, 8, {}});
    probe.forward();
    if (attention_backend_used(AttentionPass::forward) == AttentionBackend::cudnn) return;
    ASSERT_EQ(std::getenv("REPRISE_EMULATOR_CUDNN"), nullptr) << "the model of cuDNN takes nothing";
    GTEST_SKIP() << "no cuDNN here; in the emulator set REPRISE_EMULATOR_CUDNN";
  }
  void TearDown() override { set_attention_backend(AttentionBackend::reprise); }

  static void expect_used(AttentionBackend backend) {
    EXPECT_EQ(attention_backend_used(AttentionPass::forward), backend);
    EXPECT_EQ(attention_backend_used(AttentionPass::backward), backend);
  }
  static void expect_both_match(const Case& c, double factor = 1, Surroundings around = {}) {
    expect_matches_reference<BFloat16>(c, factor * kBf16, around);
    expect_used(AttentionBackend::cudnn);
    expect_matches_reference<Float16>(c, factor * kF16, around);
    expect_used(AttentionBackend::cudnn);
  }
};

TEST_F(AttentionCudnn, MatchesLoops) {
  for (bool causal : {true, false})
    for (int64_t rows : {1, 17, 64, 65})
      for (int64_t head_dim : {8, 64, 72})
        expect_both_match({2, 1, 1, rows, rows, head_dim, {.causal = causal}});
}

TEST_F(AttentionCudnn, MatchesWhereQueriesAndKeysDiffer) {
  for (auto [queries, keys] : {std::pair{1, 70}, {40, 7}, {33, 65}})
    expect_both_match({1, 2, 2, queries, keys, 32, {.causal = false}});
}

TEST_F(AttentionCudnn, SharesKeysAmongGroupedHeads) {
  // Gradients of keys sum over up to six heads.
  for (int64_t kv_heads : {1, 2, 6}) expect_both_match({2, 6, kv_heads, 33, 33, 32, {}}, 3);
}

TEST_F(AttentionCudnn, TakesScalesAndLeavesItsSurroundingsAlone) {
  expect_both_match({1, 2, 1, 20, 20, 16, {.scale = 0.5}});
  const Case c{2, 2, 1, 20, 20, 16, {}};
  const Surroundings around{.lead = 8, .spare = 1};
  Call<BFloat16> run(c, 1, around), before(c, 1, around);
  run.forward();
  run.backward();
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t h = 0; h < c.heads; ++h)
      for (int64_t i = 0; i < c.queries; ++i)
        for (int64_t d = 0; d < c.head_dim; ++d) {
          ASSERT_EQ(at<BFloat16>(run.out.view(1), b, h, i, d), at<BFloat16>(before.out.view(1), b, h, i, d));
          ASSERT_EQ(at<BFloat16>(run.dq.view(1), b, h, i, d), at<BFloat16>(before.dq.view(1), b, h, i, d));
        }
}

/// P V of large numbers that nearly cancel, so that the order of sums shows.
Call<BFloat16> cancelling_call() {
  Call<BFloat16> run({1, 2, 2, 96, 96, 64, {.causal = false}}, 4);
  return run;
}

TEST_F(AttentionCudnn, HasTheSameBitsWithAndWithoutStatistics) {
  Call<BFloat16> with = cancelling_call(), without = cancelling_call();
  with.forward();
  run_kernel(attention, {.q = without.q.view(0),
                         .k = without.kv.view(0),
                         .v = without.kv.view(1),
                         .options = without.c.options,
                         .out = without.out.view(0),
                         .lse = {}});
  EXPECT_EQ(attention_backend_used(AttentionPass::forward), AttentionBackend::cudnn);
  EXPECT_EQ(with.out.data(), without.out.data());
}

TEST_F(AttentionCudnn, HasTheSameBitsEachTime) {
  Call<BFloat16> first = cancelling_call();
  first.forward();
  first.backward();
  for (int again = 0; again < 3; ++again) {
    Call<BFloat16> run = cancelling_call();
    run.forward();
    run.backward();
    ASSERT_EQ(run.out.data(), first.out.data());
    ASSERT_EQ(run.dq.data(), first.dq.data());
    ASSERT_EQ(run.dkv.data(), first.dkv.data());
  }
}

TEST_F(AttentionCudnn, LeavesOtherCallsToOurKernels) {
  auto expect_left = [](const Case& c, Surroundings around = {}) {
    expect_matches_reference<BFloat16>(c, 2 * kBf16, around);
    expect_used(AttentionBackend::reprise);
  };
  expect_left({1, 1, 1, 20, 20, 12, {}});
  expect_left({1, 1, 1, 20, 20, 16, {.dropout = 0.25}});
  expect_left({1, 1, 1, 20, 30, 16, {}});
  expect_left({1, 1, 1, 20, 20, 16, {}}, {.lead = 1});
  std::vector<float> zeros(400);
  const Shape scores{1, 1, 20, 20};
  expect_left({1, 1, 1, 20, 20, 16, {}, {zeros.data(), scores, contiguous_strides(scores), DType::f32, {}}});
  expect_matches_reference<float>({1, 1, 1, 20, 20, 16, {}}, 1e-5);
  expect_used(AttentionBackend::reprise);
}

/// q, k, v and results of one head on the device.
struct DeviceCall {
  Tensor q, k, v, out;
  explicit DeviceCall(int64_t rows) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (Tensor* x : {&q, &k, &v, &out}) {
      std::vector<float> numbers(size_t(rows * 16));
      for (float& number : numbers) number = normal(random);
      *x = Tensor::from(numbers, {1, 1, rows, 16}, test_device()).to(DType::bf16);
    }
  }
  void run() const {
    attention(current_stream(test_device()),
              {.q = q.view(), .k = k.view(), .v = v.view(), .options = {}, .out = out.view(), .lse = {}});
  }
  std::vector<float> result() const { return out.to(DType::f32).to_vector<float>(); }
};

TEST_F(AttentionCudnn, IsCapturedOnceItsShapeIsKnown) {
  const DeviceCall call(24);
  call.run();
  const std::vector<float> want = call.result();
  cuda::Graph graph(current_stream(test_device()), [&] { call.run(); });
  call.out.zero_();
  graph.launch();
  synchronize(test_device());
  EXPECT_EQ(call.result(), want);
}

TEST_F(AttentionCudnn, IsAnErrorWhereItsFirstCallIsCaptured) {
  const DeviceCall call(40);
  reprise::testing::expect_error(
      [&] { cuda::Graph graph(current_stream(test_device()), [&] { call.run(); }); },
      {"attention: cuDNN compiles its forward pass for q (1, 1, 40, 16)", "run the body once before"});
  call.run();
  EXPECT_EQ(attention_backend_used(AttentionPass::forward), AttentionBackend::cudnn);
}

}  // namespace
}  // namespace reprise::kernels
