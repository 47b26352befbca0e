// Modules: names, modes, shared parameters and state dicts.
#include "reprise/nn/module.h"

#include "reprise/autograd/ops.h"
#include "reprise/nn/batch_norm.h"
#include "reprise/nn/eval_scope.h"
#include "reprise/nn/layers.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/module_list.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::same_bits;

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}
using Names = std::vector<std::string>;

struct Inner : Module {
  Linear first{3, 5}, second{5, 2, {.bias = false}};
  Tensor count = register_buffer("count", Tensor::from<float>({1, 2}, {2}));
  Inner() {
    register_module("first", first);
    register_module("second", second);
  }
};

struct Outer : Module {
  Tensor scale = register_parameter("scale", ones({7}));
  Inner left, right;
  Outer() {
    register_module("left", left);
    register_module("right", right);
  }
};

// The head's matrix is the table's, as in GPT-2.
struct Tied : Module {
  Embedding table{11, 3};
  Tensor head = register_parameter("head", table.weight);
  Embedding* again = &table;
  Tied() {
    register_module("table", table);
    register_module("again", *again);
  }
};

struct Renamed : Module {
  Tensor a = register_parameter("a", zeros({2}));
  void add_parameter(const std::string& name) { register_parameter(name, zeros({2})); }
  void add_buffer(const std::string& name) { register_buffer(name, zeros({2})); }
  void add_module(const std::string& name, Module& child) { register_module(name, child); }
};

TEST(Module, NamesParametersByThePathToThem) {
  Outer net;
  EXPECT_EQ(names_of(net.named_parameters()),
            (Names{"scale", "left.first.weight", "left.first.bias", "left.second.weight",
                   "right.first.weight", "right.first.bias", "right.second.weight"}));
  EXPECT_EQ(names_of(net.named_buffers()), (Names{"left.count", "right.count"}));
  EXPECT_EQ(net.state_dict().size(), 9u);
  EXPECT_EQ(net.parameters().size(), 7u);
  EXPECT_EQ(net.parameter_count(), 7 + 2 * (15 + 5 + 10));
}

TEST(Module, ParametersAreItsOwnLeavesAndBuffersAreNotTrained) {
  Outer net;
  for (auto& [name, parameter] : net.named_parameters())
    EXPECT_TRUE(parameter.is_leaf() && parameter.requires_grad()) << name;
  EXPECT_TRUE(net.named_parameters()[1].second.is_same(net.left.first.weight));
  EXPECT_FALSE(net.left.count.requires_grad());
}

TEST(Module, CountsAndListsASharedParameterOnce) {
  Tied net;
  EXPECT_EQ(names_of(net.named_parameters()), (Names{"head"}));
  EXPECT_EQ(net.parameter_count(), 33);
  EXPECT_EQ(names_of(net.state_dict()), (Names{"head"}));
}

TEST(Module, RefusesANameThatIsTaken) {
  Renamed net;
  Inner child;
  net.add_buffer("b");
  net.add_module("c", child);
  expect_error([&] { net.add_parameter("a"); }, {"Module", "\"a\""});
  expect_error([&] { net.add_buffer("a"); }, {"Module", "\"a\""});
  expect_error([&] { net.add_parameter("b"); }, {"Module", "\"b\""});
  expect_error([&] { net.add_module("c", child); }, {"Module", "\"c\""});
  EXPECT_EQ(names_of(net.named_parameters()),
            (Names{"a", "c.first.weight", "c.first.bias", "c.second.weight"}));
}

TEST(Module, TrainAndEvalReachEveryChild) {
  Outer net;
  EXPECT_TRUE(net.training() && net.right.first.training());
  net.eval();
  EXPECT_FALSE(net.training() || net.left.training() || net.right.first.training());
  net.left.train();
  EXPECT_TRUE(net.left.second.training());
  EXPECT_FALSE(net.right.training());
  net.train();
  EXPECT_TRUE(net.training() && net.right.second.training());
}

TEST(Module, ZeroGradDropsEveryGradient) {
  Outer net;
  for (const Tensor& parameter : net.parameters()) parameter.set_grad(ones(parameter.shape()));
  net.zero_grad();
  for (auto& [name, parameter] : net.named_parameters()) EXPECT_FALSE(parameter.grad().defined()) << name;
}

