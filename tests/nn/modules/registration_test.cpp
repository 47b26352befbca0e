// Layers that were not registered are found, and nothing else is.
#include "reprise/nn/registration.h"

#include "reprise/autograd/engine.h"
#include "reprise/autograd/recompute/checkpoint.h"
#include "reprise/nn/layers.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/optim/sgd.h"
#include "reprise/tests/support/compare.h"

namespace reprise::nn {
namespace {

using testing::expect_error;

struct Net : Module {
  Linear hidden{3, 5}, out{5, 2};
  explicit Net(bool forgets) {
    register_module("hidden", hidden);
    if (!forgets) register_module("out", out);
  }
  Tensor loss() { return out(relu(hidden(ones({4, 3})))).sum(); }
};

// What `body` writes to stderr.
std::string warnings_of(const std::function<void()>& body) {
  ::testing::internal::CaptureStderr();
  body();
  return ::testing::internal::GetCapturedStderr();
}

TEST(CheckRegistered, NamesLayerParameterAndShape) {
  Net net(/*forgets=*/true);
  expect_error([&] { check_registered(net, net.loss()); },
               {"check_registered", "register_module", "weight (2, 5) of Linear", "bias (2,) of Linear"});
  Net whole(/*forgets=*/false);
  EXPECT_NO_THROW(check_registered(whole, whole.loss()));
}

TEST(CheckRegistered, SeesThroughCheckpoints) {
  for (CheckpointMode mode : {CheckpointMode::non_reentrant, CheckpointMode::reentrant}) {
    Net net(/*forgets=*/true);
    Tensor x = ones({4, 3}).set_requires_grad();
    Tensor y = checkpoint([&](const Tensor& in) { return net.out(relu(net.hidden(in))); }, x, {.mode = mode});
    expect_error([&] { check_registered(net, y.sum()); }, {"weight (2, 5) of Linear"});
  }
}

TEST(CheckRegistered, LeavesAloneWhatNoModuleMadeAndWhatIsFrozen) {
  Net net(/*forgets=*/true);
  for (const Tensor& parameter : {net.out.weight, net.out.bias}) parameter.set_requires_grad(false);
  Tensor temperature = ones({1}).set_requires_grad();
  EXPECT_NO_THROW(check_registered(net, net.loss() * temperature));
  expect_error([&] { check_registered(net, ones({1})); }, {"check_registered", "graph"});
}

TEST(CheckRegistered, KnowsSharedParameters) {
  struct Tied : Module {
    Embedding table{7, 3};
    Tensor head = register_parameter("head", table.weight);
    Tied() { register_module("table", table); }
  } net;
  Tensor tokens = Tensor::from<int64_t>({1, 2}, {2});
  EXPECT_NO_THROW(check_registered(net, linear(net.table(tokens), net.head).sum()));
}

// What an optimizer makes of a forgotten layer, whatever this test was built with.
class Strays {
 public:
  explicit Strays(bool refused) : before_(detail::refuse_strays(refused)) {}
  ~Strays() { detail::refuse_strays(before_); }
  bool before() const { return before_; }

 private:
  bool before_;
};

TEST(Optimizer, RefusesStraysWhereAProgramKeepsItsAssertions) {
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__)  // its library keeps assertions
  EXPECT_FALSE(Strays(false).before());
#else
  EXPECT_TRUE(Strays(true).before());
#endif
}

TEST(Optimizer, RefusesALayerThatWasNeverRegisteredIfAsserting) {
  Strays refused(true);
  Net net(/*forgets=*/true);
  optim::Sgd optimizer(net.parameters(), {.lr = 1});
  net.loss().backward();
  const std::vector<float> before = net.hidden.weight.to_vector<float>();
  expect_error([&] { optimizer.step(); },
               {"optimizer", "weight (2, 5) of Linear", "bias (2,) of Linear", "register_module"});
  EXPECT_EQ(net.hidden.weight.to_vector<float>(), before);
}

TEST(Optimizer, WarnsOnceOfALayerThatWasNeverRegistered) {
  Strays refused(false);
  Net net(/*forgets=*/true);
  optim::Sgd optimizer(net.parameters());
  net.loss().backward();
  std::string warning = warnings_of([&] { optimizer.step(); });
  EXPECT_NE(warning.find("weight (2, 5) of Linear"), std::string::npos) << warning;
  EXPECT_NE(warning.find("register_module"), std::string::npos) << warning;
  EXPECT_EQ(warnings_of([&] { optimizer.step(); }), "");
}

TEST(Optimizer, DoesNotWarnOfLayersThatSomebodyKnows) {
  Net net(/*forgets=*/false), trained_elsewhere(false);
  Linear head(2, 3), frozen(2, 2), unused(2, 2);
  for (const Tensor& parameter : {frozen.weight, frozen.bias}) parameter.set_requires_grad(false);
  optim::Sgd optimizer(net.parameters()), of_head(TensorList{head.weight, head.bias});
  trained_elsewhere.state_dict();
  (net.loss() + frozen(head.weight.detach().reshape({3, 2})).sum() + trained_elsewhere.loss()).backward();
  head(ones({4, 2})).sum().backward();
  EXPECT_EQ(warnings_of([&] {
              optimizer.step();
              of_head.step();
            }),
            "");
}

}  // namespace
}  // namespace reprise::nn
