// For the tests of attention: calls with packed arrays, and naive loops in f64 to compare with.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "reprise/core/random.h"
#include "reprise/kernels/attention/attention.h"
#include "reprise/tests/kernels/run.h"

namespace reprise::kernels::testing {

struct Case {
  int64_t batch, heads, kv_heads, queries, keys, head_dim;
  AttentionOptions options;
  TensorView mask{};
};

/// What the mask adds to a score, by the definition: -inf where it hides the key.
inline double added(const Case& c, int64_t b, int64_t h, int64_t i, int64_t j) {
  if (!c.mask) return 0;
  const TensorView& mask = c.mask;
  const int64_t at = b * mask.stride(0) + h * mask.stride(1) + i * mask.stride(2) + j * mask.stride(3);
  if (mask.dtype == DType::boolean) return mask.as<bool>()[at] ? 0 : -INFINITY;
  double number = 0;
  dispatch_floating(mask.dtype, "added", [&]<class T>() { number = double(mask.as<T>()[at]); });
  return number <= -1e30 ? -INFINITY : number;
}

/// What surrounds the views of a call.
struct Surroundings {
  int64_t lead = 0;   ///< elements before the first, so that it is not aligned
  int64_t spare = 0;  ///< slots that no view covers
};

/// A buffer of (B, T, slots, H, D) and views (B, H, T, D) of its slots: what a packed projection looks like.
template <class T>
class Packed {
 public:
  Packed(int64_t batch, int64_t rows, int64_t slots, int64_t heads, int64_t head_dim,
         Surroundings around = {})
      : slots_(slots + around.spare),
        lead_(around.lead),
        shape_{batch, heads, rows, head_dim},
        data_(size_t(lead_ + batch * rows * slots_ * heads * head_dim)) {}

  void fill(uint32_t seed, float size = 1) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal(0, size);
    for (T& x : data_) x = T(normal(engine));
  }
  TensorView view(int64_t slot) {
    int64_t row = shape_[1] * shape_[3];
    return {data_.data() + lead_ + slot * row,
            shape_,
            {shape_[2] * slots_ * row, shape_[3], slots_ * row, 1},
            dtype_of<T>,
            Device::cpu()};
  }
  const std::vector<T>& data() const { return data_; }

 private:
  int64_t slots_, lead_;
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

  explicit Call(const Case& the_case, float size = 1, Surroundings around = {})
      : c(the_case),
        q(c.batch, c.queries, 1, c.heads, c.head_dim, around),
        kv(c.batch, c.keys, 2, c.kv_heads, c.head_dim, around),
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
    run_kernel(attention, {.q = q.view(0),
                           .k = kv.view(0),
                           .v = kv.view(1),
                           .options = c.options,
                           .out = out.view(0),
                           .lse = lse_view(),
                           .mask = c.mask});
  }
  void backward() {
    run_kernel(attention_backward, {.dout = dout.view(0),
                                    .q = q.view(0),
                                    .k = kv.view(0),
                                    .v = kv.view(1),
                                    .out = out.view(0),
                                    .lse = lse_view(),
                                    .options = c.options,
                                    .dq = dq.view(0),
                                    .dk = dkv.view(0),
                                    .dv = dkv.view(1),
                                    .mask = c.mask});
  }
};

/// The same in f64 by the definition: out, lse, dq, dk, dv as contiguous (B, H, T, D).
struct Reference {
  std::vector<double> out, lse, dq, dk, dv;
};

inline bool is_kept(const Case& c, int64_t head, int64_t i, int64_t j) {
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
    s.push_back(scale * dot + added(c, b, h, i, j));
  }
  double max = s.empty() ? -INFINITY : *std::max_element(s.begin(), s.end());
  ref.lse[size_t(row)] = -INFINITY;
  if (max == -INFINITY) return;  // the query sees no key
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

/// Forward and backward against the reference, each element within `tolerance` times the largest.
template <class T>
void expect_matches_reference(const Case& c, double tolerance, Surroundings around = {}) {
  SCOPED_TRACE(reprise::detail::join("B", c.batch, " H", c.heads, "/", c.kv_heads, " T", c.queries, "/",
                                     c.keys, " D", c.head_dim, c.options.causal ? " causal" : " full",
                                     " dropout ", c.options.dropout));
  Call<T> run(c, 1, around);
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

}  // namespace reprise::kernels::testing
