// Attention against naive loops in f64, on odd sizes, packed strided views, grouped heads and dropout.
#include "reprise/kernels/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "reprise/core/parallel.h"
#include "reprise/core/random.h"
#include "reprise/tests/kernels/run.h"

namespace reprise::kernels {
namespace {

using testing::run_kernel;

struct Case {
  int64_t batch, heads, kv_heads, queries, keys, head_dim;
  AttentionOptions options;
};

/// A buffer of (B, T, slots, H, D) and views (B, H, T, D) of its slots: what a packed projection looks like.
template <class T>
class Packed {
 public:
  Packed(int64_t batch, int64_t rows, int64_t slots, int64_t heads, int64_t head_dim)
      : slots_(slots),
        shape_{batch, heads, rows, head_dim},
        data_(size_t(batch * rows * slots * heads * head_dim)) {}

  void fill(uint32_t seed, float size = 1) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal(0, size);
    for (T& x : data_) x = T(normal(engine));
  }
  TensorView view(int64_t slot) {
    int64_t row = shape_[1] * shape_[3];
    return {data_.data() + slot * row,
            shape_,
            {shape_[2] * slots_ * row, shape_[3], slots_ * row, 1},
            dtype_of<T>,
            Device::cpu()};
  }
  const std::vector<T>& data() const { return data_; }

 private:
  int64_t slots_;
  Shape shape_;
  std::vector<T> data_;
};

template <class T>
double at(const TensorView& x, int64_t b, int64_t h, int64_t i, int64_t d) {
  return double(x.as<T>()[b * x.stride(0) + h * x.stride(1) + i * x.stride(2) + d]);
}

/// All inputs and results of one call in packed buffers.
template <class T>
struct Call {
  using C = Accumulator<T>;
  Case c;
  Packed<T> q, kv, out, dout, dq, dkv;
  std::vector<C> lse;

  explicit Call(const Case& the_case, float size = 1)
      : c(the_case),
        q(c.batch, c.queries, 1, c.heads, c.head_dim),
        kv(c.batch, c.keys, 2, c.kv_heads, c.head_dim),
        out(q),
        dout(q),
        dq(q),
        dkv(kv),
        lse(size_t(c.batch * c.heads * c.queries)) {
    q.fill(1, size);
    kv.fill(2, size);
    dout.fill(3);
    out.fill(4);  // results must overwrite what is there
    dq.fill(5);
    dkv.fill(6);
  }
  TensorView lse_view() {
    Shape shape{c.batch, c.heads, c.queries};
    return {lse.data(), shape, contiguous_strides(shape), dtype_of<C>, Device::cpu()};
  }
  void forward() {
    run_kernel(attention, q.view(0), kv.view(0), kv.view(1), c.options, out.view(0), lse_view());
  }
  void backward() {
    run_kernel(attention_backward, dout.view(0), q.view(0), kv.view(0), kv.view(1), out.view(0), lse_view(),
               c.options, dq.view(0), dkv.view(0), dkv.view(1));
  }
};

/// The same in f64 by the definition: out, lse, dq, dk, dv as contiguous (B, H, T, D).
struct Reference {
  std::vector<double> out, lse, dq, dk, dv;
};

bool is_kept(const Case& c, int64_t head, int64_t i, int64_t j) {
  if (c.options.dropout == 0) return true;
  uint64_t index = uint64_t((head * c.queries + i) * c.keys + j);
  auto draw = philox_block(c.options.seed, c.options.offset, index / 4)[index % 4];
  return double(to_unit_float(draw)) >= c.options.dropout;
}

template <class T>
void add_reference_row(Call<T>& run, int64_t b, int64_t h, int64_t i, Reference& ref) {
  const Case& c = run.c;
  int64_t D = c.head_dim, g = h / (c.heads / c.kv_heads), row = (b * c.heads + h) * c.queries + i;
  double scale = c.options.scale != 0 ? c.options.scale : 1 / std::sqrt(double(D));
  double kept = 1 / (1 - c.options.dropout);
  auto q = run.q.view(0), k = run.kv.view(0), v = run.kv.view(1), dout = run.dout.view(0);
  int64_t end = c.options.causal ? std::min(c.keys, i + c.keys - c.queries + 1) : c.keys;
  std::vector<double> s, p, dp;
  double sum = 0, delta = 0;
  for (int64_t j = 0; j < end; ++j) {
    double dot = 0;
    for (int64_t d = 0; d < D; ++d) dot += at<T>(q, b, h, i, d) * at<T>(k, b, g, j, d);
    s.push_back(scale * dot);
  }
  double max = s.empty() ? -INFINITY : *std::max_element(s.begin(), s.end());
  for (double x : s) sum += std::exp(x - max);
  ref.lse[size_t(row)] = max + std::log(sum);
  for (int64_t j = 0; j < end; ++j) {
    double factor = is_kept(c, b * c.heads + h, i, j) ? kept : 0, dot = 0;
    p.push_back(std::exp(s[size_t(j)] - max) / sum);
    for (int64_t d = 0; d < D; ++d) {
      ref.out[size_t(row * D + d)] += factor * p.back() * at<T>(v, b, g, j, d);
      ref.dv[size_t(((b * c.kv_heads + g) * c.keys + j) * D + d)] +=
          factor * p.back() * at<T>(dout, b, h, i, d);
      dot += at<T>(dout, b, h, i, d) * at<T>(v, b, g, j, d);
    }
    dp.push_back(factor * dot);
    delta += p.back() * dp.back();
  }
  for (int64_t j = 0; j < end; ++j)
    for (int64_t d = 0; d < D; ++d) {
      double ds = scale * p[size_t(j)] * (dp[size_t(j)] - delta);
      ref.dq[size_t(row * D + d)] += ds * at<T>(k, b, g, j, d);
      ref.dk[size_t(((b * c.kv_heads + g) * c.keys + j) * D + d)] += ds * at<T>(q, b, h, i, d);
    }
}

template <class T>
Reference reference(Call<T>& run) {
  const Case& c = run.c;
  size_t rows = size_t(c.batch * c.heads * c.queries),
         kv = size_t(c.batch * c.kv_heads * c.keys * c.head_dim);
  size_t q = rows * size_t(c.head_dim);
  Reference ref{std::vector<double>(q), std::vector<double>(rows), std::vector<double>(q),
                std::vector<double>(kv), std::vector<double>(kv)};
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t h = 0; h < c.heads; ++h)
      for (int64_t i = 0; i < c.queries; ++i) add_reference_row(run, b, h, i, ref);
  return ref;
}

