// Attention under masks of every form against naive loops in f64, at the edges of blocks and tiles (64 queries or keys on
// the CPU and by plain arithmetic; 32 and 64 on tensor cores).
#include "reprise/tests/kernels/attention/reference.h"

namespace reprise::kernels {
namespace {

using namespace testing;

/// Which dimensions of (B, H, T_q, T_k) a mask has, and how it lies in memory.
struct Form {
  bool batch = true, heads = true, queries = true, keys = true;
  int64_t gap = 1;          ///< elements from one key to the next
  bool transposed = false;  ///< queries lie side by side
  int64_t lead = 0;         ///< elements before the first
};

/// A mask in memory of its own, exactly as long as its view reaches.
class Mask {
 public:
  /// added(b, h, i, j): what is added to the scores; -inf, or false, hides the key.
  template <class Added>
  Mask(const Case& c, DType dtype, const Form& form, Added&& added) : view_(layout(c, dtype, form)) {
    int64_t last = form.lead;
    for (int dim = 0; dim < 4; ++dim) last += (view_.shape[dim] - 1) * view_.strides[dim];
    bytes_.resize(size_t(last + 1) * size_of(dtype), std::byte(0x7f));
    view_.data = bytes_.data() + size_t(form.lead) * size_of(dtype);
    auto write = [&]<class T>() {
      for (int64_t b = 0; b < c.batch; ++b)
        for (int64_t h = 0; h < c.heads; ++h)
          for (int64_t i = 0; i < c.queries; ++i)
            for (int64_t j = 0; j < c.keys; ++j) {
              const double number =
                  added(form.batch ? b : 0, form.heads ? h : 0, form.queries ? i : 0, form.keys ? j : 0);
              T& to = view_.as<T>()[b * view_.stride(0) + h * view_.stride(1) + i * view_.stride(2) +
                                    j * view_.stride(3)];
              if constexpr (std::is_same_v<T, bool>)
                to = number > -INFINITY;
              else
                to = T(float(number));
            }
    };
    if (dtype == DType::boolean)
      write.template operator()<bool>();
    else
      dispatch_floating(dtype, "mask", write);
  }
  Mask(const Mask&) = delete;
  const TensorView& view() const { return view_; }

 private:
  static TensorView layout(const Case& c, DType dtype, const Form& form) {
    const int64_t queries = form.queries ? c.queries : 1, keys = form.keys ? c.keys : 1;
    const int64_t head = queries * keys * form.gap, heads = form.heads ? c.heads : 1;
    Strides strides{heads * head, head, form.transposed ? form.gap : keys * form.gap,
                    form.transposed ? queries * form.gap : form.gap};
    const bool has[] = {form.batch, form.heads, form.queries, form.keys};
    for (int dim = 0; dim < 4; ++dim)
      if (!has[dim]) strides[dim] = 0;
    return {nullptr, {c.batch, c.heads, c.queries, c.keys}, strides, dtype, Device::cpu()};
  }

