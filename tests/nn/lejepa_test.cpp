// SIGReg against its formula in doubles, and LeJepa: with it features do not collapse, without it they do.
// slow on the device cuda
#include "reprise/nn/models/lejepa.h"

#include <cmath>
#include <complex>

#include "reprise/autograd/gradcheck.h"
#include "reprise/nn/models/jepa.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::NoLeaks;
using testing::numbers;
using testing::same_bits;
using testing::test_device;

// The integral over both signs of t, by trapezoids, of samples in doubles: (V, n, D) and (D, M).
double by_the_formula(const Tensor& samples, const Tensor& directions) {
  const std::vector<double> x = samples.to_vector<double>(), a = directions.to_vector<double>();
  const int64_t views = samples.size(0), n = samples.size(1), width = samples.size(2),
                count = directions.size(1);
  const double step = 3.0 / 16;
  double total = 0;
  for (int64_t v = 0; v < views; ++v)
    for (int64_t m = 0; m < count; ++m)
      for (int k = -16; k <= 16; ++k) {
        std::complex<double> c = 0;
        for (int64_t i = 0; i < n; ++i) {
          double along = 0;
          for (int64_t d = 0; d < width; ++d)
            along += x[size_t((v * n + i) * width + d)] * a[size_t(d * count + m)];
          c += std::exp(std::complex<double>(0, k * step * along)) / double(n);
        }
        const double normal = std::exp(-k * step * k * step / 2), share = std::abs(k) == 16 ? step / 2 : step;
        total += double(n) * share * std::norm(c - normal) * normal;
      }
  return total / double(views * count);
}

TEST(Sigreg, IsTheFormula) {
  const Tensor samples = numbers({2, 7, 5}), directions = sketch_directions(3, 1, 5, 3, test_device());
  const double want = by_the_formula(samples, directions);
  EXPECT_NEAR(sigreg(samples.to(DType::f64), directions.to(DType::f64)).item(), want, 1e-12 * want);
  EXPECT_NEAR(sigreg(samples, directions).item(), want, 1e-5 * want) << "the mean of 7 cosines in f32";
}

TEST(Sigreg, HasTheGradientOfItsNumbers) {
  const Tensor directions = sketch_directions(3, 1, 3, 5, test_device()).to(DType::f64);
  const Tensor samples = numbers({2, 5, 3}).to(DType::f64).set_requires_grad();
  EXPECT_TRUE(autograd::gradcheck([&](const TensorList& in) { return TensorList{sigreg(in[0], directions)}; },
                                  {samples}));
}

// Of n samples of the normal distribution |c - phi|^2 is (1 - phi^2) / n in the mean, whatever n is.
TEST(Sigreg, OfNormalSamplesIsItsExpectation) {
  double want = 0;
  for (int k = -16; k <= 16; ++k) {
    const double t = k * 3.0 / 16, normal = std::exp(-t * t / 2);
    want += (std::abs(k) == 16 ? 0.5 : 1) * 3.0 / 16 * (1 - normal * normal) * normal;
  }
  Generator generator(5);
  const Tensor samples = randn({64, 100, 4}, DType::f32, test_device(), &generator);
  const double got = sigreg(samples, sketch_directions(1, 1, 4, 32, test_device())).item();
  EXPECT_NEAR(got, want, 0.15 * want) << "64 draws of about 4 independent statistics";
  EXPECT_GT(sigreg(samples * 3.0, sketch_directions(1, 1, 4, 32, test_device())).item(), 5 * got);
  EXPECT_GT(sigreg(samples * 0.0, sketch_directions(1, 1, 4, 32, test_device())).item(), 5 * got);
}

TEST(Sigreg, HasDirectionsOfSeedAndStep) {
  const Tensor some = sketch_directions(3, 1, 6, 50, test_device());
  EXPECT_TRUE(same_bits(sketch_directions(3, 1, 6, 50, test_device()), some));
  EXPECT_FALSE(same_bits(sketch_directions(3, 2, 6, 50, test_device()), some));
  EXPECT_FALSE(same_bits(sketch_directions(4, 1, 6, 50, test_device()), some));
  for (double length : sum(square(some), {0}).to_vector<double>()) EXPECT_NEAR(length, 1, 1e-6);
}

LeJepaOptions tiny() {
  return {.image = 8,
          .patch = 4,
          .channels = 1,
          .width = 16,
          .layers = 2,
          .heads = 2,
          .hidden = 32,
          .features = 4};
}

// Two noisy views of 16 pictures.
Tensor views_of(uint64_t step) {
  const Tensor pictures = numbers({1, 16, 1, 8, 8}, 7);
  return pictures + numbers({2, 16, 1, 8, 8}, 100 + step) * 0.3;
}

