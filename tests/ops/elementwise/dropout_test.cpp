// Dropout: the draw is Philox's, the backward pass repeats it.
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;
using testing::same_bits;

constexpr double kP = 0.3;

TEST(Dropout, PassesEveryCheckOfAnOp) {
  Generator generator(5);
  check_op(OpCase{.name = "dropout",
                  .inputs = {{{3, 7}}},
                  .fn =
                      [&](const TensorList& in) {
                        generator.set_state({5, 2});
                        return dropout(in[0], kP, &generator);
                      },
                  .reference =
                      [](const TensorList& in) {  // element i uses word i % 4 of block i / 4
                        std::vector<double> x = in[0].to_vector<double>();
                        for (size_t i = 0; i < x.size(); ++i) {
                          float draw = to_unit_float(philox_block(5, 2, i / 4)[i % 4]);
                          x[i] = draw >= float(kP) ? x[i] / (1 - kP) : 0;
                        }
                        return x;
                      },
                  .roundings = 4,
                  .empty_inputs = {{{3, 0}}},
                  .large_inputs = {{{301, 307}}}});
}

TEST(Dropout, TakesOneOffsetACallAndNoneWithoutP) {
  Generator generator(5);
  Tensor x = ones({64}), a = dropout(x, 0.5, &generator), b = dropout(x, 0.5, &generator);
  EXPECT_EQ(generator.state().offset, 2u);
  EXPECT_FALSE(same_bits(a, b));
  EXPECT_TRUE(dropout(x, 0, &generator).is_same(x));
  EXPECT_EQ(generator.state().offset, 2u);
}

TEST(Dropout, DrawsFromTheThreadsGeneratorByDefault) {
  manual_seed(9);
  Tensor a = dropout(ones({64}), 0.5);
  manual_seed(9);
  EXPECT_TRUE(same_bits(a, dropout(ones({64}), 0.5)));
}

TEST(Dropout, RefusesAProbabilityOutsideZeroToOne) {
  const Generator::State before = default_generator().state();
  expect_error([] { dropout(ones({2}), 1); }, {"dropout", "1"});
  expect_error([] { dropout(ones({2}), -0.1); }, {"dropout", "-0.1"});
  EXPECT_EQ(default_generator().state(), before) << "what is refused draws nothing";
}

}  // namespace
}  // namespace reprise
