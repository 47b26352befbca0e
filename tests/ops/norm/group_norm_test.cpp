// Group normalisation against mean, square and rsqrt of its groups.
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

constexpr double kEps = 1e-5;

TEST(GroupNorm, PassesEveryCheckOfAnOp) {
  check_op(OpCase{
      .name = "group_norm",
      .inputs = {{{2, 6, 3, 2}}, {{6}, 0.5, 1.5}, {{6}}},
      .fn = [](const TensorList& in) { return group_norm(in[0], 2, in[1], in[2], kEps); },
      .composite = [](const TensorList& in) { return composite::group_norm(in[0], 2, in[1], in[2], kEps); },
      .roundings = 32,  // dgamma and dbeta are sums, dx a difference of three terms
      .empty_inputs = {{{0, 6, 3}}, {{6}}, {{6}}},
      .large_inputs = {{{37, 8, 24, 9}}, {{8}}, {{8}}}});
}

TEST(GroupNorm, GoesWithoutParametersAndPlaces) {
  check_op(
      OpCase{.name = "group_norm of x alone",
             .inputs = {{{3, 12}}},
             .fn = [](const TensorList& in) { return group_norm(in[0], 3, {}, {}, kEps); },
             .composite = [](const TensorList& in) { return composite::group_norm(in[0], 3, {}, {}, kEps); },
             .roundings = 32});
}

TEST(GroupNorm, RefusesWhatDoesNotFit) {
  Tensor x = zeros({2, 6, 4});
  expect_error([&] { group_norm(zeros({6}), 2, {}, {}); }, {"group_norm: needs (N, C, ...)", "(6,)"});
  expect_error([&] { group_norm(x, 4, {}, {}); }, {"group_norm: 6 channels do not divide into groups: 4"});
  expect_error([&] { group_norm(x, 0, {}, {}); }, {"group_norm: 6 channels do not divide into groups: 0"});
  expect_error([&] { group_norm(x, 2, ones({2}), {}); }, {"group_norm", "gamma", "(2,)"});
  expect_error([&] { group_norm(x, 2, {}, ones({6}, DType::f64)); }, {"group_norm", "f64"});
}

}  // namespace
}  // namespace reprise
