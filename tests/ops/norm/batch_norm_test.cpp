// Batch normalisation against mean, square and rsqrt.
#include <any>
#include <set>

#include "reprise/autograd/ops.h"
#include "reprise/autograd/saved_tensor.h"
#include "reprise/tests/support/op_case.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;
using testing::same_bits;

// dgamma and dbeta are sums, dx is a difference of three terms, all times an rstd of a few channels.
constexpr double kRoundings = 32;

Tensor by_batch(const TensorList& in) {
  Tensor mean = zeros({in[0].size(1)}, DType::f32, in[0].device());
  Tensor variance = ones({in[0].size(1)}, DType::f32, in[0].device());
  return batch_norm(in[0], in[1], in[2], mean, variance, {.training = true});
}

void check_by_batch(const Shape& x, const Shape& empty, const Shape& large) {
  Shape channels{x[1]};
  check_op(OpCase{
      .name = "batch_norm",
      .inputs = {{x}, {channels, 0.5, 1.5}, {channels}},
      .fn = by_batch,
      .composite =
          [](const TensorList& in) { return composite::batch_norm(in[0], in[1], in[2], {}, {}, 1e-5); },
      .roundings = kRoundings,
      .empty_inputs = {{empty}, {{empty[1]}}, {{empty[1]}}},
      .large_inputs = {{large}, {{large[1]}}, {{large[1]}}}});
}

TEST(BatchNorm, ByTheBatchPassesEveryCheckOfAnOp) {
  check_by_batch({7, 3}, {0, 3}, {2100, 40});
  check_by_batch({2, 3, 5}, {2, 3, 0}, {67, 3, 129});
  check_by_batch({2, 3, 3, 2}, {0, 3, 2, 2}, {3, 8, 32, 24});
}

TEST(BatchNorm, ByGivenStatisticsPassesEveryCheckOfAnOp) {
  for (const Shape& x : {Shape{3, 5}, Shape{2, 3, 5}, Shape{1, 3, 3, 2}}) {
    Shape channels{x[1]}, empty = x;
    empty[0] = 0;
    auto inputs = [&](const Shape& shape) {
      return std::vector<testing::OpInput>{
          {shape},
          {channels, 0.5, 1.5},
          {channels},
          {.shape = channels, .requires_grad = false},
          {.shape = channels, .low = 0.5, .high = 2, .requires_grad = false}};
    };
    check_op(OpCase{.name = "batch_norm_inference",
                    .inputs = inputs(x),
                    .fn = [](const TensorList& in) { return batch_norm(in[0], in[1], in[2], in[3], in[4]); },
                    .composite =
                        [](const TensorList& in) {
                          return composite::batch_norm(in[0], in[1], in[2], in[3], in[4], 1e-5);
                        },
                    .roundings = kRoundings,
                    .empty_inputs = inputs(empty)});
  }
}

/// The four that end in a residual, relu, or both; `inputs` are x, gamma, beta, a mean and a variance by which to
/// normalise, and the residual.
void check_epilogues(const Shape& x, const Shape& empty, const Shape& large, bool given) {
  for (Activation activation : {Activation::none, Activation::relu})
    for (bool residual : {false, true}) {
      auto inputs = [&](const Shape& shape) {
        const Shape channels{shape[1]};
        return std::vector<testing::OpInput>{
            {shape},
            {channels, 0.5, 1.5},
            {channels},
            {.shape = channels, .requires_grad = false},
            {.shape = channels, .low = 0.5, .high = 2, .requires_grad = false},
            {.shape = residual ? shape : channels, .requires_grad = residual}};
      };
      check_op(
          OpCase{.name = detail::join("batch_norm", given ? "_inference" : "", residual ? " + residual" : "",
                                      activation == Activation::relu ? ", relu" : ""),
                 .inputs = inputs(x),
                 .fn =
                     [=](const TensorList& in) {
                       const Tensor mean = given ? in[3] : Tensor(), variance = given ? in[4] : Tensor();
                       return batch_norm(in[0], in[1], in[2], mean, variance,
                                         {.epilogue = {activation, residual ? in[5] : Tensor()}});
                     },
                 .composite =
                     [=](const TensorList& in) {
                       const Tensor mean = given ? in[3] : Tensor(), variance = given ? in[4] : Tensor();
                       Tensor y = composite::batch_norm(in[0], in[1], in[2], mean, variance, 1e-5);
                       return composite::activate(residual ? y + in[5] : y, activation);
                     },
                 .roundings = kRoundings,
                 .empty_inputs = inputs(empty),
                 .large_inputs = inputs(large)});
    }
}