TEST(Module, ConvertsInPlaceWhatItsHoldersHold) {
  Tied tied;
  tied.to(DType::bf16);
  EXPECT_EQ(tied.table.weight.dtype(), DType::bf16);
  EXPECT_TRUE(tied.head.is_same(tied.table.weight)) << "shared parameters stay shared";

  Outer net;
  Tensor held = net.left.first.weight, before = held.detach().clone();
  held.set_grad(ones(held.shape()));
  Tensor loss = linear(ones({2, 3}), held).sum();
  net.to(DType::bf16);
  EXPECT_TRUE(held.is_same(net.left.first.weight) && held.is_leaf() && held.requires_grad());
  EXPECT_TRUE(same_bits(held.detach(), before.to(DType::bf16)));
  EXPECT_EQ(held.grad().dtype(), DType::bf16);
  EXPECT_EQ(net.left.count.dtype(), DType::bf16);
  EXPECT_EQ(held.storage()->bytes(), 15 * 2u) << "the old data is gone";
  net.zero_grad();
  linear(ones({2, 3}, DType::bf16), held).sum().backward();
  EXPECT_EQ(held.grad().to_vector<float>(), std::vector<float>(15, 2.0f));
  expect_error([&] { loss.backward(); }, {"linear", "changed"});
  expect_error([&] { net.to(DType::i64); }, {"Module", "i64"});
}

TEST(SetData, RefusesWhatTheTensorCannotBecome) {
  Tensor x = ones({3}).set_requires_grad();
  expect_error([&] { (x * 2.0).set_data(ones({3})); }, {"set_data", "leaf"});
  expect_error([&] { x.set_data(zeros({3}, DType::i64)); }, {"set_data", "floating", "i64"});
  x.set_grad(ones({3}));
  expect_error([&] { x.set_data(ones({4})); }, {"set_data", "gradient", "(4,)"});
}

TEST(StateDict, RoundTripsBetweenTwoModules) {
  Outer from, to;
  from.left.count.fill_(9);
  ASSERT_FALSE(same_bits(from.left.first.weight.detach(), to.left.first.weight.detach()));
  to.load_state_dict(from.state_dict());
  NamedTensors want = from.state_dict(), got = to.state_dict();
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].first, want[i].first);
    EXPECT_TRUE(same_bits(got[i].second.detach(), want[i].second.detach())) << want[i].first;
    EXPECT_FALSE(got[i].second.is_same(want[i].second)) << "values are copied, tensors are not shared";
  }
  EXPECT_TRUE(to.left.first.weight.requires_grad());
}

TEST(StateDict, IsFoundByNameInAnyOrder) {
  Outer from, to;
  NamedTensors state = from.state_dict();
  std::reverse(state.begin(), state.end());
  to.load_state_dict(state);
  for (size_t i = 0; i < state.size(); ++i)
    EXPECT_TRUE(same_bits(to.state_dict()[i].second.detach(), from.state_dict()[i].second.detach()));
}

TEST(StateDict, OneErrorListsAllThatDoesNotFitAndNothingChanges) {
  Outer net;
  NamedTensors state, before;
  for (auto& [name, tensor] : net.state_dict()) {
    before.emplace_back(name, tensor.detach().clone());
    if (name != "left.first.bias") state.emplace_back(name, full(tensor.shape(), 5));
  }
  for (auto& [name, tensor] : state) {
    if (name == "scale") tensor = zeros({8});
    if (name == "left.second.weight") tensor = zeros({5, 2});
    if (name == "right.count") tensor = zeros({2}, DType::f64);
    if (name == "right.first.bias") tensor = Tensor();
  }
  state.emplace_back("stranger", zeros({1}));
  state.emplace_back("right.first.weight", zeros({5, 3}));
  expect_error([&] { net.load_state_dict(state); },
               {"missing: left.first.bias (5,)", "shape of scale: given (8,), the module has (7,)",
                "shape of left.second.weight: given (5, 2), the module has (2, 5)",
                "dtype of right.count: given f64, the module has f32", "right.first.bias: given no tensor",
                "unknown: stranger (1,)", "given twice: right.first.weight"});
  NamedTensors after = net.state_dict();
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(same_bits(after[i].second.detach(), before[i].second)) << before[i].first;
}

