// einsum against loops over all letters.
#include "reprise/autograd/ops/gemm/einsum.h"

#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

// For an equation with "->" and without "...".
std::vector<double> by_loops(const std::string& equation, const TensorList& operands) {
  std::vector<std::string> parts{""};
  const std::string inputs = equation.substr(0, equation.find("->")),
                    result = equation.substr(equation.find("->") + 2);
  for (char c : inputs)
    if (c == ',')
      parts.push_back("");
    else
      parts.back() += c;
  std::map<char, int64_t> sizes, place;
  for (size_t k = 0; k < parts.size(); ++k)
    for (size_t d = 0; d < parts[k].size(); ++d) sizes[parts[k][d]] = operands[k].size(int64_t(d));
  auto offset = [&](const std::string& letters) {
    int64_t at = 0;
    for (char c : letters) at = at * sizes[c] + place[c];
    return size_t(at);
  };
  std::vector<std::vector<double>> values;
  for (const Tensor& x : operands) values.push_back(x.to_vector<double>());
  int64_t count = 1, all = 1;
  for (char c : result) count *= sizes[c];
  for (const auto& [c, size] : sizes) all *= size;
  std::vector<double> y(size_t(count), 0);
  for (int64_t i = 0; i < all; ++i) {
    int64_t rest = i;
    for (const auto& [c, size] : sizes) place[c] = rest % size, rest /= size;
    double term = 1;
    for (size_t k = 0; k < parts.size(); ++k) term *= values[k][offset(parts[k])];
    y[offset(result)] += term;
  }
  return y;
}

TEST(Einsum, PassesEveryCheckOfAnOp) {
  const std::vector<std::pair<std::string, std::vector<Shape>>> cases{
      {"ij,jk->ik", {{3, 4}, {4, 2}}},
      {"ij,kj->ki", {{3, 4}, {2, 4}}},
      {"bqhd,bkhd->bhqk", {{2, 3, 2, 4}, {2, 5, 2, 4}}},  // attention's scores
      {"i,j->ij", {{3}, {4}}},
      {"ij,ij->", {{3, 4}, {3, 4}}},
      {"bi,bi->b", {{3, 4}, {3, 4}}},
      {"ij->ji", {{3, 4}}},
      {"ij->j", {{3, 4}}},
      {"ijk->", {{2, 3, 4}}},
      {"ii->i", {{3, 3}}},
      {"ii->", {{3, 3}}},
      {"iji->ij", {{3, 2, 3}}},
      {"jii,ik->kj", {{2, 3, 3}, {3, 4}}},
      {"ij,jk,kl->il", {{2, 3}, {3, 4}, {4, 2}}},
      {"bn,anm,bm->ba", {{2, 3}, {4, 3, 2}, {2, 2}}},  // bilinear
      {"ij,k->i", {{2, 3}, {4}}},
      {"ab,cd->cadb", {{2, 3}, {2, 2}}}};
  for (const auto& [equation, shapes] : cases) {
    OpCase op{.name = "einsum " + equation, .inputs = {}, .fn = {}, .roundings = 24};
    for (const Shape& shape : shapes) op.inputs.push_back({.shape = shape});
    op.fn = [equation = equation](const TensorList& in) { return einsum(equation, in); };
    op.reference = [equation = equation](const TensorList& in) { return by_loops(equation, in); };
    check_op(op);
  }
}

TEST(Einsum, BroadcastsWhatDotsStandFor) {
  const Tensor a = randn({2, 1, 3, 4}, DType::f64), b = randn({5, 4, 3}, DType::f64);
  EXPECT_TRUE(testing::is_close(einsum("...ij,...jk->...ik", {a, b}), matmul(a, b), 1e-14));
  EXPECT_TRUE(testing::is_close(einsum("i...,i...->...", {a, a}), sum(a * a, {0}), 1e-14));
  EXPECT_TRUE(testing::is_close(einsum("...,...", {a, b.transpose(1, 2)}), a * b.transpose(1, 2), 1e-15));
  EXPECT_TRUE(testing::same_bits(einsum("...j->j...", {a}), permute(a, {3, 0, 1, 2})));
  EXPECT_TRUE(testing::is_close(einsum("...j->", {a}), sum(a), 1e-13));
}

TEST(Einsum, HasTheLettersThatComeOnceWithoutAnArrow) {
  const Tensor a = randn({2, 3}, DType::f64), b = randn({3, 4}, DType::f64);
  EXPECT_TRUE(testing::is_close(einsum("ij,jk", {a, b}), matmul(a, b), 1e-14));
  EXPECT_TRUE(testing::same_bits(einsum(" b a ", {a}), transpose(a, 0, 1)));
  EXPECT_TRUE(testing::is_close(einsum("aa", {matmul(a, transpose(a, 0, 1))}), sum(a * a), 1e-13));
}

TEST(Einsum, TakesADiagonalWhateverLiesBesideIt) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = Tensor::from<double>({1, inf, NAN, 2}, {2, 2});
  EXPECT_EQ(einsum("ii->i", {x}).to_vector<double>(), (std::vector<double>{1, 2}));
}

TEST(Einsum, SaysWhatDoesNotFit) {
  const Tensor a = zeros({2, 3}), b = zeros({4, 5});
  expect_error([&] { einsum("ij,jk->ik", {a, b}); }, {"einsum: 'j' is 3 and 4"});
  expect_error([&] { einsum("ij->i", {a, b}); }, {"einsum: \"ij->i\" has 1 operands, got 2"});
  expect_error([&] { einsum("ijk->i", {a}); }, {"einsum: \"ijk\" does not fit operand 0 of shape (2, 3)"});
  expect_error([&] { einsum("ij->k", {a}); }, {"einsum: 'k' of the result is in no operand of \"ij->k\""});
  expect_error([&] { einsum("ij->ii", {a}); }, {"einsum: 'i' comes twice in the result"});
  expect_error([&] { einsum("i1->i", {a}); }, {"einsum: '1' in \"i1->i\" is neither a letter"});
  expect_error([&] { einsum("i.j->i", {a}); }, {"einsum: '.' in"});
  expect_error([&] { einsum("......->", {a}); }, {"einsum: two \"...\" in one operand"});
  expect_error([&] { einsum("ii->i", {a}); }, {"einsum: 'i' is 2 and 3 in one operand of shape (2, 3)"});
  expect_error([&] { einsum("ij,j->i->", {a, zeros({3})}); }, {"einsum"});
  expect_error(
      [&] {
        einsum("...,...->...", {zeros({2}), zeros({3})});
      },
      {"einsum", "of \"...\"", "2 and 3"});
  expect_error([&] { einsum("i", {Tensor()}); }, {"einsum", "undefined"});
  const Tensor whole = ones({2}, DType::i64);
  expect_error([&] { einsum("i,i->", {whole, whole}); }, {"einsum: needs a floating dtype, got i64"});
}

TEST(Einsum, BroadcastsASizeOf1ToNone) {
  EXPECT_EQ(einsum("...i,...i->...", {ones({1, 2}), ones({0, 2})}).shape(), (Shape{0}));
  EXPECT_EQ(einsum("...i,...i->i", {ones({0, 2}), ones({1, 2})}).to_vector<double>(),
            (std::vector<double>{0, 0}));
}

}  // namespace
}  // namespace reprise