template <class T>
void expect_close(const char* what, const TensorView& got, const std::vector<double>& want,
                  double tolerance) {
  size_t n = 0;
  double largest = 1e-30;
  for (double x : want) largest = std::max(largest, std::fabs(x));
  for (int64_t b = 0; b < got.size(0); ++b)
    for (int64_t h = 0; h < got.size(1); ++h)
      for (int64_t i = 0; i < got.size(2); ++i)
        for (int64_t d = 0; d < got.size(3); ++d, ++n)
          ASSERT_NEAR(at<T>(got, b, h, i, d), want[n], tolerance * std::max(largest, 1.0))
              << what << " at (" << b << ", " << h << ", " << i << ", " << d << ")";
}

template <class T>
void expect_matches_reference(const Case& c, double tolerance) {
  SCOPED_TRACE(detail::join("B", c.batch, " H", c.heads, "/", c.kv_heads, " T", c.queries, "/", c.keys, " D",
                            c.head_dim, c.options.causal ? " causal" : " full", " dropout ",
                            c.options.dropout));
  Call<T> run(c);
  run.forward();
  run.backward();
  Reference ref = reference(run);
  expect_close<T>("out", run.out.view(0), ref.out, tolerance);
  expect_close<T>("dq", run.dq.view(0), ref.dq, tolerance);
  expect_close<T>("dk", run.dkv.view(0), ref.dk, tolerance);
  expect_close<T>("dv", run.dkv.view(1), ref.dv, tolerance);
  double lse_tolerance = std::is_same_v<T, double> ? 1e-12 : 1e-5;  // f32 sums of up to 200 terms, |lse| < 10
  for (size_t i = 0; i < ref.lse.size(); ++i) {
    if (std::isinf(ref.lse[i])) {
      ASSERT_EQ(double(run.lse[i]), ref.lse[i]) << "lse of row " << i;
    } else {
      ASSERT_NEAR(double(run.lse[i]), ref.lse[i], lse_tolerance) << "lse of row " << i;
    }
  }
}

// Sums of f32 products, each exact to 6e-8; a few hundred terms add up to less than this.
constexpr double kTolerance = 2e-5;
constexpr double kTolerance64 = 1e-13;

std::vector<Case> odd_cases() {
  std::vector<Case> cases;
  for (bool causal : {true, false})
    for (auto [queries, keys] : {std::pair{1, 1},
                                 {3, 3},
                                 {5, 17},
                                 {17, 5},
                                 {33, 33},
                                 {7, 130},
                                 {65, 64},
                                 {64, 64},
                                 {130, 129},
                                 {1, 200},
                                 {128, 1},
                                 {200, 73}})
      for (int64_t head_dim : {1, 3, 16, 17})
        cases.push_back({1, 2, 1, queries, keys, head_dim, {.causal = causal}});
  return cases;
}

TEST(Attention, MatchesNaiveLoopsOnOddSizes) {
  for (const Case& c : odd_cases()) {
    expect_matches_reference<float>(c, kTolerance);
    expect_matches_reference<double>(c, kTolerance64);
  }
}

TEST(Attention, MatchesNaiveLoopsOnTrainingHeads) {
  for (int64_t head_dim : {32, 64, 80, 96})
    for (bool causal : {true, false})
      expect_matches_reference<float>({1, 2, 2, 80, 80, head_dim, {.causal = causal}}, kTolerance);
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
    for (auto [queries, keys] : {std::pair{5, 7}, {70, 68}, {33, 129}}) {
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
  run_kernel(attention, run.q.view(0), run.kv.view(0), run.kv.view(1), {}, run.out.view(0), {});
  expect_close<float>("out", run.out.view(0), reference(run).out, kTolerance);
}

TEST(Attention, IsExactAcrossThreadCounts) {
  int before = num_threads();
  for (const Case& c : {Case{1, 1, 1, 150, 150, 32, {}},
                        {2, 6, 2, 130, 70, 24, {.dropout = 0.2}},
                        {1, 4, 4, 65, 200, 16, {.causal = false}}}) {
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
    run_kernel(attention, q, k, v, options, out, lse);
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
  EXPECT_EQ(error_of([](View&, View& k, View&, View&, View&, Options&) { k.dtype = DType::f64; }),
            "attention: dtypes differ: f32, f64, f32 and f32");
  EXPECT_EQ(error_of([](View&, View&, View&, View&, View& lse, Options&) { lse.dtype = DType::f64; }),
            "attention: lse must be contiguous f32, got f64 with strides (20, 5, 1)");
  EXPECT_EQ(error_of([](View&, View&, View&, View&, View&, Options& options) { options.dropout = 1; }),
            "attention: dropout must be in [0, 1), got 1");
}

}  // namespace
}  // namespace reprise::kernels
