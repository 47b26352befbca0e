// Gather along the last dimension.
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

TEST(Gather, PassesEveryCheckOfAnOpWithRepeatedIndices) {
  std::vector<int64_t> index = {0, 4, 4, 2, 2, 2, 1, 3, 0};
  check_op(
      OpCase{.name = "gather",
             .inputs = {{{3, 5}}, {.shape = {3, 3}, .values = Tensor::from(index, {3, 3})}},
             .fn = [](const TensorList& in) { return gather(in[0], in[1]); },
             .reference =
                 [=](const TensorList& in) {
                   std::vector<double> x = in[0].to_vector<double>(), y;
                   for (size_t i = 0; i < index.size(); ++i) y.push_back(x[i / 3 * 5 + size_t(index[i])]);
                   return y;
                 },
             .roundings = 4,  // three gradients meet in one element
             .empty_inputs = {{{3, 5}}, {.shape = {3, 0}, .values = Tensor::empty({3, 0}, DType::i64)}}});
}

TEST(Gather, RefusesAnIndexOutOfRangeWithItsValue) {
  expect_error([] { gather(zeros({1, 3}), Tensor::from<int64_t>({3}, {1, 1})); }, {"gather", "3"});
  expect_error([] { gather(zeros({1, 3}), Tensor::from<int64_t>({-1}, {1, 1})); }, {"gather", "-1"});
}

}  // namespace
}  // namespace reprise