  TensorView view_;
  std::vector<std::byte> bytes_;
};

constexpr double hidden = -INFINITY;

/// Numbers without an order, of which a third hide; query 1 of head 0 sees nothing, and no query sees key 2.
double mixed(int64_t b, int64_t h, int64_t i, int64_t j) {
  if ((h == 0 && i == 1) || j == 2) return hidden;
  const int64_t number = (b * 7919 + h * 104729 + i * 1299709 + j * 15485863) % 1009;
  return number % 3 == 0 ? hidden : double(number % 17) / 4 - 2;
}

template <class T>
constexpr double tolerance() {
  if constexpr (std::is_same_v<T, double>) return 1e-13;
  if constexpr (std::is_same_v<T, float>) return 2e-5;  // sums of f32 products, as in attention_test.cpp
  return std::is_same_v<T, BFloat16> ? 1e-2 : 1.25e-3;  // as in half_test.cpp
}

template <class T>
void expect_matches(Case c, DType dtype, const Form& form, double factor = 1,
                    double (*added)(int64_t, int64_t, int64_t, int64_t) = mixed) {
  const Mask mask(c, dtype, form, added);
  c.mask = mask.view();
  SCOPED_TRACE(reprise::detail::join(dtype_of<T>, ", mask of ", dtype, c.mask.strides));
  expect_matches_reference<T>(c, factor * tolerance<T>());
}

/// Each dtype with another kind of mask: boolean, additive in the wide dtype, additive in its own.
void expect_all_match(const Case& c, const Form& form, double factor = 1) {
  expect_matches<float>(c, DType::f32, form, factor);
  expect_matches<double>(c, DType::boolean, form, factor);
  expect_matches<BFloat16>(c, DType::bf16, form, factor);
  expect_matches<Float16>(c, DType::boolean, form, factor);
}

TEST(AttentionMask, OfEveryKindGoesWithEveryDType) {
  const Case c{1, 2, 1, 18, 33, 16, {.causal = false}};
  for (DType kind : {DType::boolean, DType::f32}) {
    expect_matches<float>(c, kind, {});
    for (DType half : {kind, DType::bf16}) expect_matches<BFloat16>(c, half, {});
    for (DType half : {kind, DType::f16}) expect_matches<Float16>(c, half, {});
  }
  for (DType kind : {DType::boolean, DType::f64}) expect_matches<double>(c, kind, {});
}

TEST(AttentionMask, OfEveryBroadcastMatchesLoops) {
  const Case c{2, 2, 1, 19, 35, 16, {.causal = false}};
  for (const Form& form :
       {Form{.batch = false}, Form{.heads = false}, Form{.queries = false}, Form{.keys = false},
        Form{.batch = false, .heads = false}, Form{.heads = false, .queries = false}})
    expect_all_match(c, form);
}

TEST(AttentionMask, OfAnyStridesMatchesLoops) {
  const Case c{1, 2, 2, 21, 34, 16, {.causal = false}};
  for (const Form& form :
       {Form{.gap = 3}, Form{.transposed = true}, Form{.gap = 2, .transposed = true}, Form{.lead = 1}})
    expect_all_match(c, form);
}

TEST(AttentionMask, MatchesAtTheEdgesOfTiles) {
  for (auto [queries, keys] : {std::pair{1, 1}, {1, 65}, {64, 32}, {65, 33}, {33, 129}, {128, 64}, {130, 1}})
    for (bool causal : {true, false}) {
      const Case c{1, 1, 1, queries, keys, 16, {.causal = causal}};
      expect_matches<float>(c, DType::boolean, {});
      expect_matches<BFloat16>(c, DType::f32, {});
    }
}

TEST(AttentionMask, MatchesForEveryTileWidth) {
  for (int64_t head_dim : {16, 40, 72, 128, 130}) {
    const Case c{1, 1, 1, 34, 70, head_dim, {.causal = head_dim == 40}};
    expect_matches<BFloat16>(c, DType::boolean, {});
    expect_matches<Float16>(c, DType::f16, {});
    expect_matches<float>(c, DType::f32, {});
  }
}

TEST(AttentionMask, OfEachHeadGoesWithGroupedHeads) {
  const Case c{2, 6, 2, 33, 40, 16, {}};
  // Gradients of keys sum over three heads.
  for (const Form& form : {Form{}, Form{.batch = false}}) expect_all_match(c, form, 2);
}

TEST(AttentionMask, GoesWithDropout) {
  // 1 / (1 - p) enlarges the terms.
  for (auto [queries, keys] : {std::pair{70, 68}, {33, 65}}) {
    const Case c{1, 2, 1, queries, keys, 16, {.causal = false, .dropout = 0.3, .seed = 7, .offset = 5}};
    expect_all_match(c, {}, 3);
  }
}

TEST(AttentionMask, GoesWithScalesOfEitherSign) {
  for (double scale : {0.4, -0.2}) {
    const Case c{1, 1, 1, 40, 40, 16, {.causal = false, .scale = scale}};
    expect_all_match(c, {}, 2);
  }
}

/// Tiles in a band around the diagonal; whole tiles of keys are hidden, before, between and behind, and all keys of
/// queries from 140 on.
double banded(int64_t, int64_t, int64_t i, int64_t j) {
  return i < 140 && std::abs(i / 64 - j / 64) != 1 && (i + j) % 5 != 0 ? 0.5 : hidden;
}

TEST(AttentionMask, ThatHidesWholeTilesMatchesLoops) {
  const Case c{1, 1, 1, 200, 260, 16, {.causal = false}};
  expect_matches<float>(c, DType::boolean, {}, 1, banded);
  expect_matches<BFloat16>(c, DType::f32, {}, 1, banded);
}

template <class T>
void expect_hidden_tiles_unread() {
  Case c{1, 1, 1, 70, 192, 16, {.causal = false}};
  const Mask mask(c, DType::boolean, {},
                  [](int64_t, int64_t, int64_t, int64_t j) { return j / 64 == 1 ? hidden : 0.0; });
  c.mask = mask.view();
  Call<T> run(c);
  for (const TensorView& x : {run.kv.view(0), run.kv.view(1)})
    for (int64_t j = 64; j < 128; ++j) x.template as<T>()[j * x.stride(2)] = T(NAN);
  run.forward();
  run.backward();
  for (int64_t i = 0; i < c.queries; ++i)
    for (int64_t d = 0; d < c.head_dim; ++d) {
      ASSERT_TRUE(std::isfinite(at<T>(run.out.view(0), 0, 0, i, d))) << i;
      ASSERT_TRUE(std::isfinite(at<T>(run.dq.view(0), 0, 0, i, d))) << i;
    }
  for (int64_t j = 0; j < c.keys; ++j)
    for (int64_t slot : {0, 1}) ASSERT_TRUE(std::isfinite(at<T>(run.dkv.view(slot), 0, 0, j, 0))) << j;
}

TEST(AttentionMask, LeavesOutWholeTilesThatItHides) {
  expect_hidden_tiles_unread<float>();
  expect_hidden_tiles_unread<BFloat16>();
}

template <class T>
void expect_nothing_from_nothing(bool bits, bool causal) {
  Case c{1, 2, 1, 70, 66, 16, {.causal = causal}};
  const Mask mask(c, bits ? DType::boolean : dtype_of<Accumulator<T>>, {},
                  [](int64_t, int64_t h, int64_t i, int64_t j) {
                    return h == 0 || i % 2 == 0 || j % 2 == 0 ? hidden : 0.0;
                  });
  c.mask = mask.view();
  Call<T> run(c);
  run.forward();
  run.backward();
  for (int64_t i = 0; i < c.queries; ++i)
    for (int64_t d = 0; d < c.head_dim; ++d)
      for (int64_t h : {0, 1}) {
        if (h == 1 && i % 2 == 1) continue;
        EXPECT_EQ(double(run.lse[size_t(h * c.queries + i)]), -INFINITY);
        EXPECT_EQ(at<T>(run.out.view(0), 0, h, i, d), 0) << i;
        EXPECT_EQ(at<T>(run.dq.view(0), 0, h, i, d), 0) << i;
      }
  for (int64_t j = 0; j < c.keys; ++j)
    for (int64_t d = 0; d < c.head_dim; ++d) {
      const double dk = at<T>(run.dkv.view(0), 0, 0, j, d), dv = at<T>(run.dkv.view(1), 0, 0, j, d);
      EXPECT_TRUE(j % 2 == 1 || (dk == 0 && dv == 0)) << j;
      EXPECT_TRUE(std::isfinite(dk) && std::isfinite(dv)) << j;
    }
}

TEST(AttentionMask, GivesZeroToQueriesThatSeeNoKeyAndToKeysThatNoQuerySees) {
  for (bool bits : {true, false})
    for (bool causal : {true, false}) {
      expect_nothing_from_nothing<float>(bits, causal);
      expect_nothing_from_nothing<double>(bits, causal);
      expect_nothing_from_nothing<BFloat16>(bits, causal);
    }
}

TEST(AttentionMask, OfTheLowestNumbersHidesAsInfinityDoes) {
  Case c{1, 1, 1, 40, 70, 16, {.causal = false}};
  auto result = [&](double lowest) {
    const Mask mask(c, DType::f32, {}, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
      const double number = mixed(b, h, i, j);
      return number == hidden ? lowest : number;
    });
    c.mask = mask.view();
    Call<float> run(c);
    run.forward();
    run.backward();
    return std::tuple(run.out.data(), run.lse, run.dq.data(), run.dkv.data());
  };
  EXPECT_EQ(result(std::numeric_limits<float>::lowest()), result(-INFINITY));
}

TEST(AttentionMask, OfOnesAndTheCausalMaskIsTheCausalMask) {
  Case c{1, 2, 1, 70, 75, 16, {}}, masked = c;
  const Mask mask(c, DType::boolean, {.batch = false, .heads = false},
                  [](int64_t, int64_t, int64_t i, int64_t j) { return j <= i + 5 ? 0.0 : hidden; });
  masked.options.causal = false;
  masked.mask = mask.view();
  Call<float> one(c), other(masked);
  for (auto* run : {&one, &other}) run->forward(), run->backward();
  EXPECT_EQ(one.out.data(), other.out.data());
  EXPECT_EQ(one.lse, other.lse);
}

TEST(AttentionMask, HasToFit) {
  Case c{1, 2, 1, 3, 5, 4, {.causal = false}};
  auto refusal = [&](DType dtype, const Shape& shape) {
    std::vector<double> numbers(100);
    Call<float> run(c);
    return error_of(attention,
                    {.q = run.q.view(0),
                     .k = run.kv.view(0),
                     .v = run.kv.view(1),
                     .out = run.out.view(0),
                     .mask = {numbers.data(), shape, contiguous_strides(shape), dtype, Device::cpu()}});
  };
  EXPECT_EQ(refusal(DType::boolean, {1, 1, 3, 5}),
            "attention: the mask has shape (1, 1, 3, 5), the scores have (1, 2, 3, 5)");
  for (DType dtype : {DType::f64, DType::bf16, DType::i64})
    EXPECT_EQ(
        refusal(dtype, {1, 2, 3, 5}),
        reprise::detail::join("attention: the mask must be bool, f32 or of q's dtype, f32, got ", dtype));
}

}  // namespace
}  // namespace reprise::kernels
