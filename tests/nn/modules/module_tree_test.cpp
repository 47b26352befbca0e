// The open tree of modules: what is below one, found by name, visited, replaced; states that fit in part.
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/nn/generation/generate.h"
#include "reprise/nn/layers.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/models/llama.h"
#include "reprise/nn/models/vit.h"
#include "reprise/nn/module_list.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::same_bits;
using testing::test_device;
using Names = std::vector<std::string>;

struct Pair : Module {
  Linear first{4, 4};
  Sequential second;
  Pair() {
    register_module("first", first);
    register_module("second", second);
    second.add<Linear>(4, 4);
    second.add<Activate>(Activation::relu);
  }
};

// A product of two thin matrices beside a layer that stays as it is (Hu et al. 2021).
struct Lora : Layer {
  Lora(Linear& the_base, int64_t rank) : base(the_base) {
    register_module("base", base);
    base.freeze();
    const Device device = base.weight.device();
    down = register_parameter("down", full({rank, base.weight.size(1)}, 0.02, DType::f32, device));
    up = register_parameter("up", full({base.weight.size(0), rank}, 0.03, DType::f32, device));
  }
  Tensor forward(const Tensor& x) override { return base.forward(x) + linear(linear(x, down), up); }
  Linear& base;
  Tensor down, up;
};

Names names_of(const NamedModules& modules) {
  Names names;
  for (const auto& [name, module] : modules) names.push_back(name);
  return names;
}

void expect_near(const Tensor& got, const Tensor& want, double tolerance) {
  ASSERT_EQ(got.shape(), want.shape());
  const auto a = got.to_vector<double>(), b = want.to_vector<double>();
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << i;
}

TEST(ModuleTree, NamesWhatIsBelowEachOnceParentsFirst) {
  Pair pair;
  EXPECT_EQ(names_of(pair.named_modules()), (Names{"", "first", "second", "second.0", "second.1"}));
  EXPECT_EQ(names_of(pair.named_children()), (Names{"first", "second"}));
  EXPECT_EQ(pair.named_modules()[0].second, &pair);
  struct Twice : Pair {
    Twice() { register_module("again", first); }
  } twice;
  EXPECT_EQ(names_of(twice.named_modules()), (Names{"", "first", "second", "second.0", "second.1"}));
}

TEST(ModuleTree, VisitsChildrenBeforeTheirParents) {
  Pair pair;
  Names visited;
  pair.apply([&](Module& module) { visited.push_back(module.class_name()); });
  ASSERT_EQ(visited.size(), 5u);
  EXPECT_EQ((Names{visited.begin(), visited.begin() + 4}),
            (Names{"Linear", "Linear", "Activate", "Sequential"}));
  EXPECT_TRUE(visited[4].ends_with("::Pair")) << visited[4];
}

TEST(ModuleTree, FindsModulesByNameAndClass) {
  Pair pair;
  EXPECT_EQ(&pair.at<Linear>("first"), &pair.first);
  EXPECT_EQ(&pair.at("second.1"), &pair.second[1]);
  EXPECT_EQ(&pair.at(""), &pair);
  expect_error([&] { pair.at("second.7"); }, "no module \"second.7\"", "Sequential has no child \"7\"",
               "\n  0\n  1");
  expect_error([&] { pair.at("first.weight"); }, "Linear has no child \"weight\", nor any other");
  expect_error([&] { pair.at("firs"); }, "no child \"firs\"");
  expect_error([&] { pair.at<Linear>("second"); }, "\"second\" is a Sequential");
  // Names may have dots of their own.
  Llama llama(
      {.vocab_size = 11, .context = 8, .layers = 1, .heads = 2, .kv_heads = 1, .width = 8, .hidden = 12});
  EXPECT_EQ(&llama.at<Linear>("layers.0.self_attn.q_proj"),
            &dynamic_cast<LlamaBlock&>(llama.layers[0]).q_proj);
}

