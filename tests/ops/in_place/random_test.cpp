// Numbers drawn in place: those of rand and randn, one offset a call, and no gradient to what was there.
#include <cmath>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/tensor/random.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::same_bits;
using testing::test_device;

TEST(InPlaceDraws, AreThoseOfRandAndRandn) {
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    SCOPED_TRACE(detail::join(dtype));
    Generator ours(5), theirs(5);
    const Tensor x = zeros({3, 7}, dtype, test_device());
    EXPECT_TRUE(same_bits(x.uniform_(0, 1, &ours), rand({3, 7}, dtype, test_device(), &theirs)));
    EXPECT_TRUE(same_bits(x.normal_(0, 1, &ours), randn({3, 7}, dtype, test_device(), &theirs)));
    EXPECT_EQ(ours.state(), theirs.state());
    // By rows, wherever the elements lie.
    const Tensor turned = zeros({7, 3}, dtype, test_device()).transpose(0, 1);
    EXPECT_TRUE(same_bits(turned.uniform_(0, 1, &ours), rand({3, 7}, dtype, test_device(), &theirs)));
  }
  manual_seed(9);
  const Tensor x = zeros({5}, DType::f32, test_device());
  x.normal_();
  EXPECT_EQ(default_generator().state().offset, 1u);
  manual_seed(9);
  EXPECT_TRUE(same_bits(x, randn({5}, DType::f32, test_device())));
}

// Of any dtype, as PyTorch's; the probability is not rounded to it.
TEST(InPlaceDraws, OfBitsAreThoseOfBernoulli) {
  for (DType dtype :
       {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::u8, DType::boolean}) {
    SCOPED_TRACE(detail::join(dtype));
    Generator ours(5), theirs(5);
    const Tensor x = full({3, 7}, 1, dtype, test_device()).transpose(0, 1);
    for (double p : {0.3, 0.0, 1.0, 1e-9}) {
      x.bernoulli_(p, &ours);
      EXPECT_TRUE(same_bits(x, bernoulli(full({7, 3}, p, DType::f64, test_device()), &theirs).to(dtype)));
    }
    EXPECT_EQ(x.dtype(), dtype);
    EXPECT_EQ(ours.state(), theirs.state());
  }
  Generator generator(3);
  const Tensor bits = zeros({4000}, DType::bf16, test_device());
  bits.bernoulli_(0.9, &generator);
  EXPECT_NEAR(mean(bits.to(DType::f64)).item(), 0.9, 4 * std::sqrt(0.9 * 0.1 / 4000));
  // A number of f32 that is drawn is 1 only where it is less than p: the smallest ones above it, and p itself, are not.
  Generator one(7), same(7);
  const Tensor numbers = rand({50}, DType::f32, test_device(), &one),
               drawn = zeros({50}, DType::f32, test_device());
  const auto p = double(numbers.to_vector<float>()[20]);
  drawn.bernoulli_(p, &same);
  EXPECT_EQ(drawn.to_vector<float>()[20], 0);
  Generator again(7);
  drawn.bernoulli_(std::nextafter(p, 2.0), &again);
  EXPECT_EQ(drawn.to_vector<float>()[20], 1);
}

// In f64, from the numbers of [0, 1) and of deviation 1.
TEST(InPlaceDraws, HaveTheirBoundsAndMoments) {
  Generator ours(5), theirs(5);
  const Tensor x = zeros({50}, DType::f64, test_device());
  const std::vector<double> uniform = x.uniform_(-2, 3, &ours).to_vector<double>();
  const std::vector<double> unit = rand({50}, DType::f64, test_device(), &theirs).to_vector<double>();
  const std::vector<double> normal = x.normal_(4, 0.5, &ours).to_vector<double>();
  const std::vector<double> standard = randn({50}, DType::f64, test_device(), &theirs).to_vector<double>();
  for (size_t i = 0; i < unit.size(); ++i) {
    EXPECT_NEAR(uniform[i], -2 + 5 * unit[i], 1e-14);  // a rounding or two of numbers up to 3
    EXPECT_NEAR(normal[i], 4 + 0.5 * standard[i], 1e-14);
  }
}

TEST(InPlaceDraws, StayInTheGraphWithoutAGradient) {
  const Tensor w = ones({4}, DType::f32, test_device()).set_requires_grad();
  for (bool uniform : {true, false}) {
    Tensor x = w * 2.0;
    const Tensor kept = x * x;  // keeps 2
    uniform ? x.uniform_() : x.normal_();
    EXPECT_TRUE(x.requires_grad());
    const Tensor values = x.detach().clone();
    const TensorList g = grad({sum(x * w) + sum(kept)}, {w});
    EXPECT_TRUE(testing::is_close(g[0], values + 8.0, 1e-6));
    const Tensor base = zeros({4}, DType::f32, test_device());
    uniform ? base.uniform_() : base.normal_();
    EXPECT_FALSE(base.requires_grad());
  }
  const TensorList g = grad({sum((w * 2.0).uniform_())}, {w});
  EXPECT_EQ(g[0].to_vector<float>(), (std::vector<float>{0, 0, 0, 0}));
}

TEST(InPlaceDraws, RefuseWhatTheyCannotDraw) {
  const Tensor x = ones({2}, DType::f32, test_device()), w = ones({2}).set_requires_grad();
  Generator generator(3);
  const uint64_t before = generator.state().offset;
  expect_error([&] { w.normal_(0, 1, &generator); }, "normal_: a leaf that requires grad");
  EXPECT_EQ(generator.state().offset, before) << "what is refused draws nothing";
  expect_error([&] { x.uniform_(1, 0); }, "uniform_: no interval [1, 0)");
  expect_error([&] { x.uniform_(0, INFINITY); }, "uniform_: no interval [0, inf)");
  expect_error([&] { x.normal_(0, -1); }, "normal_: stddev is -1");
  for (double p : {-0.1, 1.1, double(NAN)})
    expect_error([&] { x.bernoulli_(p); }, "bernoulli_: a probability of ");
  expect_error([&] { x.to(DType::i64).uniform_(); }, "uniform_: needs a floating dtype, got i64");
  expect_error([] { Tensor().uniform_(); }, "uniform_: the tensor was never given a value");
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 1}));
}

}  // namespace
}  // namespace reprise
