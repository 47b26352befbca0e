// Batch normalisation as a layer: PyTorch's numbers and names, its running statistics, what it refuses.
#include "reprise/nn/batch_norm.h"

#include <cmath>

#include "reprise/autograd/grad_mode.h"
#include "reprise/tests/nn/small_models.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::is_close;
using testing::random_input;
using testing::randomize;
using testing::same_bits;
using testing::test_device;

using Doubles = std::vector<double>;

Doubles values(const Tensor& x) { return x.detach().to_vector<double>(); }
Doubles first(Doubles v, size_t count) { return v.resize(std::min(v.size(), count)), v; }

/// What PyTorch 2.15 computed in f64, by this script, with momentum and shape:
///   n = torch.Size(shape).numel()
///   norm = (nn.BatchNorm2d if len(shape) == 4 else nn.BatchNorm1d)(shape[1], momentum=momentum,
///   dtype=torch.float64) c = torch.arange(shape[1]); norm.weight.data = c * 0.5 + 0.5; norm.bias.data = c *
///   0.25 - 0.25 x = lambda k: (torch.sin(torch.arange(n) + k) * (k + 1) +
///   k).double().reshape(shape).requires_grad_() norm(x(0)); x1 = x(1); y = norm(x1);
///   y.backward(torch.cos(torch.arange(n)).reshape(shape)) norm.eval(); z = norm(x(2))
struct Figures {
  Shape shape;
  std::optional<double> momentum;
  Doubles y, dx, dweight, dbias, running_mean, running_var, z;  // the first six of each
};

const Figures kFigures[] = {
    {{4, 3},
     0.1,
     {0.310260617, 0.957969238, 1.09547046, -0.820268473, -0.978175552, -0.623762965},
     {-0.0319793716, -0.0415679567, -0.539481705, 0.0318725925, 0.0415935277, 0.542526178},
     {3.83985266, 2.79820812, -0.594952041},
     {0.0590475282, -0.19851059, -0.273558987},
     {0.116042716, 0.101433824, 0.0855066807},
     {1.08395908, 1.36652746, 0.993525217},
     {1.9648111, 1.98626706, -0.285605343, -0.726793279, 0.90703919, 6.09711047}},
    {{2, 3, 2, 2},
     std::nullopt,
     {0.158783579, 0.216795701, -0.440228329, -1.20822365, -1.20591416, -0.3236022},
     {0.126503131, -0.103246596, -0.136721529, 0.0568550312, -0.0454180257, 0.181330465},
     {5.34636699, 5.3318742, 2.85672056},
     {1.26251302, 1.76028961, -3.56371717},
     {1.07705421, 0.270519942, 0.222942138},
     {0.921443098, 1.52176004, 1.23020161},
     {1.65162972, 0.451256835, -0.951858908, -1.26769936, 0.722465342, 2.99970699}},
    {{3, 2, 3},
     0.3,
     {0.0609853183, 0.182533676, -1.19407846, -0.310390483, -1.07837746, 1.50350111},
     {0.246105375, -0.241567613, -0.240399155, -0.671845656, 0.295639958, 0.972016037},
     {3.13079423, 2.02625696},
     {4.58076593, -5.09826076},
     {0.793905248, -0.182196264},
     {0.665927811, 0.667347448},
     {2.1603832, 0.748379095, -0.90211235, -0.850238697, 1.64514348, 5.08392336}}};

Tensor from_formula(const Shape& shape, const std::function<double(double)>& formula) {
  Doubles numbers(size_t(numel_of(shape)));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = formula(double(i));
  return Tensor::from(numbers, shape, test_device());
}