TEST(ModuleTree, AReplacementIsCalledTrainedAndNamed) {
  Pair pair;
  const Tensor x = Tensor::from<float>({1, -2, 3, 4}, {1, 4});
  auto lora = std::make_shared<Lora>(pair.first, 2);
  pair.replace("first", lora);
  // f64, from the definition.
  auto wide = [](const Tensor& t) { return t.detach().to(DType::f64); };
  const Tensor want =
      matmul(wide(x), transpose(wide(pair.first.weight), 0, 1)) + wide(pair.first.bias) +
      matmul(matmul(wide(x), transpose(wide(lora->down), 0, 1)), transpose(wide(lora->up), 0, 1));
  expect_near(pair.first(x), want, 1e-6);
  Names parameters;
  for (const auto& [name, parameter] : pair.named_parameters()) parameters.push_back(name);
  EXPECT_EQ(parameters, (Names{"first.down", "first.up", "first.base.weight", "first.base.bias",
                               "second.0.weight", "second.0.bias"}));
  sum(pair.first(x)).backward();
  EXPECT_TRUE(lora->up.grad().defined());
  EXPECT_FALSE(pair.first.weight.grad().defined());
  EXPECT_EQ(&pair.at<Lora>("first"), lora.get());
  pair.eval();
  EXPECT_FALSE(lora->training());
}

TEST(ModuleTree, AReplacementMayBeReplaced) {
  struct Plus : Layer {
    explicit Plus(double the_value) : value(the_value) {}
    Tensor forward(const Tensor& x) override { return x + value; }
    double value;
  };
  Pair pair;
  const Tensor x = Tensor::from<float>({1, 2, 3, 4}, {1, 4});
  pair.replace("second.0", std::make_shared<Plus>(1));
  pair.replace("second.1", std::make_shared<Plus>(10));
  EXPECT_EQ(pair.second(x).to_vector<float>(), (std::vector<float>{12, 13, 14, 15}));
  pair.replace("second.0", std::make_shared<Plus>(2));
  EXPECT_EQ(pair.second(x).to_vector<float>(), (std::vector<float>{13, 14, 15, 16}));
  EXPECT_EQ(dynamic_cast<Plus&>(pair.second[0]).value, 2);
}

TEST(ModuleTree, AllParentsOfASharedLayerGetTheReplacement) {
  struct Twice : Pair {
    Twice() { register_module("again", first); }
  } twice;
  auto lora = std::make_shared<Lora>(twice.first, 1);
  twice.replace("again", lora);
  EXPECT_EQ(&twice.at("first"), lora.get());
  EXPECT_EQ(&twice.at("again"), lora.get());
}

TEST(ModuleTree, RefusesWhatWouldNotBeCalled) {
  Gpt gpt({.vocab_size = 11, .context = 8, .layers = 1, .heads = 2, .width = 8});
  auto layer = [] { return std::make_shared<Activate>(Activation::relu); };
  for (const char* name : {"wte", "wpe", "h.0.drop_path", "h.0.dropout"})
    expect_error([&] { gpt.replace(name, layer()); }, "its parent reads its tensors without a call");
  expect_error([&] { gpt.wte.register_forward_hook([](auto&, const Tensor& y) { return y; }); }, "Embedding",
               "without a call");
  struct Tables : Module {
    ModuleList<Linear> parts;
    Tables() { register_module("parts", parts); }
  } tables;
  expect_error([&] { tables.replace("parts", layer()); }, "\"parts\" is a ModuleList");
  expect_error([&] { gpt.replace("h.1", layer()); }, "no module \"h.1\"");
  expect_error([&] { gpt.replace("", layer()); }, "needs the name of a layer");
  expect_error([&] { gpt.replace("ln_f", nullptr); }, "nothing to put in the place of \"ln_f\"");
  auto same = layer();
  gpt.replace("ln_f", same);
  expect_error([&] { gpt.replace("ln_f", same); }, "cannot be replaced by itself");
}