TEST(StateDict, AListOfWhatDoesNotFitEndsWithACountOfTheRest) {
  Renamed net;
  NamedTensors state{{"a", zeros({2})}};
  for (int i = 0; i < 100'000; ++i) state.emplace_back("stranger." + std::to_string(i), Tensor());
  std::string message;
  try {
    net.load_state_dict(state);
  } catch (const Error& error) { message = error.what(); }
  EXPECT_NE(message.find("unknown: stranger.0\n"), std::string::npos) << message;
  EXPECT_NE(message.find("and 99980 more"), std::string::npos) << message;
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 21);
}

TEST(Module, StaysWhereItIsIfMovedThere) {
  Outer net;
  for (const Tensor& parameter : net.parameters()) parameter.set_grad(ones(parameter.shape()));
  std::vector<const void*> before;
  for (auto& [name, tensor] : net.state_dict()) before.push_back(tensor.storage().get());
  const void* gradient = net.scale.grad().storage().get();
  net.to(Device::cpu());
  NamedTensors after = net.state_dict();
  for (size_t i = 0; i < after.size(); ++i) EXPECT_EQ(after[i].second.storage().get(), before[i]);
  EXPECT_EQ(net.scale.grad().storage().get(), gradient);
}

TEST(Module, MovesInPlaceWhatItsHoldersHoldAndBackWithTheSameBits) {
  Device device = testing::test_device();
  if (device.is_cpu()) GTEST_SKIP() << "there is no other device";
  Tied tied;
  tied.to(device);
  EXPECT_TRUE(tied.head.is_same(tied.table.weight)) << "shared parameters stay shared";
  EXPECT_EQ(tied.head.device(), device);

  Outer net;
  Tensor held = net.left.first.weight;
  held.set_grad(ones(held.shape()));
  NamedTensors before;
  for (auto& [name, tensor] : net.state_dict()) before.emplace_back(name, tensor.detach().clone());
  net.to(device);
  for (auto& [name, tensor] : net.state_dict()) {
    EXPECT_EQ(tensor.device(), device) << name;
    EXPECT_EQ(tensor.storage()->category(), MemoryCategory::parameters) << name;
  }
  EXPECT_TRUE(held.is_same(net.left.first.weight) && held.requires_grad());
  EXPECT_EQ(held.grad().device(), device);
  EXPECT_EQ(held.grad().storage()->category(), MemoryCategory::gradients);
  linear(ones({2, 3}, DType::f32, device), held).sum().backward();
  EXPECT_TRUE(same_bits(held.grad().to(Device::cpu()), full({5, 3}, 3)));  // 1, and 1 of each of two rows
  net.to(Device::cpu());
  NamedTensors after = net.state_dict();
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(same_bits(after[i].second.detach(), before[i].second)) << before[i].first;
}

TEST(Module, RefusesWhatHasNoValueAndItself) {
  struct Odd : Module {
    void add(const Tensor& x) { register_parameter("p", x); }
    void add_buffer(const Tensor& x) { register_buffer("b", x); }
    void add_self() { register_module("m", *this); }
  } net;
  expect_error([&] { net.add({}); }, {"Module", "\"p\"", "undefined"});
  expect_error([&] { net.add_buffer({}); }, {"Module", "\"b\"", "undefined"});
  expect_error([&] { net.add_self(); }, {"Module", "\"m\"", "itself"});
}

// A norm, which has running statistics, and what follows it.
struct Backbone : Module {
  BatchNorm1d norm{3};
  Linear out{3, 2};
  Tensor place = register_parameter("place", ones({2, 3}), WeightDecay::never);
  Backbone() {
    register_module("norm", norm);
    register_module("out", out);
  }
  Tensor operator()(const Tensor& x) { return out(norm(x)); }
};

