// Sampling and evaluation: both in eval mode and outside any graph.
#include "reprise/apps/gpt/generate.h"

#include <algorithm>
#include <optional>

#include "reprise/apps/common/training_run.h"
#include "reprise/autograd/ops.h"
#include "reprise/io/text/token_batches.h"
#include "reprise/nn/eval_scope.h"
#include "reprise/nn/generation/generate.h"
#include "reprise/nn/generation/written_text.h"
#include "reprise/train/interrupt.h"
#include "reprise/train/ranks/dealt_batches.h"

namespace reprise::apps::gpt {
namespace {

std::string as_text(const io::Tokenizer* tokenizer, std::span<const int32_t> ids) {
  if (tokenizer) return tokenizer->decode(ids);
  std::string text;
  for (int32_t id : ids) text += std::to_string(id) + ' ';
  return text;
}

}  // namespace

std::vector<int32_t> prompt_ids(const io::Tokenizer& tokenizer, const std::string& prompt) {
  const io::TextPart source[] = {{"--prompt"}};
  std::vector<int32_t> ids = tokenizer.encode(prompt, {source});
  if (tokenizer.first_token()) ids.insert(ids.begin(), *tokenizer.first_token());
  return ids;
}

void generate(const LanguageModel& model, const io::Tokenizer* tokenizer, const GenerateOptions& options,
              int64_t number, const std::function<void(std::string_view)>& show) {
  check(tokenizer || options.stop.empty(), "--stop: there is no tokenizer, the text is token ids");
  const std::optional<int32_t> end_of_text = tokenizer ? tokenizer->end_of_text() : std::nullopt;
  const std::vector<int32_t> ends =
      tokenizer && !options.ignore_eos ? tokenizer->end_tokens() : std::vector<int32_t>();
  std::vector<int32_t> ids;
  if (tokenizer) ids = prompt_ids(*tokenizer, options.prompt);
  const bool begins_with_mark = ids.empty() ? end_of_text.has_value() : tokenizer->first_token().has_value();
  if (ids.empty()) ids.push_back(end_of_text.value_or(0));
  const auto prompt = std::span(ids).subspan(begins_with_mark ? 1 : 0);
  train::stop_if_interrupted();
  show(as_text(tokenizer, prompt));
  WrittenTokens text([&](std::span<const int32_t> some) { return as_text(tokenizer, some); }, prompt,
                     options.stop, show);
  model.generate(std::span(&ids, 1), {.tokens = options.tokens,
                                      .sampling = options.sampling,
                                      .seed = uint64_t(options.seed) + uint64_t(number),
                                      .vocab_size = tokenizer ? tokenizer->vocab_size() : 0,
                                      .on_token = [&](int64_t, int32_t token) {
                                        train::stop_if_interrupted();
                                        return std::ranges::find(ends, token) == ends.end() &&
                                               text.add(token);
                                      }});
  text.finish();
}

std::string generate(const LanguageModel& model, const io::Tokenizer* tokenizer,
                     const GenerateOptions& options, int64_t number) {
  std::string text;
  generate(model, tokenizer, options, number, [&](std::string_view piece) { text += piece; });
  return text;
}

double evaluate(distributed::DataParallel& parallel, const LanguageModel& model, const io::TokenDataset& data,
                const Evaluation& o) {
  nn::EvalScope scope(model.module());
  io::SequentialWindows windows(data, o.context > 0 ? o.context : model.context(), o.batch);
  int64_t all = windows.batches(), used = o.batches > 0 ? std::min(o.batches, all) : all;
  const Device device = model.device();
  const std::vector<double> sums = train::sums_of_batches(parallel, used, 2, [&](int64_t i) {
    io::TokenBatch part = windows.batch(i * all / used);
    Tensor loss = cross_entropy(model(part.tokens.to(device)), part.targets.to(device));
    const auto tokens = double(part.targets.numel());
    return std::vector<double>{loss.item() * tokens, tokens};
  });
  return sums[0] / sums[1];
}

}  // namespace reprise::apps::gpt
