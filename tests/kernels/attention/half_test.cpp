// Attention in half types: on CUDA the tensor-core kernels, at the edges of their tiles (64 and 128 queries,
// 32 and 64 keys, columns padded to 32, 64, 96 and 128), and what they leave to plain arithmetic.
#include "reprise/kernels/attention/backend.h"
#include "reprise/tests/kernels/attention/reference.h"

namespace reprise::kernels {
namespace {

using namespace testing;

// Results and, on tensor cores, P and dS are rounded to 8 bits (bf16) or 11 (f16): relative to the largest
// element, a few roundings.
constexpr double kBf16 = 1e-2, kF16 = 1.25e-3;

void expect_both_match(const Case& c, double factor = 1, Surroundings around = {}) {
  expect_matches_reference<BFloat16>(c, factor * kBf16, around);
  expect_matches_reference<Float16>(c, factor * kF16, around);
}

TEST(AttentionHalf, MatchesAtTileEdges) {
  for (bool causal : {true, false})
    for (int64_t rows : {1, 17, 63, 64, 65, 129})
      expect_both_match({1, 1, 1, rows, rows, 64, {.causal = causal}});
}

TEST(AttentionHalf, MatchesWhereQueriesAndKeysDiffer) {
  for (bool causal : {true, false})
    for (auto [queries, keys] : {std::pair{1, 200}, {200, 73}, {17, 130}, {130, 33}, {128, 1}})
      expect_both_match({1, 1, 1, queries, keys, 32, {.causal = causal}});
}

TEST(AttentionHalf, MatchesForEveryHeadSize) {
  for (int64_t head_dim : {1, 8, 16, 24, 33, 40, 48, 65, 80, 96, 100, 112, 128})
    expect_both_match({1, 1, 1, 70, 75, head_dim, {.causal = head_dim % 16 == 0}});
}

TEST(AttentionHalf, MatchesBeyondTheTiles) {
  expect_both_match({1, 2, 1, 20, 23, 129, {}});
  expect_both_match({1, 1, 1, 9, 70, 256, {.causal = false}});
}

TEST(AttentionHalf, MatchesOnLongRows) {
  for (int64_t head_dim : {64, 128}) {
    expect_matches_reference<BFloat16>({1, 1, 1, 300, 300, head_dim, {}}, kBf16);
    expect_matches_reference<Float16>({1, 1, 1, 197, 197, head_dim, {.causal = false}}, kF16);
  }
}

TEST(AttentionHalf, SharesKeysAmongGroupedHeads) {
  for (int64_t kv_heads : {1, 2, 6}) {
    // Gradients of keys sum over up to six heads.
    expect_both_match({2, 6, kv_heads, 33, 70, 32, {}}, 2);
  }
}

TEST(AttentionHalf, TakesRowsThatAreNotAligned) {
  for (int64_t lead : {1, 4})
    for (int64_t head_dim : {20, 64}) expect_both_match({2, 2, 1, 35, 66, head_dim, {}}, 1, {.lead = lead});
}

TEST(AttentionHalf, LeavesItsSurroundingsAlone) {
  for (auto [head_dim, lead] : {std::pair{40, 0}, {64, 0}, {37, 1}, {136, 0}}) {
    Case c{2, 2, 1, 37, 45, head_dim, {}};
    Surroundings around{.lead = lead, .spare = 1};
    Call<BFloat16> run(c, 1, around), before(c, 1, around);
    run.forward();
    run.backward();
    auto expect_untouched = [&](auto& buffer, auto& buffer_before, int64_t slot) {
      TensorView view = buffer.view(slot), view_before = buffer_before.view(slot);
      for (int64_t b = 0; b < view.size(0); ++b)
        for (int64_t h = 0; h < view.size(1); ++h)
          for (int64_t i = 0; i < view.size(2); ++i)
            for (int64_t d = 0; d < view.size(3); ++d)
              ASSERT_EQ(at<BFloat16>(view, b, h, i, d), at<BFloat16>(view_before, b, h, i, d))
                  << "head_dim " << head_dim;
    };
    expect_untouched(run.out, before.out, 1);
    expect_untouched(run.dq, before.dq, 1);
    expect_untouched(run.dkv, before.dkv, 2);
  }
}

TEST(AttentionHalf, DropsWhatPhiloxSays) {
  // Keys a multiple of four, where lanes share Philox blocks, and not.
  for (auto [queries, keys] : {std::pair{70, 68}, {33, 129}, {65, 66}})
    for (int64_t head_dim : {32, 80}) {
      Case c{2,
             2,
             1,
             queries,
             keys,
             head_dim,
             {.causal = queries != 33, .dropout = 0.3, .seed = 7, .offset = 5}};
      expect_both_match(c, 2);  // 1 / (1 - p) enlarges the terms
    }
}

TEST(AttentionHalf, TakesScalesOfEitherSign) {
  for (double scale : {0.4, -0.2}) expect_both_match({1, 1, 1, 40, 40, 16, {.scale = scale}}, 2);
}

TEST(AttentionHalf, GivesZeroToQueriesThatSeeNoKey) {
  Call<BFloat16> run({1, 2, 1, 100, 3, 32, {}});
  run.forward();
  run.backward();
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t i = 0; i < 97; ++i) {
      EXPECT_EQ(run.lse[size_t(h * 100 + i)], -INFINITY) << i;
      for (int64_t d = 0; d < 32; ++d) {
        EXPECT_EQ(at<BFloat16>(run.out.view(0), 0, h, i, d), 0) << i << ", " << d;
        EXPECT_EQ(at<BFloat16>(run.dq.view(0), 0, h, i, d), 0) << i << ", " << d;
      }
    }
  EXPECT_TRUE(std::isfinite(run.lse[97]));
}

TEST(AttentionHalf, HandlesNoKeysAndNoQueries) {
  Call<Float16> no_keys({2, 2, 1, 3, 0, 16, {.causal = false}}), no_queries({2, 2, 1, 0, 70, 16, {}});
  for (auto* run : {&no_keys, &no_queries}) run->forward(), run->backward();
  for (Float16 x : no_keys.out.data()) EXPECT_EQ(x, 0);
  for (Float16 x : no_keys.dq.data()) EXPECT_EQ(x, 0);
  for (float x : no_keys.lse) EXPECT_EQ(x, -INFINITY);
  for (Float16 x : no_queries.dkv.data()) EXPECT_EQ(x, 0);
}

TEST(AttentionHalf, SurvivesLargeScores) {
  Call<BFloat16> run({1, 1, 1, 80, 80, 32, {.scale = 40}}, 3);  // one key takes all
  run.forward();
  run.backward();
  for (BFloat16 x : run.out.data()) ASSERT_TRUE(std::isfinite(float(x)));
  for (BFloat16 x : run.dq.data()) ASSERT_TRUE(std::isfinite(float(x)));
  expect_close<BFloat16>("out", run.out.view(0), reference(run).out, kBf16);
}

TEST(AttentionHalf, WeighsAllTilesAlikeWhateverTheirScoresAre) {
  // All scores are 6930, so the maximum never changes and nothing may be rescaled: out is the share of ones,
  // to the rounding of f16, and lse is good to eight units of 6930 in f32. Where max * scale - shift is one
  // rounding (as nvcc makes it), a rescaling that is not 1 adds up over the tiles.
  constexpr int64_t keys = 4096;
  Call<Float16> run({1, 1, 1, 1, keys, 32, {.causal = false}});
  const TensorView q = run.q.view(0), k = run.kv.view(0), v = run.kv.view(1);
  for (int64_t d = 0; d < 32; ++d) {
    q.as<Float16>()[d] = Float16(35);
    for (int64_t j = 0; j < keys; ++j) {
      k.as<Float16>()[j * k.stride(2) + d] = Float16(35);
      v.as<Float16>()[j * v.stride(2) + d] = Float16(j < keys / 2 ? 1 : 0);
    }
  }
  run.forward();
  for (int64_t d = 0; d < 32; ++d) EXPECT_NEAR(at<Float16>(run.out.view(0), 0, 0, 0, d), 0.5, 2.5e-4);
  EXPECT_NEAR(run.lse[0], 32 * 35 * 35 / std::sqrt(32.0) + std::log(double(keys)), 4e-3);
}

TEST(AttentionHalf, PassesNanOn) {
  Call<BFloat16> run({1, 1, 1, 70, 70, 16, {}});
  TensorView k = run.kv.view(0);
  k.as<BFloat16>()[40 * k.stride(2)] = NAN;
  run.forward();
  EXPECT_FALSE(std::isnan(at<BFloat16>(run.out.view(0), 0, 0, 39, 0)));
  EXPECT_TRUE(std::isnan(at<BFloat16>(run.out.view(0), 0, 0, 40, 0)));
  EXPECT_TRUE(std::isnan(run.lse[69]));
}

TEST(AttentionHalf, GivesTheSameBitsAgain) {
  Case c{1, 4, 2, 130, 140, 64, {.dropout = 0.1}};
  Call<BFloat16> one(c), again(c);
  for (auto* run : {&one, &again}) run->forward(), run->backward();
  auto bits = [](const std::vector<BFloat16>& data) {
    std::vector<uint16_t> result;
    for (BFloat16 x : data) result.push_back(x.bits);
    return result;
  };
  EXPECT_EQ(bits(one.out.data()), bits(again.out.data()));
  EXPECT_EQ(one.lse, again.lse);
  EXPECT_EQ(bits(one.dq.data()), bits(again.dq.data()));
  EXPECT_EQ(bits(one.dkv.data()), bits(again.dkv.data()));
}

}  // namespace
}  // namespace reprise::kernels
