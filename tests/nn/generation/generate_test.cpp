// Generation with a cache against the definition: at each step all logits of the window are computed anew.
// slow on the device cuda
// slow in asan
#include "reprise/nn/generation/generate.h"

#include <optional>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/nn/eval_scope.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::is_close;
using testing::same_bits;
using testing::test_device;

using Ids = std::vector<int32_t>;

constexpr int64_t vocabulary = 61;

nn::Gpt model_of(nn::GptOptions options, uint64_t seed = 3) {
  manual_seed(seed);
  options.vocab_size = vocabulary;
  return nn::Gpt(options, test_device());
}

/// Of different sizes, with and without biases and dropout (which generation leaves out).
const std::vector<nn::GptOptions>& shapes() {
  static const std::vector<nn::GptOptions> all = {
      {.context = 16, .layers = 1, .heads = 1, .width = 8},
      {.context = 24, .layers = 2, .heads = 2, .width = 32},
      {.context = 32, .layers = 3, .heads = 4, .width = 64, .bias = false},
      {.context = 20, .layers = 2, .heads = 3, .width = 96, .dropout = 0.3},
      {.context = 40, .layers = 4, .heads = 2, .width = 64, .activation = Activation::silu}};
  return all;
}

const std::vector<Ids>& prompts() {
  static const std::vector<Ids> all = {{1}, {5, 4, 3}, {7, 7, 7, 7, 7, 7, 7}, {60, 0, 59, 1}, {2, 3}};
  return all;
}

/// The next token of greatest logit, or as `sampling` says, from the whole window.
Ids by_definition(nn::Gpt& model, Ids ids, int64_t tokens, const SamplingOptions& sampling, uint64_t seed) {
  NoGrad unrecorded;
  model.eval();
  Generator generator(seed);
  const size_t prompt = ids.size(), context = size_t(model.options().context);
  size_t first = ids.size() > context ? ids.size() - context : 0;
  for (int64_t i = 0; i < tokens; ++i) {
    if (ids.size() - first > context) first = ids.size() - context / 2;
    const std::vector<int64_t> window(ids.begin() + std::ptrdiff_t(first), ids.end());
    const Tensor logits = model(Tensor::from(window, {1, int64_t(window.size())}, test_device()));
    ids.push_back(sample_token(select(logits, 1, -1).to_vector<float>(), sampling, generator, ids));
  }
  return Ids(ids.begin() + std::ptrdiff_t(prompt), ids.end());
}

constexpr SamplingOptions greedy{.temperature = 0};

/// Fewer on a device that may be emulated, and of fewer models: a token takes a tenth of a second there.
int64_t at_most(int64_t tokens, int64_t emulated) { return test_device().is_cpu() ? tokens : emulated; }

TEST(Generate, GivesTheTokensOfTheDefinition) {
  const int64_t tokens = at_most(50, 26);  // more than either window
  for (size_t shape = 0; shape < (test_device().is_cpu() ? shapes().size() : 2); ++shape) {
    nn::Gpt model = model_of(shapes()[shape]);
    for (const SamplingOptions& sampling :
         {greedy,
          SamplingOptions{
              .repetition_penalty = 1.2, .temperature = 0.9, .top_k = 20, .top_p = 0.9, .min_p = 0.01}}) {
      std::vector<Ids> want;
      for (size_t i = 0; i < prompts().size(); ++i)
        want.push_back(by_definition(model, prompts()[i], tokens, sampling, 9 + i));
      for (bool cache : {true, false})
        EXPECT_EQ(
            generate(model, prompts(), {.tokens = tokens, .sampling = sampling, .seed = 9, .cache = cache}),
            want)
            << "model " << shape << (cache ? ", cached" : "");
    }
  }
}

// Far from those of a new model: what a token sees of others changes the next one.
template <class Model>
void enlarge_weights(Model& model) {
  NoGrad unrecorded;
  for (Tensor& parameter : model.parameters())
    if (parameter.rank() == 2) parameter.mul_(8);
}