TEST(ModuleTree, AReplacementThatCallsTheReplacedLayerIsAnError) {
  struct Calls : Layer {
    explicit Calls(Linear& the_base) : base(the_base) {}
    Tensor forward(const Tensor& x) override { return base(x) * 2; }
    Linear& base;
  };
  Pair pair;
  pair.replace("first", std::make_shared<Calls>(pair.first));
  for (int k = 0; k < 2; ++k)  // the first error leaves nothing behind
    expect_error([&] { pair.first(ones({1, 4})); }, "Linear: its replacement calls it", "forward(x)");
}

// Every product of a block, whatever it is fused with: one whose adapters are folded into its weights computes the same.
template <class Model>
void expect_adapters_are_folded_weights(Model& model, Model& folded, const Names& of_block,
                                        const Tensor& input, const std::string& block) {
  folded.load_state_dict(model.state_dict());
  for (const std::string& name : of_block) {
    Linear& base = model.template at<Linear>(block + name);
    auto lora = std::make_shared<Lora>(base, 3);
    model.replace(block + name, lora);
    NoGrad guard;
    Tensor weight = folded.template at<Linear>(block + name).weight;
    weight.copy_(weight + matmul(lora->up, lora->down));
  }
  Tensor got = model(input), want = folded(input);
  expect_near(got, want, 2e-5);
  // And so do their gradients: that of up is the weight's times down.
  sum(got * got).backward();
  sum(want * want).backward();
  for (const std::string& name : of_block) {
    Lora& lora = model.template at<Lora>(block + name);
    const Tensor of_weight = folded.template at<Linear>(block + name).weight.grad();
    expect_near(lora.up.grad(), matmul(of_weight, transpose(lora.down.detach(), 0, 1)), 2e-4);
  }
}

TEST(ModuleTree, AdaptersInAGptComputeWhatFoldedWeightsDo) {
  const Tensor tokens = Tensor::from<int64_t>({1, 4, 2, 7, 0, 9, 3, 3}, {2, 4}).to(test_device());
  for (double dropout : {0.0, 0.1}) {  // the second by the path that is not fused
    const GptOptions options{
        .vocab_size = 11, .context = 8, .layers = 2, .heads = 2, .width = 8, .dropout = dropout};
    Gpt model(options, test_device()), folded(options, test_device());
    model.eval();
    folded.eval();
    expect_adapters_are_folded_weights(model, folded, {"attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"}, tokens,
                                       "h.1.");
  }
}

TEST(ModuleTree, AdaptersInAVitComputeWhatFoldedWeightsDo) {
  VitOptions options{.image = 8, .patch = 4, .classes = 3, .width = 8, .layers = 2, .heads = 2};
  options.layer_scale = 0.5;
  Vit model(options, test_device()), folded(options, test_device());
  model.eval();
  folded.eval();
  std::vector<float> pixels(2 * 3 * 8 * 8);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = float(i % 7) * 0.3f - 1;
  expect_adapters_are_folded_weights(model, folded, {"attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"},
                                     Tensor::from<float>(pixels, {2, 3, 8, 8}).to(test_device()),
                                     "blocks.0.");
}

TEST(ModuleTree, AdaptersInALlamaComputeWhatFoldedWeightsDo) {
  const LlamaOptions options{
      .vocab_size = 11, .context = 8, .layers = 2, .heads = 2, .kv_heads = 1, .width = 8, .hidden = 12};
  Llama model(options, test_device()), folded(options, test_device());
  const Tensor tokens = Tensor::from<int64_t>({1, 4, 2, 7, 0, 9, 3, 3}, {2, 4}).to(test_device());
  expect_adapters_are_folded_weights(model, folded,
                                     {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                      "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"},
                                     tokens, "layers.1.");
}

