// The Hopper kernel of attention forward, called for itself, against loops in f64 and the portable kernel.
// Runs in the emulator and on GPUs of compute capability 9.0.
#include "reprise/core/cuda/runtime.h"
#include "reprise/kernels/attention/backend.h"
#include "reprise/tests/kernels/attention/reference.h"

namespace reprise::kernels {
namespace {

using namespace testing;
using reprise::testing::test_device;

// P and the result are rounded to 8 bits (bf16) or 11 (f16): relative to the largest element, a few
// roundings.
constexpr double kBf16 = 1e-2, kF16 = 1.25e-3;

/// out and lse by the definition, in f64, as contiguous (B, H, T, D) and (B, H, T).
struct Forward {
  std::vector<double> out, lse;
};

template <class T>
std::vector<double> contiguous(const TensorView& x) {
  std::vector<double> values;
  for (int64_t b = 0; b < x.size(0); ++b)
    for (int64_t h = 0; h < x.size(1); ++h)
      for (int64_t i = 0; i < x.size(2); ++i)
        for (int64_t d = 0; d < x.size(3); ++d) values.push_back(at<T>(x, b, h, i, d));
  return values;
}

template <class T>
Forward forward_reference(Call<T>& run) {
  const Case& c = run.c;
  const int64_t D = c.head_dim;
  const double scale = c.options.scale != 0 ? c.options.scale : 1 / std::sqrt(double(D));
  const auto q = contiguous<T>(run.q.view(0)), k = contiguous<T>(run.kv.view(0)),
             v = contiguous<T>(run.kv.view(1));
  Forward result{std::vector<double>(q.size()), {}};
  std::vector<double> p(static_cast<size_t>(c.keys));
  for (int64_t row = 0; row < c.batch * c.heads * c.queries; ++row) {
    const int64_t i = row % c.queries, h = row / c.queries % c.heads, b = row / c.queries / c.heads;
    const int64_t kv = (b * c.kv_heads + h / (c.heads / c.kv_heads)) * c.keys * D;
    const int64_t end =
        c.options.causal ? std::clamp<int64_t>(i + c.keys - c.queries + 1, 0, c.keys) : c.keys;
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < end; ++j) {
      double dot = 0;
      for (int64_t d = 0; d < D; ++d) dot += q[size_t(row * D + d)] * k[size_t(kv + j * D + d)];
      p[size_t(j)] = scale * dot;
      max = std::max(max, scale * dot);
    }
    for (int64_t j = 0; j < end; ++j) sum += p[size_t(j)] = std::exp(p[size_t(j)] - max);
    for (int64_t j = 0; j < end; ++j)
      for (int64_t d = 0; d < D; ++d)
        result.out[size_t(row * D + d)] += p[size_t(j)] / sum * v[size_t(kv + j * D + d)];
    result.lse.push_back(max + std::log(sum));
  }
  return result;
}

class AttentionSm90 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_attention_backend(AttentionBackend::sm90)) GTEST_SKIP() << "this build has no kernel for sm_90a";
    if (test_device().is_cpu()) GTEST_SKIP() << "needs a CUDA device";
    const auto& properties = cuda::properties(test_device().index);
    if (properties.major != 9)
      GTEST_SKIP() << "needs compute capability 9.0, the device has " << properties.major;
    set_attention_backend(AttentionBackend::sm90);
  }
  void TearDown() override { set_attention_backend(AttentionBackend::reprise); }

  /// Whether the kernel takes the call. If it does, `run` has its results.
  template <class T>
  static bool forward(Call<T>& run) {
    Staging staging(test_device());
    const AttentionArguments arguments{.q = run.q.view(0),
                                       .k = run.kv.view(0),
                                       .v = run.kv.view(1),
                                       .options = run.c.options,
                                       .out = run.out.view(0),
                                       .lse = run.lse_view(),
                                       .mask = run.c.mask};
    staging.collect(arguments);
    staging.upload();
    const bool took = attention_functions(attention_backend())
                          .forward(current_stream(test_device()), staging.mapped(arguments));
    synchronize(test_device());
    staging.download();
    return took;
  }

  template <class T>
  static void expect_matches(const Case& c, double tolerance, Surroundings around = {}) {
    SCOPED_TRACE(reprise::detail::join("B", c.batch, " H", c.heads, "/", c.kv_heads, " T", c.queries, "/",
                                       c.keys, " D", c.head_dim, c.options.causal ? " causal" : " full"));
    Call<T> run(c, 1, around);
    ASSERT_TRUE(forward(run));
    const Forward ref = forward_reference(run);
    expect_close<T>("out", run.out.view(0), ref.out, tolerance);
    for (size_t i = 0; i < ref.lse.size(); ++i) {
      if (std::isinf(ref.lse[i]))
        ASSERT_EQ(double(run.lse[i]), ref.lse[i]) << "lse of row " << i;
      else
        ASSERT_NEAR(double(run.lse[i]), ref.lse[i], 1e-5) << "lse of row " << i;  // f32, |lse| < 10
    }
  }
};