// Of each model and each prompt, alone and side by side.
TEST(Generate, GivesTheSameTokensWithAndWithoutACache) {
  const auto expect_same = [](const std::string& name, auto& model) {
    enlarge_weights(model);
    size_t differing = 0;
    for (const SamplingOptions& sampling : {greedy, SamplingOptions{.temperature = 0.7}}) {
      const auto tokens_of = [&](const std::vector<Ids>& of, bool cache) {
        return generate(model, of,
                        {.tokens = at_most(30, 10), .sampling = sampling, .seed = 4, .cache = cache});
      };
      const std::vector<Ids> want = tokens_of(prompts(), false);
      EXPECT_EQ(tokens_of(prompts(), true), want) << name;
      for (const Ids& prompt : prompts())
        EXPECT_EQ(tokens_of({prompt}, true), tokens_of({prompt}, false)) << name << ' ' << prompt.front();
      for (const Ids& ids : want) differing += ids != want.front();
    }
    EXPECT_GE(differing, 6u) << name << ": what came before is to change what comes";
  };
  for (size_t shape = 0; shape < (test_device().is_cpu() ? shapes().size() : 1); ++shape) {
    nn::Gpt model = model_of(shapes()[shape]);
    expect_same("Gpt " + std::to_string(shape), model);
  }
  nn::Gpt like = model_of({.context = 24,
                           .layers = 2,
                           .heads = 4,
                           .kv_heads = 2,
                           .width = 32,
                           .gated = true,
                           .bias = false,
                           .norm = nn::NormKind::rms,
                           .qk_norm = true,
                           .rotary = true,
                           .tied = false,
                           .activation = Activation::silu});
  expect_same("Gpt like a Llama", like);
  manual_seed(3);
  nn::Llama llama(
      {.vocab_size = vocabulary, .context = 24, .layers = 2, .heads = 4, .kv_heads = 2, .width = 32},
      test_device());
  expect_same("Llama", llama);
}

// Far more tokens than the windows, whose layers forget what no token sees any longer; prompts longer and shorter than
// what they keep.
TEST(Generate, GivesTheSameTokensBeyondAWindowWithAndWithoutACache) {
  std::vector<Ids> some = prompts();
  Ids whole(40);
  for (size_t i = 0; i < whole.size(); ++i) whole[i] = int32_t(i * i % size_t(vocabulary));
  some.push_back(whole);
  some.push_back(Ids(whole.begin(), whole.begin() + 11));
  const auto expect_same = [&](const std::string& name, auto& model) {
    enlarge_weights(model);
    const auto tokens_of = [&](const std::vector<Ids>& of, bool cache) {
      return generate(model, of, {.tokens = at_most(60, 20), .sampling = greedy, .cache = cache});
    };
    const std::vector<Ids> want = tokens_of(some, false);
    EXPECT_EQ(tokens_of(some, true), want) << name;
    for (size_t i = 0; i < some.size(); ++i)
      EXPECT_EQ(tokens_of({some[i]}, true)[0], want[i]) << name << ' ' << i;
    for (size_t i = 1; i < some.size(); ++i)
      EXPECT_NE(want[i], want[0]) << "what came before is to change what comes";
  };
  nn::Gpt gpt = model_of({.context = 80, .layers = 2, .heads = 2, .width = 32, .window = 5});
  expect_same("Gpt", gpt);
  if (!test_device().is_cpu()) return;
  manual_seed(3);
  nn::Llama llama({.vocab_size = vocabulary,
                   .context = 128,
                   .layers = 3,
                   .heads = 4,
                   .kv_heads = 2,
                   .width = 32,
                   .window = 3},
                  test_device());
  expect_same("Llama", llama);
}

TEST(Generate, CachedLogitsAreThoseOfTheWholeSequence) {
  NoGrad unrecorded;
  nn::Gpt model = model_of(shapes()[2]);
  model.eval();
  Generator generator(4);
  std::vector<int64_t> ids;
  for (int i = 0; i < 2 * 20; ++i) ids.push_back(int64_t(generator.next().offset * 2654435761u % vocabulary));
  const Tensor tokens = Tensor::from(ids, {2, 20}, test_device());
  const Tensor whole = model(tokens);
  nn::KvCache cache(3, 2, 32);
  int64_t seen = 0;
  for (int64_t count : {7, 1, 1, 5, 6}) {
    const Tensor logits = model.next_logits(slice(tokens, 1, seen, seen + count), cache);
    seen += count;
    EXPECT_TRUE(is_close(logits, select(whole, 1, seen - 1), 1e-5)) << seen;
  }
  EXPECT_EQ(cache.length(0), 20);
}

