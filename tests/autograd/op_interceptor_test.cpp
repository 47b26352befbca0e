// OpInterceptor: gives results in an operation's place; the innermost is asked first, observers are not told.
#include "reprise/autograd/op_interceptor.h"

#include <gtest/gtest.h>

#include <string_view>

#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/ops.h"

namespace reprise {
namespace {

struct Doubling final : autograd::OpInterceptor {
  int asked = 0;
  std::optional<TensorList> replacement(const char* name, const TensorList& inputs) override {
    ++asked;
    if (std::string_view(name) != "exp") return {};
    return TensorList{inputs[0] * 2.0};
  }
};

struct Counting final : autograd::OpObserver {
  int begun = 0, ran = 0;
  void op_begins(const autograd::OpCall&) override { ++begun; }
  void op_ran(const char*, const TensorList&, const TensorList&) override { ++ran; }
};

TEST(OpInterceptor, GivesResultsOfOperationsThatThenDoNotRun) {
  Tensor x = Tensor::from<float>({1, 2}, {2});
  Counting observer;
  Doubling interceptor;
  EXPECT_EQ(exp(x).to_vector<float>(), (std::vector<float>{2, 4}));
  EXPECT_EQ(interceptor.asked, 1);  // the product that it computes is its own
  EXPECT_EQ(observer.begun, 1);
  EXPECT_EQ(observer.ran, 0);
  EXPECT_EQ(square(x).to_vector<float>(), (std::vector<float>{1, 4}));
  EXPECT_EQ(observer.ran, 1);
}

TEST(OpInterceptor, IsAskedOnlyWhereNoneInsideHasResults) {
  Tensor x = Tensor::from<float>({1, 2}, {2});
  Doubling outer;
  {
    Doubling inner;
    exp(x);
    EXPECT_EQ(outer.asked, 0);
    square(x);
    EXPECT_EQ(inner.asked, 2);
    EXPECT_EQ(outer.asked, 1);
  }
  exp(x);
  EXPECT_EQ(outer.asked, 2);
}

}  // namespace
}  // namespace reprise