TEST_F(AttentionSm90, MatchesAtTileEdges) {
  for (int64_t head_dim : {64, 128})
    for (bool causal : {true, false})
      for (int64_t rows : {1, 64, 65, 127, 128, 129})
        expect_matches<BFloat16>({1, 1, 1, rows, rows, head_dim, {.causal = causal}}, kBf16);
}

TEST_F(AttentionSm90, TakesF16) {
  for (int64_t head_dim : {64, 128})
    expect_matches<Float16>({1, 2, 1, 150, 150, head_dim, {.causal = head_dim == 64}}, kF16);
}

/// Five tiles of keys: the ring goes round twice.
TEST_F(AttentionSm90, MatchesOnLongRows) {
  for (int64_t head_dim : {64, 128}) expect_matches<BFloat16>({1, 1, 1, 140, 600, head_dim, {}}, kBf16);
  expect_matches<BFloat16>({1, 1, 1, 600, 600, 64, {}}, kBf16);
}

TEST_F(AttentionSm90, MatchesWhereQueriesAndKeysDiffer) {
  for (bool causal : {true, false})
    for (auto [queries, keys] : {std::pair{1, 200}, {200, 73}, {130, 33}, {128, 1}, {70, 384}})
      expect_matches<BFloat16>({1, 1, 1, queries, keys, 64, {.causal = causal}}, kBf16);
}

TEST_F(AttentionSm90, SharesKeysAmongGroupedHeads) {
  for (int64_t kv_heads : {1, 2, 4}) expect_matches<BFloat16>({2, 4, kv_heads, 40, 70, 64, {}}, kBf16);
}

TEST_F(AttentionSm90, LeavesItsSurroundingsAlone) {
  for (int64_t head_dim : {64, 128}) {
    const Case c{2, 2, 1, 70, 45, head_dim, {}};
    const Surroundings around{.lead = 8, .spare = 1};
    expect_matches<BFloat16>(c, kBf16, around);
    Call<BFloat16> run(c, 1, around), before(c, 1, around);
    ASSERT_TRUE(forward(run));
    for (int64_t b = 0; b < c.batch; ++b)
      for (int64_t h = 0; h < c.heads; ++h)
        for (int64_t i = 0; i < c.queries; ++i)
          for (int64_t d = 0; d < head_dim; ++d)
            ASSERT_EQ(at<BFloat16>(run.out.view(1), b, h, i, d),
                      at<BFloat16>(before.out.view(1), b, h, i, d));
  }
}

TEST_F(AttentionSm90, TakesOtherScales) {
  for (double scale : {0.02, 1.0}) expect_matches<BFloat16>({1, 1, 1, 90, 130, 64, {.scale = scale}}, kBf16);
}

/// Scores of hundreds: a maximum that is not subtracted overflows, a rescaling left out is far off.
TEST_F(AttentionSm90, KeepsLargeScoresFinite) {
  Call<BFloat16> run({1, 1, 1, 80, 500, 64, {.causal = false}}, 8);
  ASSERT_TRUE(forward(run));
  expect_close<BFloat16>("out", run.out.view(0), forward_reference(run).out, kBf16);
}