// Rows of one length that stand together are one call, and each gets the bits that it gets alone; with and without a window.
TEST(Generate, ASequencesAttentionDoesNotDependOnThoseBesideIt) {
  NoGrad unrecorded;
  manual_seed(5);
  const std::vector<int64_t> lengths = {3, 70, 70, 3, 3, 0};
  const auto rows = int64_t(lengths.size());
  for (DType dtype : {DType::f32, DType::bf16})
    for (int64_t window : {0, 5}) {
      auto heads = [&](int64_t batch, int64_t count, int64_t tokens) {
        return randn({batch, count, tokens, 16}).to(dtype).to(test_device());
      };
      nn::KvCache together(1, rows, 80);
      std::vector<nn::KvCache> alone;
      for (int64_t row = 0; row < rows; ++row) {
        alone.emplace_back(1, 1, 80);
        const int64_t length = lengths[size_t(row)];
        if (length == 0) continue;
        const Tensor q = heads(1, 4, length), k = heads(1, 2, length), v = heads(1, 2, length);
        together.attend(0, row, q, k, v, window), together.advance(row, 1, length);
        alone.back().attend(0, 0, q, k, v, window), alone.back().advance(0, 1, length);
      }
      for (int64_t tokens : {1, 3}) {
        const Tensor q = heads(rows, 4, tokens), k = heads(rows, 2, tokens), v = heads(rows, 2, tokens);
        const Tensor all = together.attend(0, 0, q, k, v, window);
        together.advance(0, rows, tokens);
        for (int64_t row = 0; row < rows; ++row) {
          auto of = [&](const Tensor& x) { return slice(x, 0, row, row + 1); };
          EXPECT_TRUE(same_bits(of(all), alone[size_t(row)].attend(0, 0, of(q), of(k), of(v), window)))
              << row << " window " << window << ' ' << dtype;
          alone[size_t(row)].advance(0, 1, tokens);
        }
      }
    }
}

// Keys, values and products are rounded to 8 bits.
TEST(Generate, CachedLogitsUnderAutocastAreThoseOfTheWholeSequence) {
  nn::Gpt model = model_of(shapes()[1]);
  const nn::EvalScope eval(model);
  const amp::Autocast scope(test_device(), DType::bf16);
  const Tensor tokens = Tensor::from<int64_t>({5, 4, 3, 60, 0, 59, 1, 2, 7, 7}, {1, 10}, test_device());
  const Tensor whole = model(tokens).to(DType::f32);
  nn::KvCache cache(2, 1, 24);
  model.next_logits(slice(tokens, 1, 0, 6), cache);
  for (int64_t i = 6; i < 10; ++i)
    EXPECT_TRUE(is_close(model.next_logits(slice(tokens, 1, i, i + 1), cache).to(DType::f32),
                         select(whole, 1, i), 2e-2))
        << i;
}

// The same of weights of 16 bits, with the norms in f32 under a scope, as `--precision bf16-pure` has them, and of all in 16 bits.
TEST(Generate, CachedLogitsOfWeightsOf16BitsAreThoseOfTheWholeSequence) {
  const Tensor tokens = Tensor::from<int64_t>({5, 4, 3, 60, 0, 59, 1, 2, 7, 7}, {1, 10}, test_device());
  for (DType dtype : {DType::bf16, DType::f16})
    for (const bool all : {false, true}) {
      nn::Gpt model = model_of(shapes()[1]);
      const nn::EvalScope eval(model);
      std::optional<amp::Autocast> scope;
      if (all)
        model.to(dtype);
      else
        nn::to_precision(model, dtype),
            scope.emplace(test_device(), dtype, amp::AutocastOptions{.norms = amp::Norms::as_given});
      const Tensor whole = model(tokens).to(DType::f32);
      nn::KvCache cache(2, 1, 24);
      model.next_logits(slice(tokens, 1, 0, 6), cache);
      for (int64_t i = 6; i < 10; ++i)
        EXPECT_TRUE(is_close(model.next_logits(slice(tokens, 1, i, i + 1), cache).to(DType::f32),
                             select(whole, 1, i), 2e-2))
            << i << ' ' << dtype << ' ' << all;
      GenerateOptions options{.tokens = 12, .sampling = greedy};
      EXPECT_EQ(generate(model, prompts(), options).size(), prompts().size());
    }
}

// Ids are written as numbers between commas: "5,14,": a text may end within the text of a token, and begin in that of another.
TEST(Generate, StopsAtATextWhicheverTokensItIsOf) {
  nn::Gpt model = model_of(shapes()[1]);
  const Decode decode = [](std::span<const int32_t> ids) {
    std::string text;
    for (int32_t id : ids) text += std::to_string(id) + ',';
    return text;
  };
  const std::vector<Ids> prompts = {{5, 4, 3}, {7}};
  const auto whole = generate(model, prompts, {.tokens = 12, .sampling = greedy});
  const std::string end_of_first =
      std::to_string(whole[0][4]) + ',' + std::to_string(whole[0][5]).substr(0, 1);
  const auto added = generate(
      model, prompts,
      {.tokens = 12, .sampling = greedy, .stop_text = {"no such text", end_of_first}, .decode = decode});
  for (size_t row = 0; row < prompts.size(); ++row) {
    size_t want = whole[row].size();
    for (size_t end = 1; end <= whole[row].size(); ++end)
      if (decode(std::span(whole[row]).first(end)).find(end_of_first) != std::string::npos) {
        want = end;
        break;
      }
    EXPECT_EQ(added[row], Ids(whole[row].begin(), whole[row].begin() + std::ptrdiff_t(want))) << row;
  }
  EXPECT_LT(added[0].size(), whole[0].size());
  expect_error([&] { generate(model, prompts, {.tokens = 1, .stop_text = {"x"}}); },
               {"generate: stop_text needs decode"});
}