void expect_figures(BatchNorm& norm, const Figures& want) {
  norm.to(DType::f64);
  {
    NoGrad guard;
    norm.weight.copy_(from_formula(norm.weight.shape(), [](double c) { return c * 0.5 + 0.5; }));
    norm.bias.copy_(from_formula(norm.bias.shape(), [](double c) { return c * 0.25 - 0.25; }));
  }
  auto input = [&](int k) {
    return from_formula(want.shape, [k](double i) { return std::sin(i + k) * (k + 1) + k; });
  };
  norm(input(0));
  Tensor x = input(1).set_requires_grad(), y = norm(x);
  y.backward(from_formula(want.shape, [](double i) { return std::cos(i); }));
  norm.eval();
  auto expect = [](const char* what, const Tensor& got, const Doubles& figures) {
    EXPECT_TRUE(is_close(first(values(got), 6), figures, 1e-8)) << what;  // nine digits are given
  };
  expect("y", y, want.y);
  expect("dx", x.grad(), want.dx);
  expect("dweight", norm.weight.grad(), want.dweight);
  expect("dbias", norm.bias.grad(), want.dbias);
  expect("running_mean", norm.running_mean, want.running_mean);
  expect("running_var", norm.running_var, want.running_var);
  expect("z", norm(input(2)), want.z);
  EXPECT_EQ(norm.num_batches_tracked.item(), 2);
}

TEST(BatchNorm, HasTheNumbersOfPyTorch) {
  for (const Figures& want : kFigures) {
    SCOPED_TRACE(detail::join(want.shape));
    if (want.shape.size() == 4) {
      BatchNorm2d norm(want.shape[1], {.momentum = want.momentum}, test_device());
      expect_figures(norm, want);
    } else {
      BatchNorm1d norm(want.shape[1], {.momentum = want.momentum}, test_device());
      expect_figures(norm, want);
    }
  }
}

TEST(BatchNorm, NormalisesEachChannelThenScalesAndShifts) {
  constexpr double eps = 0.3;  // large, so that a forgotten one shows
  BatchNorm2d norm(3, {.eps = eps}, test_device());
  randomize(norm);
  Tensor x = random_input({2, 3, 3, 5});
  Doubles in = values(x), w = values(norm.weight), b = values(norm.bias), want(in.size());
  for (size_t c = 0; c < 3; ++c) {
    auto at = [&](size_t i) { return (i / 15 * 3 + c) * 15 + i % 15; };  // value i of 30 of channel c
    double mean = 0, var = 0;
    for (size_t i = 0; i < 30; ++i) mean += in[at(i)] / 30;
    for (size_t i = 0; i < 30; ++i) var += std::pow(in[at(i)] - mean, 2) / 30;
    for (size_t i = 0; i < 30; ++i) want[at(i)] = (in[at(i)] - mean) / std::sqrt(var + eps) * w[c] + b[c];
  }
  EXPECT_TRUE(is_close(values(norm(x.to(test_device()))), want, 1e-6));  // a few roundings of 6e-8
}

TEST(BatchNorm, TakesAResidualAndReluInTheSamePass) {
  BatchNorm2d fused(3, {}, test_device()), plain(3, {}, test_device());
  randomize(fused);
  plain.load_state_dict(fused.state_dict());
  Tensor x = random_input({2, 3, 3, 5}).to(test_device());
  Tensor residual = (random_input({2, 3, 3, 5}) * 0.5 + 0.1).to(test_device());
  for (bool training : {true, false}) {
    fused.train(training);
    plain.train(training);
    EXPECT_TRUE(same_bits(fused.forward(x, {Activation::relu, residual}), relu(plain(x) + residual)));
    EXPECT_TRUE(same_bits(fused.running_var, plain.running_var));
    EXPECT_EQ(fused.num_batches_tracked.item(), 1);
  }
}

TEST(BatchNorm, HasTheStateNamesAndStartOfPyTorch) {
  BatchNorm1d norm(5);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : norm.state_dict()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"weight", "bias", "running_mean", "running_var",
                                             "num_batches_tracked"}));
  EXPECT_EQ(values(norm.weight), Doubles(5, 1));
  EXPECT_EQ(values(norm.bias), Doubles(5, 0));
  EXPECT_EQ(values(norm.running_mean), Doubles(5, 0));
  EXPECT_EQ(values(norm.running_var), Doubles(5, 1));
  EXPECT_EQ(norm.num_batches_tracked.dtype(), DType::i64);
  EXPECT_EQ(norm.num_batches_tracked.shape(), Shape{});
  EXPECT_EQ(norm.parameters().size(), 2u);
  BatchNorm1d loaded(5);
  norm(random_input({7, 5}));
  loaded.load_state_dict(norm.state_dict());
  EXPECT_TRUE(same_bits(loaded.running_var, norm.running_var));
  EXPECT_EQ(loaded.num_batches_tracked.item(), 1);
}

