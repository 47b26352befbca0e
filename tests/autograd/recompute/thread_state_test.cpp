// A state of the thread, of the kind that autocast has: replays run under that of their first run.
#include "reprise/autograd/recompute/thread_state.h"

#include "reprise/tests/autograd/recompute/support.h"

namespace reprise {
namespace {

using testing::kModes;
using testing::leaf;
using testing::NoLeaks;
using testing::numbers;
using testing::same_bits;

thread_local DType compute_dtype = DType::f32;
thread_local int casts = 0;  // of the weight since the scope began

class Autocast {
 public:
  explicit Autocast(DType dtype) : dtype_(compute_dtype), casts_(casts) {
    compute_dtype = dtype;
    casts = 0;
  }
  ~Autocast() {
    compute_dtype = dtype_;
    casts = casts_;
  }

 private:
  DType dtype_;
  int casts_;
};

void keep_autocast() {
  static bool once = [] {
    recompute::restore_in_replays(
        [] { return [dtype = compute_dtype] { return std::make_shared<Autocast>(dtype); }; });
    return true;
  }();
  EXPECT_TRUE(once);
}

// x w^T with both cast; notes which dtype it ran in, and the how-manieth cast of its scope it was.
struct CastLinear {
  Tensor w;
  std::vector<std::pair<DType, int>>* runs;
  Tensor operator()(const Tensor& x) const {
    runs->emplace_back(compute_dtype, ++casts);
    return gelu(linear(x.to(compute_dtype), w.to(compute_dtype))).to(DType::f32);
  }
};

Tensor gradient(const std::function<Tensor(const CastLinear&, const Tensor&)>& call,
                std::vector<std::pair<DType, int>>& runs) {
  Tensor x = leaf({4, 8}, 1), w = leaf({8, 8}, 2), loss;
  {
    Autocast autocast(DType::bf16);
    loss = call({w, &runs}, x).sum();
  }
  loss.backward();  // outside of the scope
  return concat({x.grad(), w.grad()}, 0);
}

TEST(ThreadState, OfTheFirstRunHoldsInReplays) {
  keep_autocast();
  for (CheckpointMode mode : kModes) {
    NoLeaks guard;
    std::vector<std::pair<DType, int>> runs, plain_runs;
    Tensor got = gradient(
        [&](const CastLinear& layer, const Tensor& x) {
          auto twice = [layer, mode](const Tensor& in) {
            return checkpoint(layer, checkpoint(layer, in, {.mode = mode}), {.mode = mode});
          };
          return checkpoint(twice, x, {.mode = mode});
        },
        runs);
    Tensor want =
        gradient([](const CastLinear& layer, const Tensor& x) { return layer(layer(x)); }, plain_runs);
    EXPECT_TRUE(same_bits(got, want));
    for (const auto& [dtype, count] : runs) EXPECT_EQ(dtype, DType::bf16);
    EXPECT_EQ(runs.back().second, 1) << "each replay has a scope of its own";
    EXPECT_EQ(compute_dtype, DType::f32);
  }
}

TEST(ThreadState, IsThatOfEachRegion) {
  keep_autocast();
  for (CheckpointMode mode : kModes) {
    std::vector<std::pair<DType, int>> runs;
    Tensor x = leaf({4, 8}, 1), w = leaf({8, 8}, 2), h;
    {
      Autocast autocast(DType::bf16);
      h = checkpoint(CastLinear{w, &runs}, x, {.mode = mode});
    }
    h = checkpoint(CastLinear{w, &runs}, h, {.mode = mode});
    Autocast around_backward(DType::f16);
    h.sum().backward();
    ASSERT_EQ(runs.size(), 4u);
    EXPECT_EQ(runs[2].first, DType::f32);
    EXPECT_EQ(runs[3].first, DType::bf16);
    EXPECT_EQ(compute_dtype, DType::f16);
  }
}

TEST(ThreadState, HasThePrecisionOfProducts) {
  for (CheckpointMode mode : kModes) {
    std::vector<MatmulPrecision> runs;
    auto square = [&runs](const Tensor& x) {
      runs.push_back(matmul_precision());
      return x * x;
    };
    Tensor x = leaf({4}, 1), y;
    {
      MatmulPrecisionScope scope(MatmulPrecision::high);
      y = checkpoint(square, x, {.mode = mode});
    }
    y = checkpoint(square, y, {.mode = mode});
    set_matmul_precision(MatmulPrecision::high);  // between forward and backward
    y.sum().backward();
    set_matmul_precision(MatmulPrecision::highest);
    using enum MatmulPrecision;
    EXPECT_EQ(runs, (std::vector{high, highest, highest, high}));
  }
}

}  // namespace
}  // namespace reprise