TEST(Generate, StopsWhereItIsTold) {
  nn::Gpt model = model_of(shapes()[1]);
  const Ids whole = generate(model, std::vector<Ids>{{5, 4, 3}}, {.tokens = 20, .sampling = greedy})[0];
  const auto until = [&](const Ids& stop) {
    for (size_t end = stop.size(); end <= whole.size(); ++end)
      if (std::equal(stop.begin(), stop.end(), whole.begin() + std::ptrdiff_t(end - stop.size()))) return end;
    return whole.size();
  };
  const Ids pair = {whole[6], whole[7]}, none = {whole[0], int32_t(vocabulary)};
  for (const Ids& stop : {Ids{whole[3]}, pair, none}) {
    const auto added =
        generate(model, std::vector<Ids>{{5, 4, 3}}, {.tokens = 20, .sampling = greedy, .stop = {stop}});
    EXPECT_EQ(added[0], Ids(whole.begin(), whole.begin() + std::ptrdiff_t(until(stop))));
  }
  int64_t calls = 0;
  const auto two = generate(model, std::vector<Ids>{{5, 4, 3}, {1}},
                            {.tokens = 20, .sampling = greedy, .on_token = [&](int64_t prompt, int32_t) {
                               ++calls;
                               return prompt == 1 || calls < 4;
                             }});
  EXPECT_LT(two[0].size(), 4u);
  EXPECT_EQ(two[1].size(), 20u);
  EXPECT_EQ(calls, int64_t(two[0].size() + two[1].size()));
}

TEST(Generate, ChoosesNoRowThatPadsTheTable) {
  nn::Gpt model = model_of(shapes()[1]);
  const auto all = generate(model, prompts(), {.tokens = 40}),
             some = generate(model, prompts(), {.tokens = 40, .vocab_size = 20});
  auto largest = [](const std::vector<Ids>& added) {
    int32_t id = 0;
    for (const Ids& ids : added) id = std::max(id, std::ranges::max(ids));
    return id;
  };
  EXPECT_GE(largest(all), 20);
  EXPECT_LT(largest(some), 20);
  EXPECT_EQ(generate(model, prompts(), {.tokens = 40, .vocab_size = 1000}), all);
}

// The cache holds what the sequences take, not what the context would.
TEST(Generate, TakesNoMemoryForPositionsThatNoSequenceHas) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "counts the memory of the CPU";
  nn::Llama model({.vocab_size = vocabulary, .context = 1 << 20, .layers = 2, .heads = 2, .width = 16});
  allocator(test_device()).reset_peaks();
  const size_t before = allocator(test_device()).stats().allocated;
  const auto added = generate(model, prompts(), {.tokens = 5});
  EXPECT_EQ(added.front().size(), 5u);
  EXPECT_LT(allocator(test_device()).stats().peak_allocated - before, size_t(1) << 20);
}

TEST(Generate, LeavesTheModelAsItWas) {
  nn::Gpt model = model_of({.context = 16, .layers = 1, .heads = 2, .width = 16, .dropout = 0.5});
  model.train();
  const auto first = generate(model, prompts(), {.tokens = 6, .seed = 2});
  EXPECT_TRUE(model.training());
  EXPECT_EQ(generate(model, prompts(), {.tokens = 6, .seed = 2}), first);
  for (const Tensor& parameter : model.parameters()) EXPECT_FALSE(parameter.grad().defined());
}

TEST(Generate, NamesWhatIsWrong) {
  nn::Gpt model = model_of(shapes()[0]);
  expect_error([&] { generate(model, std::vector<Ids>{{1}, {}}); }, "generate: prompt 1 is empty");
  expect_error([&] { generate(model, prompts(), {.tokens = -1}); },
               "generate: tokens must be at least 0, got -1");
  expect_error([&] { generate(model, prompts(), {.sampling = {.min_p = 2}}); },
               "min-p must be in [0, 1], got 2");
  expect_error([&] { nn::KvCache(0, 1, 1); },
               "KvCache: needs at least one layer, row and token, got 0, 1 and 1");
  nn::KvCache cache(1, 1, 16);
  const Tensor tokens = Tensor::zeros({1, 9}, DType::i64, test_device());
  expect_error([&] { model.next_logits(tokens, cache); }, "TransformerBlock: step needs eval mode");
  model.eval();
  expect_error([&] { model.next_logits(tokens, cache); }, "use it under NoGrad");
  NoGrad unrecorded;
  model.next_logits(tokens, cache);
  expect_error([&] { model.next_logits(tokens, cache); }, "Gpt: sequence of 18 tokens, the context holds 16");
}

}  // namespace
}  // namespace reprise