TEST_F(AttentionSm90, GivesZeroToQueriesThatSeeNoKey) {
  Call<BFloat16> run({1, 1, 1, 300, 3, 64, {}});  // 297 of them, whole blocks too
  ASSERT_TRUE(forward(run));
  for (int64_t i = 0; i < 297; ++i) {
    EXPECT_EQ(run.lse[size_t(i)], -INFINITY) << i;
    for (int64_t d = 0; d < 64; ++d)
      EXPECT_EQ(at<BFloat16>(run.out.view(0), 0, 0, i, d), 0) << i << ", " << d;
  }
  EXPECT_TRUE(std::isfinite(run.lse[297]));
}

TEST_F(AttentionSm90, AgreesWithThePortableKernel) {
  Call<BFloat16> run({2, 2, 1, 197, 197, 64, {.causal = false}}), portable(run.c);
  ASSERT_TRUE(forward(run));
  set_attention_backend(AttentionBackend::reprise);
  portable.forward();
  for (size_t i = 0; i < run.lse.size(); ++i) ASSERT_NEAR(run.lse[i], portable.lse[i], 1e-6 * 8) << i;
  for (size_t i = 0; i < run.out.data().size(); ++i)
    ASSERT_NEAR(float(run.out.data()[i]), float(portable.out.data()[i]), 4e-3)
        << i;  // |out| < 1: two roundings
}

TEST_F(AttentionSm90, IsChosenThroughAttention) {
  Call<BFloat16> run({1, 1, 1, 100, 100, 64, {}}), direct(run.c);
  run.forward();
  ASSERT_TRUE(forward(direct));
  EXPECT_EQ(run.out.data(), direct.out.data());
  EXPECT_EQ(attention_backend_used(AttentionPass::forward), AttentionBackend::sm90);
  Call<BFloat16> with_dropout({1, 1, 1, 8, 8, 64, {.dropout = 0.5}});
  with_dropout.forward();
  EXPECT_EQ(attention_backend_used(AttentionPass::forward), AttentionBackend::reprise) << "it left that call";
}

TEST_F(AttentionSm90, LeavesOtherCallsToThePortableKernel) {
  auto takes = [](const Case& c, Surroundings around = {}) {
    Call<BFloat16> run(c, 1, around);
    const Call<BFloat16> before(c, 1, around);
    const bool took = forward(run);
    EXPECT_TRUE(took || run.out.data() == before.out.data());
    return took;
  };
  EXPECT_TRUE(takes({1, 1, 1, 8, 8, 64, {}}));
  EXPECT_FALSE(takes({1, 1, 1, 8, 8, 32, {}}));
  EXPECT_FALSE(takes({1, 1, 1, 8, 8, 64, {.scale = -1}}));
  EXPECT_FALSE(takes({1, 1, 1, 8, 8, 64, {.dropout = 0.1}}));
  EXPECT_FALSE(takes({1, 1, 1, 8, 8, 64, {}}, {.lead = 1}));
  std::vector<float> zeros(64);
  const Shape scores{1, 1, 8, 8};
  EXPECT_FALSE(
      takes({1, 1, 1, 8, 8, 64, {}, {zeros.data(), scores, contiguous_strides(scores), DType::f32, {}}}));
  Call<float> f32({1, 1, 1, 8, 8, 64, {}});
  EXPECT_FALSE(forward(f32));
}

// What one takes by `automatic`, which is there at first: these tests are of the portable kernels.
const AttentionBackend at_first = [] {
  const AttentionBackend backend = attention_backend();
  set_attention_backend(AttentionBackend::reprise);
  return backend;
}();

TEST(AttentionBackend, IsTheFastestOfOursUnlessChosen) {
  EXPECT_EQ(at_first, AttentionBackend::automatic);
  set_attention_backend(AttentionBackend::automatic);
  const bool emulated = !has_attention_backend(AttentionBackend::sm90) || cuda::is_emulated();
  EXPECT_EQ(first_attention_backend(), emulated ? AttentionBackend::reprise : AttentionBackend::sm90);
  for (const AttentionBackend backend : attention_backends) {
    if (has_attention_backend(backend)) {
      set_attention_backend(backend);
      EXPECT_EQ(attention_backend(), backend);
      if (backend != AttentionBackend::automatic) { EXPECT_EQ(first_attention_backend(), backend); }
    } else {
      EXPECT_THROW(set_attention_backend(backend), Error) << name_of(backend);
    }
  }
  set_attention_backend(AttentionBackend::reprise);
}

}  // namespace
}  // namespace reprise::kernels