TEST(Freeze, KeepsStatistics) {
  Backbone net;
  Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 7}, {2, 3});
  net(x).sum().backward();  // statistics and gradients of their own
  net.norm.freeze();
  EXPECT_TRUE(net.norm.frozen() && !net.frozen());
  EXPECT_FALSE(net.norm.weight.grad().defined());
  NamedTensors before;
  for (const auto& [name, tensor] : net.norm.state_dict()) before.emplace_back(name, tensor.detach().clone());
  net.train();
  EXPECT_TRUE(net.training() && net.out.training());
  EXPECT_FALSE(net.norm.training());
  net.zero_grad();
  net(x * 3.0).sum().backward();
  EXPECT_FALSE(net.norm.weight.grad().defined());
  EXPECT_TRUE(net.out.weight.grad().defined());
  NamedTensors after = net.norm.state_dict();
  ASSERT_EQ(after.size(), 5u);
  for (size_t i = 0; i < after.size(); ++i)
    EXPECT_TRUE(same_bits(after[i].second.detach(), before[i].second)) << after[i].first;
}

TEST(Freeze, ReachesEveryChildAndKeepsTheirNames) {
  Outer net;
  net.freeze();
  net.train();
  EXPECT_FALSE(net.training() || net.right.second.training());
  EXPECT_EQ(net.named_parameters().size(), 7u);
  for (const auto& [name, parameter] : net.named_parameters())
    EXPECT_FALSE(parameter.requires_grad()) << name;
}

TEST(Module, NamesWhatWeightDecaySpares) {
  struct Pair : Module {
    Backbone left, right;
    Pair() {
      register_module("left", left);
      register_module("right", right);
    }
  } net;
  EXPECT_EQ(net.no_weight_decay(), (Names{"left.place", "right.place"}));
}

TEST(ModuleList, NamesItsModulesByNumber) {
  ModuleList<Linear> list;
  list.add(3, 5);
  Linear& second = list.add(5, 2, LinearOptions{.bias = false});
  EXPECT_EQ(names_of(list.named_parameters()), (Names{"0.weight", "0.bias", "1.weight"}));
  EXPECT_EQ(list.size(), 2);
  EXPECT_EQ(&list[1], &second);
  for (int64_t i : {-1, 2}) expect_error([&] { list[i]; }, {"ModuleList: there is no module", "of 2"});
}

TEST(ModuleList, HoldsClassesBelowItsOwn) {
  ModuleList<Layer> list;
  Linear& first = list.add<Linear>(3, 5);
  LayerNorm& second = list.add<LayerNorm>(5);
  EXPECT_EQ(names_of(list.named_parameters()), (Names{"0.weight", "0.bias", "1.weight", "1.bias"}));
  const Tensor x = Tensor::from<float>({1, -2, 3}, {1, 3});
  Tensor y = x;
  for (int64_t i = 0; i < list.size(); ++i) y = list[i](y);
  EXPECT_TRUE(same_bits(y, second.forward(first.forward(x))));
  expect_error([&] { list[2]; }, {"there is no module 2 of 2"});
}

// A norm whose statistics are to stay is put into evaluation by itself; a frozen one is there for good.
TEST(EvalScope, GivesEachModuleItsOwnModeBack) {
  Sequential net;
  net.add<Linear>(3, 3);
  Module &stays = net.add<BatchNorm1d>(3), &frozen = net.add<BatchNorm1d>(3);
  stays.eval();
  frozen.freeze();
  {
    EvalScope scope(net);
    EXPECT_FALSE(net.training() || net[0].training());
  }
  EXPECT_TRUE(net.training() && net[0].training());
  EXPECT_FALSE(stays.training() || frozen.training());
  net.eval();
  net[0].train();
  { EvalScope scope(net); }
  EXPECT_FALSE(net.training());
  EXPECT_TRUE(net[0].training());
}

TEST(EvalScope, KnowsAModuleThatSeveralHave) {
  struct Half : Module {
    explicit Half(Module& shared) { register_module("shared", shared); }
  };
  struct Pair : Module {
    BatchNorm1d shared{3};
    Half left{shared}, right{shared};
    Pair() {
      register_module("left", left);
      register_module("right", right);
    }
  } net;
  for (const bool is_training : {true, false}) {
    net.train(!is_training);
    net.shared.train(is_training);
    { EvalScope scope(net); }
    EXPECT_EQ(net.shared.training(), is_training);
    EXPECT_EQ(net.right.training(), !is_training);
    EXPECT_EQ(net.training(), !is_training);
  }
}

}  // namespace
}  // namespace reprise::nn
