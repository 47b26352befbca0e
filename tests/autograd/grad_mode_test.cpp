// Scopes that switch recording, and what may be done in them.
#include "reprise/autograd/grad_mode.h"

#include <thread>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/compare.h"

namespace reprise {
namespace {

using autograd::grad_mode_enabled;
using testing::expect_error;

Tensor leaf() { return Tensor::from<float>({1, 2}, {2}).set_requires_grad(); }

TEST(GradMode, NestsAndRestores) {
  EXPECT_TRUE(grad_mode_enabled());
  {
    NoGrad off;
    EXPECT_FALSE(grad_mode_enabled());
    {
      EnableGrad on;
      EXPECT_TRUE(grad_mode_enabled());
    }
    EXPECT_FALSE(grad_mode_enabled());
  }
  EXPECT_TRUE(grad_mode_enabled());
  try {
    NoGrad off;
    fail("leave");
  } catch (const Error&) {}
  EXPECT_TRUE(grad_mode_enabled());
}

TEST(NoGrad, RecordsNothingAndEnableGradInsideDoes) {
  Tensor x = leaf();
  NoGrad off;
  EXPECT_FALSE(square(x).requires_grad());
  EXPECT_TRUE(x.requires_grad());
  EnableGrad on;
  square(x).sum().backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{2, 4}));
}

TEST(NoGrad, IsOfItsThreadAlone) {
  NoGrad off;
  bool other = false;
  std::thread([&] { other = grad_mode_enabled(); }).join();
  EXPECT_TRUE(other);
}

TEST(Backward, RunsWithRecordingOffUnlessCreateGraph) {
  for (bool create_graph : {false, true}) {
    Tensor x = leaf(), y = x * 1.0;
    bool inside = !create_graph;
    y.register_hook([&](const Tensor&) { return inside = grad_mode_enabled(), Tensor(); });
    NoGrad off;
    y.backward(ones({2}), {}, create_graph);
    EXPECT_EQ(inside, create_graph);
    EXPECT_FALSE(grad_mode_enabled());
    x.set_grad({});
  }
}

TEST(InferenceMode, RecordsNothingAndItsTensorsCannotEnterAGraph) {
  Tensor x = leaf(), y;
  {
    InferenceMode mode;
    EXPECT_TRUE(autograd::inference_mode_enabled());
    EXPECT_FALSE(grad_mode_enabled());
    y = square(x);
    EXPECT_FALSE(y.requires_grad());
  }
  EXPECT_FALSE(autograd::inference_mode_enabled());
  EXPECT_TRUE(grad_mode_enabled());
  expect_error([&] { x* y; }, {"mul", "InferenceMode"});
  expect_error([&] { y.set_requires_grad(); }, {"set_requires_grad", "InferenceMode"});
  EXPECT_TRUE((x + y).requires_grad());  // add keeps neither
  EXPECT_NO_THROW(x * y.clone());        // a copy made outside is an ordinary tensor
}

TEST(InferenceMode, MarksWhatIsMadeInItHoweverItIsMade) {
  Tensor x = leaf(), outside = ones({2});
  std::vector<Tensor> made;
  {
    InferenceMode mode;
    made = {zeros({2}),          ones({2}),
            full({2}, 3),        rand({2}),
            randn({2}),          Tensor::from<float>({1, 2}, {2}),
            Tensor::empty({2}),  Tensor::zeros({2}),
            outside.clone(),     cast(arange(2), DType::f32),
            zeros({2}).detach(), zeros({4}).slice(0, 0, 2),
            outside + 1.0,       one_hot(scalar(0, DType::i64), 2)};
  }
  for (size_t i = 0; i < made.size(); ++i) {
    SCOPED_TRACE(i);
    expect_error([&] { x* made[i]; }, {"mul", "InferenceMode", "clone"});
    expect_error([&] { made[i].set_requires_grad(); }, {"set_requires_grad", "InferenceMode"});
    expect_error([&] { x* made[i].detach(); }, {"mul", "InferenceMode"});
  }
}

TEST(InferenceMode, LeavesViewsOfTensorsFromOutsideOrdinary) {
  Tensor x = leaf(), outside = ones({4}), view;
  {
    InferenceMode mode;
    view = outside.slice(0, 0, 2);
  }
  EXPECT_TRUE((x * view).requires_grad());
}

TEST(InferenceMode, LetsAModelBeMadeInItThatCannotBeTrained) {
  Tensor x = leaf(), weight;
  {
    InferenceMode mode;
    weight = ones({2}).set_requires_grad();
    EXPECT_EQ((x * weight).sum().item(), 3);
  }
  expect_error([&] { x* weight; }, {"mul", "InferenceMode"});
}

}  // namespace
}  // namespace reprise
