// Attention against naive loops in f64, on odd sizes, packed strided views, grouped heads and dropout.
#include "reprise/core/parallel.h"
#include "reprise/kernels/attention/cpu_tile.h"
#include "reprise/tests/kernels/attention/reference.h"

namespace reprise::kernels {
namespace {

using namespace testing;

// Sums of f32 products, each exact to 6e-8; a few hundred terms add up to less than this.
constexpr double kTolerance = 2e-5;
constexpr double kTolerance64 = 1e-13;

constexpr int64_t block = attention_detail::kBlock;  // queries or keys of one, on the CPU

std::vector<Case> odd_cases() {
  constexpr int64_t head_dims[2][2] = {{1, 17}, {3, 16}};  // in turn
  std::vector<Case> cases;
  for (bool causal : {true, false})
    for (auto [queries, keys] : {std::pair<int64_t, int64_t>{1, 1},
                                 {3, 3},
                                 {5, 17},
                                 {17, 5},
                                 {33, 33},
                                 {7, 2 * block + 2},
                                 {block + 1, block},
                                 {block, block},
                                 {2 * block + 2, 2 * block + 1},
                                 {1, 3 * block + 8},
                                 {2 * block, 1},
                                 {3 * block + 8, block + 9}})
      for (int64_t head_dim : head_dims[cases.size() / 2 % 2])
        cases.push_back({1, 2, 1, queries, keys, head_dim, {.causal = causal}});
  return cases;
}

TEST(Attention, MatchesNaiveLoopsOnOddSizes) {
  for (const Case& c : odd_cases()) expect_matches_reference<float>(c, kTolerance);
}

TEST(Attention, MatchesNaiveLoopsOnOddSizesInF64) {
  for (const Case& c : odd_cases()) expect_matches_reference<double>(c, kTolerance64);
}

TEST(Attention, MatchesNaiveLoopsOnTrainingHeads) {
  for (int64_t head_dim : {32, 64, 80, 130})
    for (bool causal : {true, false})
      expect_matches_reference<float>({1, 2, 2, 80, 80, head_dim, {.causal = causal}}, kTolerance);
}

// As a token of generation has: no block of keys is packed for them.
TEST(Attention, MatchesNaiveLoopsForFewQueriesOfManyKeys) {
  for (int64_t queries : {1, 2, 3, 4, 5})
    for (int64_t keys : {63, 64, 150})
      for (bool causal : {true, false}) {
        for (int64_t head_dim : {5, 16, 64, 100, 130})
          expect_matches_reference<float>({1, 2, 1, queries, keys, head_dim, {.causal = causal}}, kTolerance);
        expect_matches_reference<double>({2, 2, 2, queries, keys, 13, {.causal = causal, .scale = -0.3}},
                                         kTolerance64);
        expect_matches_reference<BFloat16>({1, 4, 2, queries, keys, 40, {.causal = causal}}, 8e-3);
        expect_matches_reference<Float16>({1, 4, 2, queries, keys, 40, {.causal = causal}}, 1e-3);
      }
}

TEST(Attention, OfFewQueriesLetsNoHiddenKeyIn) {
  Call<float> run({1, 1, 1, 3, 64, 16, {}});
  for (int part : {0, 1}) run.kv.view(part).as<float>()[63 * run.kv.view(part).stride(2)] = NAN;
  run.forward();
  for (int64_t i : {0, 1}) EXPECT_TRUE(std::isfinite(at<float>(run.out.view(0), 0, 0, i, 0))) << i;
  EXPECT_TRUE(std::isnan(at<float>(run.out.view(0), 0, 0, 2, 0)));
  EXPECT_TRUE(std::isfinite(run.lse[1]));
  EXPECT_TRUE(std::isnan(run.lse[2]));
}

TEST(Attention, SharesKeysAmongGroupedHeads) {
  for (int64_t kv_heads : {1, 2, 3, 6}) {
    expect_matches_reference<float>({2, 6, kv_heads, 33, 70, 24, {}}, kTolerance);
    expect_matches_reference<double>({2, 6, kv_heads, 33, 70, 5, {}}, kTolerance64);
  }
}

TEST(Attention, TakesItsScaleFromTheOptions) {
  expect_matches_reference<double>({1, 1, 1, 5, 7, 3, {.causal = false, .scale = 0.3}}, kTolerance64);
}

TEST(Attention, DropsWhatPhiloxSays) {
  for (double p : {0.1, 0.5, 0.9})
    for (auto [queries, keys] :
         {std::pair<int64_t, int64_t>{5, 7}, {block + 6, block + 4}, {33, 2 * block + 1}}) {
      Case c{2, 2, 1, queries, keys, 16, {.causal = false, .dropout = p, .seed = 7, .offset = 5}};
      // 1 / (1 - p) enlarges the terms tenfold at most
      expect_matches_reference<float>(c, 10 * kTolerance);
      c.options.causal = true;
      expect_matches_reference<double>(c, 10 * kTolerance64);
    }
}

TEST(Attention, KeepsHalfTypesToTheirPrecision) {
  // Results are rounded to 8 bits (bf16) or 11 (f16); backward reads a rounded output besides.
  for (auto [queries, keys] : {std::pair{33, 33}, {70, 100}}) {
    expect_matches_reference<BFloat16>({1, 4, 2, queries, keys, 24, {}}, 8e-3);
    expect_matches_reference<Float16>({1, 4, 2, queries, keys, 24, {}}, 1e-3);
  }
}

TEST(Attention, GivesZeroToQueriesThatSeeNoKey) {
  Call<float> run({1, 1, 1, 5, 3, 4, {}});
  run.forward();
  run.backward();
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(run.lse[size_t(i)], -INFINITY) << i;
    for (int64_t d = 0; d < 4; ++d) {
      EXPECT_EQ(at<float>(run.out.view(0), 0, 0, i, d), 0) << i << ", " << d;
      EXPECT_EQ(at<float>(run.dq.view(0), 0, 0, i, d), 0) << i << ", " << d;
    }
  }
  EXPECT_TRUE(std::isfinite(run.lse[2]));
}

TEST(Attention, HandlesNoKeysAtAll) {
  Call<float> run({2, 2, 1, 3, 0, 4, {.causal = false}});
  run.forward();
  run.backward();
  for (float x : run.out.data()) EXPECT_EQ(x, 0);
  for (float x : run.dq.data()) EXPECT_EQ(x, 0);
  for (float x : run.lse) EXPECT_EQ(x, -INFINITY);
}

TEST(Attention, WritesZeroKeyGradientsWithoutQueries) {
  Call<float> run({2, 2, 1, 0, 3, 4, {}});
  run.forward();
  run.backward();
  for (float x : run.dkv.data()) EXPECT_EQ(x, 0);
}

TEST(Attention, SurvivesLargeScores) {
  Call<float> run({1, 1, 1, 40, 40, 16, {.scale = 40}}, 3);  // scores in the thousands: one key takes all
  run.forward();
  run.backward();
  for (float x : run.out.data()) ASSERT_TRUE(std::isfinite(x));
  for (float x : run.dq.data()) ASSERT_TRUE(std::isfinite(x));
  expect_close<float>("out", run.out.view(0), reference(run).out,
                      1e-3);  // scores carry absolute errors of 1e-4
}

TEST(Attention, PassesNanOn) {
  Call<float> run({1, 1, 1, 20, 20, 16, {}});
  TensorView k = run.kv.view(0);
  k.as<float>()[10 * k.stride(2)] = NAN;
  run.forward();
  EXPECT_FALSE(std::isnan(at<float>(run.out.view(0), 0, 0, 9, 0)));
  EXPECT_TRUE(std::isnan(at<float>(run.out.view(0), 0, 0, 10, 0)));
  EXPECT_TRUE(std::isnan(run.lse[19]));
}

TEST(Attention, RunsWithoutLse) {
  Call<float> run({1, 2, 2, 5, 5, 4, {}});
  run_kernel(attention,
             {.q = run.q.view(0), .k = run.kv.view(0), .v = run.kv.view(1), .out = run.out.view(0)});
  expect_close<float>("out", run.out.view(0), reference(run).out, kTolerance);
}

TEST(Attention, IsExactAcrossThreadCounts) {
  int before = num_threads();
  for (const Case& c : {Case{1, 1, 1, 2 * block + 22, 2 * block + 22, 32, {}},
                        {2, 6, 2, 2 * block + 2, block + 6, 24, {.dropout = 0.2}},
                        {1, 4, 4, block + 1, 3 * block + 8, 16, {.causal = false}}}) {
    set_num_threads(1);
    Call<float> one(c);
    one.forward();
    one.backward();
    for (int threads : {2, 4}) {
      set_num_threads(threads);
      Call<float> many(c);
      many.forward();
      many.backward();
      EXPECT_EQ(one.out.data(), many.out.data()) << threads;
      EXPECT_EQ(one.lse, many.lse) << threads;
      EXPECT_EQ(one.dq.data(), many.dq.data()) << threads;
      EXPECT_EQ(one.dkv.data(), many.dkv.data()) << threads;
    }
  }
  set_num_threads(before);
}

template <class Change>
std::string error_of(Change change) {
  Call<float> run({1, 4, 2, 5, 7, 8, {}});
  TensorView q = run.q.view(0), k = run.kv.view(0), v = run.kv.view(1), out = run.out.view(0),
             lse = run.lse_view();
  AttentionOptions options;
  change(q, k, v, out, lse, options);
  try {
    run_kernel(attention, {.q = q, .k = k, .v = v, .options = options, .out = out, .lse = lse});
  } catch (const Error& error) { return error.what(); }
  return "no error";
}

TEST(Attention, NamesWhatDoesNotFit) {
  using View = TensorView;
  using Options = AttentionOptions;
  EXPECT_EQ(error_of([](View& q, View&, View&, View&, View&, Options&) { q = select(q, 0, 0); }),
            "attention: needs (B, H, T, D) tensors, got shapes (4, 5, 8), (1, 2, 7, 8) and (1, 2, 7, 8)");
  EXPECT_EQ(error_of([](View&, View& k, View&, View&, View&, Options&) { k = slice(k, 2, 0, 6); }),
            "attention: k and v differ in shape: (1, 2, 6, 8) and (1, 2, 7, 8)");
  EXPECT_EQ(error_of([](View& q, View&, View&, View& out, View&, Options&) {
              q = slice(q, 1, 0, 3);
              out = slice(out, 1, 0, 3);
            }),
            "attention: 3 heads are not a multiple of 2 kv heads");
  EXPECT_EQ(error_of([](View&, View& k, View&, View&, View&, Options&) { k.dtype = DType::bf16; }),
            "attention: dtypes differ: f32, bf16, f32 and f32");
  EXPECT_EQ(error_of([](View&, View&, View&, View&, View& lse, Options&) { lse.dtype = DType::bf16; }),
            "attention: lse must be contiguous f32, got bf16 with strides (20, 5, 1)");
  EXPECT_EQ(error_of([](View&, View&, View&, View&, View&, Options& options) { options.dropout = 1; }),
            "attention: dropout must be in [0, 1), got 1");
}

}  // namespace
}  // namespace reprise::kernels