TEST(BatchNorm, WithResidualAndReluPassesEveryCheckOfAnOp) {
  for (bool given : {false, true}) {
    check_epilogues({7, 3}, {0, 3}, {270, 40}, given);
    check_epilogues({2, 3, 3, 2}, {2, 3, 0, 2}, {3, 8, 32, 24}, given);
  }
}

// What relu took, the sum with the residual, is not kept: the result, which the next operation keeps anyway, is.
TEST(BatchNorm, WithReluKeepsXAndItsResultAlone) {
  Tensor x = ones({4, 3, 8}).set_requires_grad(), residual = ones({4, 3, 8}).set_requires_grad();
  std::set<const void*> kept;
  autograd::SavedTensorHooks record(
      [&](const Tensor& tensor) {
        if (tensor.shape() == x.shape()) kept.insert(tensor.view().data);
        return std::any(tensor);
      },
      [](const std::any& tensor) { return std::any_cast<Tensor>(tensor); });
  Tensor y = batch_norm(x, {}, {}, {}, {}, {.epilogue = {Activation::relu, residual}});
  EXPECT_EQ(kept, (std::set<const void*>{x.view().data, y.view().data}));
}

TEST(BatchNorm, GoesWithoutParametersAndRunningStatistics) {
  check_op(OpCase{
      .name = "batch_norm of x alone",
      .inputs = {{{4, 3, 2}}},
      .fn = [](const TensorList& in) { return batch_norm(in[0], {}, {}, {}, {}); },
      .composite = [](const TensorList& in) { return composite::batch_norm(in[0], {}, {}, {}, {}, 1e-5); },
      .roundings = kRoundings});
}

TEST(BatchNorm, LeavesItsStateAloneOnAnEmptyBatch) {
  Device device = testing::test_device();
  Tensor mean = full({3}, 0.5, DType::f32, device), variance = ones({3}, DType::f32, device);
  Tensor batches = Tensor::zeros({}, DType::i64, device);
  Tensor y = batch_norm(zeros({0, 3, 2}, DType::f32, device), {}, {}, mean, variance,
                        {.training = true, .momentum = {}, .batches = batches});
  EXPECT_EQ(y.shape(), (Shape{0, 3, 2}));
  EXPECT_TRUE(same_bits(mean, full({3}, 0.5, DType::f32, device)));
  EXPECT_EQ(batches.item(), 0);
}

TEST(BatchNorm, RefusesWhatDoesNotFit) {
  Tensor x = zeros({4, 3, 2}), one = ones({3}), four = ones({4});
  expect_error([&] { batch_norm(zeros({3}), {}, {}, {}, {}); }, {"batch_norm: needs (N, C, ...)", "(3,)"});
  expect_error([&] { batch_norm(x, four, {}, {}, {}); }, {"batch_norm", "gamma", "(4,)"});
  expect_error([&] { batch_norm(x, ones({3}, DType::f64), {}, {}, {}); }, {"batch_norm", "f64"});
  expect_error([&] { batch_norm(x, {}, {}, four, four); }, {"running statistics of shape (4,)"});
  expect_error([&] { batch_norm(x, {}, {}, one, {}); }, {"go together"});
  expect_error(
      [&] {
        batch_norm(zeros({1, 3}), {}, {}, one, one, {.training = true});
      },
      {"batch_norm: expected more than 1 value per channel when training, got (1, 3)"});
  expect_error([&] { batch_norm(zeros({1, 3, 1, 1}), {}, {}, {}, {}); }, {"more than 1 value per channel"});
  expect_error([&] { batch_norm(x, {}, {}, one, one, {.training = true, .momentum = {}}); },
               {"without a momentum, batches must be given"});
  expect_error(
      [&] {
        batch_norm(x, {}, {}, one, one, {.epilogue = {.residual = zeros({4, 3, 1})}});
      },
      {"batch_norm: a residual of shape (4, 3, 1) does not fit (4, 3, 2)"});
  expect_error([&] { batch_norm(x, {}, {}, one, one, {.epilogue = {.residual = x.to(DType::f64)}}); },
               {"batch_norm: dtypes differ"});
  expect_error([&] { batch_norm(x, {}, {}, one, one, {.epilogue = {.activation = Activation::gelu}}); },
               {"batch_norm: the activation needs to be none or relu"});
  EXPECT_NO_THROW(batch_norm(zeros({1, 3}), {}, {}, one, one));
  Tensor trained = ones({3}).set_requires_grad();
  expect_error([&] { batch_norm(x, {}, {}, trained, one); }, {"must not require grad"});
}

}  // namespace
}  // namespace reprise
