// A cache whose layers have windows: attention in pieces against that of whole sequences, and the memory that it takes.
#include "reprise/nn/transformers/kv_cache.h"

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops/attention/masked_attention.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::is_close;
using testing::test_device;

constexpr double kTolerance = 1e-6;  // sums of at most 90 values of about 1 in another order
constexpr int64_t heads = 4, kv_heads = 2, head_dim = 8;

// Queries, keys and values of rows, all their tokens.
struct Sequences {
  explicit Sequences(int64_t rows, int64_t tokens)
      : q(randn({rows, heads, tokens, head_dim}).to(test_device())),
        k(randn({rows, kv_heads, tokens, head_dim}).to(test_device())),
        v(randn({rows, kv_heads, tokens, head_dim}).to(test_device())) {}

  Tensor whole(int64_t window) const {
    return masked_attention(q, k, v, Tensor(), {.causal = true, .window = window});
  }
  // Of tokens [from, to) of some rows.
  Tensor attend(KvCache& cache, int64_t row, int64_t end_row, int64_t from, int64_t to,
                int64_t window) const {
    auto part = [&](const Tensor& x) { return slice(slice(x, 0, row, end_row), 2, from, to); };
    return cache.attend(0, row, part(q), part(k), part(v), window);
  }

  Tensor q, k, v;
};

// Pieces of one token and of many, in all orders that fit.
TEST(KvCache, SeesWithinAWindowWhatWholeSequencesSee) {
  NoGrad unrecorded;
  manual_seed(11);
  const int64_t tokens = 90;
  const Sequences all(1, tokens);
  for (int64_t window : {1, 2, 3, 7, 16, 44, 45, 60, 200}) {
    const Tensor want = all.whole(window);
    for (int64_t longest : {1, 3, 9, 40}) {
      KvCache cache(1, 1, tokens);
      for (int64_t from = 0, to; from < tokens; from = to) {
        to = std::min(tokens, from + 1 + int64_t(philox_block(7, 0, uint64_t(from))[0]) % longest);
        const Tensor got = all.attend(cache, 0, 1, from, to, window);
        ASSERT_TRUE(is_close(got, slice(want, 2, from, to), kTolerance))
            << "window " << window << ", tokens " << from << " to " << to;
        cache.advance(0, 1, to - from);
      }
    }
  }
}

// Rows of three lengths, two of them one; then one of them from the start again.
TEST(KvCache, RowsOfUnequalLengthForgetEachItsOwn) {
  NoGrad unrecorded;
  manual_seed(12);
  const int64_t rows = 4, tokens = 60, window = 5;
  const std::vector<int64_t> lengths = {3, 31, 31, 0};
  const Sequences all(rows, tokens);
  const Tensor want = all.whole(window);
  KvCache cache(1, rows, tokens);
  for (int64_t row = 0; row < rows; ++row) {
    if (lengths[size_t(row)] == 0) continue;
    all.attend(cache, row, row + 1, 0, lengths[size_t(row)], window);
    cache.advance(row, 1, lengths[size_t(row)]);
  }
  auto step = [&] {
    TensorList of_rows[3];
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t at = cache.length(row);
      for (int part = 0; const Tensor* x : {&all.q, &all.k, &all.v})
        of_rows[part++].push_back(slice(slice(*x, 0, row, row + 1), 2, at, at + 1));
    }
    const Tensor got =
        cache.attend(0, 0, concat(of_rows[0], 0), concat(of_rows[1], 0), concat(of_rows[2], 0), window);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t at = cache.length(row);
      EXPECT_TRUE(is_close(slice(got, 0, row, row + 1), slice(slice(want, 0, row, row + 1), 2, at, at + 1),
                           kTolerance))
          << "row " << row << ", token " << at;
    }
    cache.advance(0, rows, 1);
  };
  for (int64_t i = 0; i < 20; ++i) step();
  cache.clear(1);
  for (int64_t i = 0; i < 9; ++i) step();
  EXPECT_EQ(cache.length(1), 9);
  EXPECT_EQ(cache.length(2), 60);
}

// Keys and values of 2 x 2 heads of 8 numbers of 4 bytes: 256 bytes for each token.
TEST(KvCache, TakesTheMemoryOfTwoWindows) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "counts the memory of the CPU";
  NoGrad unrecorded;
  const Sequences all(1, 500);
  const size_t before = allocator(test_device()).stats().allocated;
  KvCache cache(1, 1, 1 << 20);
  for (int64_t at = 0; at < 500; at += 5) {
    all.attend(cache, 0, 1, at, at + 5, 16);
    cache.advance(0, 1, 5);
  }
  EXPECT_LE(allocator(test_device()).stats().allocated - before, size_t(2 * 16 * 256 + 1024));
}

TEST(KvCache, SaysWhatAWindowForbids) {
  NoGrad unrecorded;
  const Sequences all(1, 40);
  KvCache cache(1, 1, 64);
  all.attend(cache, 0, 1, 0, 3, 4);
  cache.advance(0, 1, 3);
  expect_error([&] { all.attend(cache, 0, 1, 3, 4, 5); }, "KvCache: layer 0 has a window of 4, got 5");
  const Tensor once = all.attend(cache, 0, 1, 3, 5, 4);
  EXPECT_TRUE(is_close(all.attend(cache, 0, 1, 3, 5, 4), once, kTolerance)) << "nothing was lost";
  all.attend(cache, 0, 1, 3, 7, 4), cache.advance(0, 1, 4);
  all.attend(cache, 0, 1, 7, 9,
             4);  // which moves what it keeps, and nothing that a shorter call sees is gone
  EXPECT_TRUE(is_close(all.attend(cache, 0, 1, 7, 8, 4), slice(all.whole(4), 2, 7, 8), kTolerance));
  all.attend(cache, 0, 1, 7, 30, 4);  // as a call that fails in a layer behind this one
  expect_error(
      [&] { all.attend(cache, 0, 1, 7, 8, 4); },
      "KvCache: tokens 4 to 23 of sequence 0 are gone: a call that went beyond them was not finished by "
      "advance; clear the sequence");
  cache.clear(0);
  EXPECT_TRUE(is_close(all.attend(cache, 0, 1, 0, 3, 4), slice(all.whole(4), 2, 0, 3), kTolerance));
  expect_error(
      [&] { all.attend(cache, 0, 1, 0, 40, 4), cache.advance(0, 1, 40), all.attend(cache, 0, 1, 0, 40, 4); },
      "KvCache: 80 tokens, there is room for 64");
}

}  // namespace
}  // namespace reprise::nn