struct Trained {
  TensorList bits;   // losses, gradients and weights
  double deviation;  // of projected features over the pictures
};

Trained trained(double lambda, const char* strategy, int steps) {
  manual_seed(5);
  LeJepaOptions options = tiny();
  options.lambda = lambda;
  options.drop_path = 0.2;
  options.recompute = parse_strategy(strategy);
  LeJepa model(options, test_device());
  optim::AdamW optimizer(optim::decay_matrices(model, 1e-2, 0.01));
  Trained result;
  for (int step = 0; step < steps; ++step) {
    Tensor loss =
        model.loss(views_of(uint64_t(step)), sketch_directions(1, step, options.features, 32, test_device()));
    loss.backward();
    result.bits.push_back(loss.detach());
    for (const Tensor& parameter : model.parameters()) result.bits.push_back(parameter.grad());
    optimizer.step();
    optimizer.zero_grad();
  }
  for (const auto& [name, tensor] : model.state_dict()) result.bits.push_back(tensor.detach());
  model.eval();
  NoGrad guard;
  const Tensor z = model.projection(gelu(model.hidden(model.features(select(views_of(0), 0, 0)))));
  result.deviation = feature_std(unsqueeze(z, 1));
  return result;
}

TEST(LeJepa, DoesNotCollapse) {
  if (test_device().is_cuda()) GTEST_SKIP() << "the emulated device takes its time for 120 steps";
  EXPECT_GT(trained(0.2, "none", 60).deviation, 0.5);
  EXPECT_LT(trained(0, "none", 60).deviation, 0.1) << "nothing else holds them apart";
}

TEST(LeJepa, IsRecomputedToTheSameBits) {
  const TensorList want = trained(0.2, "none", 2).bits;
  for (const char* strategy : {"full", "selective", "offload", "auto:1GiB"}) {
    SCOPED_TRACE(strategy);
    NoLeaks guard;
    const TensorList got = trained(0.2, strategy, 2).bits;
    EXPECT_TRUE(same_bits(got, want));
  }
}

// The loss of features that all views agree on is SIGReg's share alone.
TEST(LeJepa, ComparesTheViewsOfAPicture) {
  LeJepa model(tiny(), test_device());
  const Tensor directions = sketch_directions(1, 1, 4, 8, test_device());
  const Tensor one = views_of(1).slice(0, 0, 1);
  const double same = model.loss(concat({one, one}, 0), directions).item();
  EXPECT_NEAR(same, model.loss(one, directions).item(), 1e-6);
  EXPECT_GT(model.loss(views_of(1), directions).item(), 0);
}

// In numbers: of three views the first two make the centre.
TEST(LeJepa, HasTheMeanOfTheGlobalViewsAsCentre) {
  LeJepaOptions options = tiny();
  options.lambda = 0;
  LeJepa model(options, test_device());
  const Tensor z = numbers({3, 5, 4}), directions = model.directions(1, 1);
  const std::vector<double> x = z.to_vector<double>();
  double first_two = 0, all = 0;
  for (size_t i = 0; i < 20; ++i)
    for (size_t v = 0; v < 3; ++v) {
      const double to_two = x[v * 20 + i] - (x[i] + x[20 + i]) / 2,
                   to_all = x[v * 20 + i] - (x[i] + x[20 + i] + x[40 + i]) / 3;
      first_two += to_two * to_two / 60, all += to_all * to_all / 60;
    }
  EXPECT_NEAR(model.compare(z, directions, 2).item(), first_two, 1e-6);
  EXPECT_NEAR(model.compare(z, directions, 3).item(), all, 1e-6);
  EXPECT_NEAR(model.compare(z, directions).item(), all, 1e-6);
  EXPECT_EQ(directions.shape(), (Shape{4, 256}));
}

TEST(LeJepa, RefusesWhatDoesNotFit) {
  LeJepaOptions options = tiny();
  options.lambda = 2;
  expect_error([&] { LeJepa{options}; }, "lambda must be in [0, 1], got 2");
  options = tiny();
  options.directions = 0;
  expect_error([&] { LeJepa{options}; }, "at least one direction, got 0");
  LeJepa model(tiny(), test_device());
  expect_error(
      [&] {
        model.loss(zeros({2, 1, 8, 8}), zeros({4, 8}));
      },
      "LeJepa: views must be (V, B,", "(2, 1, 8, 8)");
  expect_error([&] { model.compare(zeros({2, 3, 4}), zeros({4, 8}), 3); }, "LeJepa: 3 global views");
  expect_error([&] { sigreg(zeros({2, 3, 4}), zeros({5, 8})); }, "sigreg", "(2, 3, 4) and (5, 8)");
}

}  // namespace
}  // namespace reprise::nn