TEST(ModuleTree, TrainedAdaptersGiveTheSameBitsRecomputed) {
  auto gradients = [](const std::string& strategy) {
    manual_seed(3);
    Gpt model({.vocab_size = 11, .context = 8, .layers = 2, .heads = 2, .width = 8, .dropout = 0.1},
              test_device());
    for (const char* name : {"h.0.attn.qkv", "h.1.mlp.fc2"})
      model.replace(name, std::make_shared<Lora>(model.at<Linear>(name), 2));
    if (strategy == "reentrant")
      model.h.set_recompute(recompute::Plan{{0, 1, true}, {1, 2, true}},
                            {.mode = recompute::CheckpointMode::reentrant});
    else
      model.h.set_recompute(parse_strategy(strategy));
    const Tensor tokens = Tensor::from<int64_t>({1, 4, 2, 7, 0, 9, 3, 3}, {2, 4}).to(test_device());
    cross_entropy(model(tokens), tokens).backward();
    TensorList found;
    for (const Tensor& parameter : model.parameters())
      if (parameter.requires_grad()) found.push_back(parameter.grad());
    return found;
  };
  const TensorList want = gradients("none");
  ASSERT_GT(want.size(), 4u);
  for (const char* strategy : {"full", "selective", "every:2", "reentrant"}) {
    const TensorList got = gradients(strategy);
    EXPECT_TRUE(same_bits(got, want)) << strategy;
  }
}

TEST(ModuleTree, AdaptersGenerateWithAndWithoutACache) {
  Gpt model({.vocab_size = 11, .context = 16, .layers = 2, .heads = 2, .width = 8}, test_device());
  for (const char* name : {"h.0.attn.qkv", "h.1.attn.proj"})
    model.replace(name, std::make_shared<Lora>(model.at<Linear>(name), 2));
  const std::vector<std::vector<int32_t>> prompts{{1, 2, 3}, {5}};
  GenerateOptions options{.tokens = 8};
  options.sampling.temperature = 0;
  const auto cached = generate(model, prompts, options);
  options.cache = false;
  EXPECT_EQ(cached, generate(model, prompts, options));
  // Hooks are part of a block's call, which is made then.
  int calls = 0;
  model.at<Layer>("h.0").register_forward_hook([&](auto&, const Tensor& y) {
    ++calls;
    return y * -2.0;
  });
  const auto hooked = generate(model, prompts, options);
  EXPECT_EQ(calls, 16);
  EXPECT_NE(hooked, cached);
  options.cache = true;
  EXPECT_EQ(hooked, generate(model, prompts, options));
}

TEST(LooseState, TakesWhatItHasAndNamesTheRest) {
  Pair pair, other;
  NamedTensors state = other.state_dict();
  state.erase(state.begin());
  state.emplace_back("head.weight", ones({2}));
  const Tensor kept = pair.first.weight.clone();
  expect_error([&] { pair.load_state_dict(state); }, "missing: first.weight", "unknown: head.weight");
  EXPECT_FALSE(same_bits(pair.first.bias, other.first.bias));
  const UnmatchedNames unmatched = pair.load_state_dict(state, false);
  EXPECT_EQ(unmatched.missing, Names{"first.weight"});
  EXPECT_EQ(unmatched.unexpected, Names{"head.weight"});
  EXPECT_TRUE(same_bits(pair.first.bias, other.first.bias));
  EXPECT_TRUE(same_bits(pair.first.weight, kept));
}

TEST(LooseState, StillRefusesOtherShapesAndLeavesAllAsItWas) {
  Pair pair, other;
  NamedTensors state = other.state_dict();
  state.back().second = ones({9});
  state.emplace_back(state.front());
  const Tensor kept = pair.first.weight.clone();
  expect_error([&] { pair.load_state_dict(state, false); }, "shape of second.0.bias",
               "given twice: first.weight");
  EXPECT_TRUE(same_bits(pair.first.weight, kept));
}

}  // namespace
}  // namespace reprise::nn