TEST(BatchNorm, ChangesItsStateInTrainingOnly) {
  BatchNorm1d norm(3, {}, test_device());
  Tensor x = random_input({7, 3}).to(test_device());
  norm.eval();
  Tensor y = norm(x);
  EXPECT_TRUE(is_close(y, x, 1e-5)) << "mean 0 and variance 1, but for eps";
  EXPECT_EQ(norm.num_batches_tracked.item(), 0);
  EXPECT_EQ(values(norm.running_mean), Doubles(3, 0));
  norm.train();
  NoGrad guard;
  norm(x);
  EXPECT_EQ(norm.num_batches_tracked.item(), 1);
  EXPECT_TRUE(is_close(norm.running_mean, mean(x, {0}) * 0.1, 1e-6));
  EXPECT_TRUE(is_close(norm.running_var, variance(x, {0}) * (7.0 / 6.0) * 0.1 + 0.9, 1e-6));
}

TEST(BatchNorm, GoesWithoutParametersOrWithoutState) {
  Tensor x = random_input({4, 3, 5}).to(test_device());
  BatchNorm1d fixed(3, {.affine = false}, test_device()),
      stateless(3, {.track_running_stats = false}, test_device());
  EXPECT_TRUE(fixed.parameters().empty());
  EXPECT_EQ(fixed.named_buffers().size(), 3u);
  EXPECT_TRUE(stateless.named_buffers().empty());
  Tensor by_batch = fixed(x);
  EXPECT_TRUE(same_bits(stateless(x), by_batch));
  stateless.eval();
  EXPECT_TRUE(same_bits(stateless(x), by_batch)) << "without state, evaluation goes by the batch";
}

TEST(BatchNorm, ComputesInHalfTypesAfterTo) {
  BatchNorm1d norm(3, {}, test_device()), exact(3, {}, test_device());
  norm.to(DType::bf16);
  Tensor x = random_input({16, 3}).to(test_device()).to(DType::bf16);
  Tensor y = norm(x), want = exact(x.to(DType::f32));
  EXPECT_EQ(y.dtype(), DType::bf16);
  EXPECT_TRUE(is_close(y, want, 4.0 / 256));  // rounding of values up to 3 to bf16
  EXPECT_EQ(norm.running_var.dtype(), DType::bf16);
  EXPECT_EQ(norm.num_batches_tracked.dtype(), DType::i64);
}

TEST(BatchNorm, RefusesAMomentumThatItWouldIgnore) {
  expect_error([] { BatchNorm1d norm(3, {.momentum = 0.5, .track_running_stats = false}); },
               {"BatchNorm1d", "momentum 0.5", "track_running_stats"});
  EXPECT_NO_THROW(BatchNorm2d(3, {.eps = 1e-3, .track_running_stats = false}));
}

TEST(BatchNorm, RefusesWhatDoesNotFit) {
  expect_error([] { BatchNorm1d norm(0); }, {"BatchNorm1d", "0"});
  BatchNorm1d vectors(3);
  BatchNorm2d images(3);
  expect_error(
      [&] {
        vectors(zeros({2, 3, 4, 4}));
      },
      {"BatchNorm1d: needs (N, C) or (N, C, L)", "(2, 3, 4, 4)"});
  expect_error([&] { images(zeros({2, 3, 4})); }, {"BatchNorm2d: needs (N, C, H, W)", "(2, 3, 4)"});
  expect_error([&] { images(zeros({2, 4, 4, 4})); }, {"BatchNorm2d: has 3 channels", "(2, 4, 4, 4)"});
  expect_error(
      [&] {
        vectors(zeros({1, 3}));
      },
      {"expected more than 1 value per channel when training, got (1, 3)"});
  EXPECT_EQ(vectors.num_batches_tracked.item(), 0);
  vectors.eval();
  EXPECT_NO_THROW(vectors(zeros({1, 3})));
}

}  // namespace
}  // namespace reprise::nn
