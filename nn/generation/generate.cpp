// Generation: prompts are read one by one, since they differ in length; then each step computes one token of every
// sequence that goes on.
#include "reprise/nn/generation/generate.h"

#include <algorithm>
#include <optional>

#include "reprise/nn/eval_scope.h"

namespace reprise {
namespace {

struct Sequence {
  std::vector<int32_t> ids;
  size_t prompt_tokens;
  size_t window = 0;  // the first token that the model sees
  Generator generator;
  bool ended = false;

  std::span<const int32_t> added() const { return std::span(ids).subspan(prompt_tokens); }
};

template <class Model>
class Generation {
 public:
  Generation(Model& model, std::span<const std::vector<int32_t>> prompts, const GenerateOptions& options)
      : model_(model), options_(options), device_(model.parameters().front().device()) {
    for (size_t i = 0; i < prompts.size(); ++i) {
      check(!prompts[i].empty(), "generate: prompt ", i, " is empty");
      sequences_.push_back(
          {.ids = prompts[i], .prompt_tokens = prompts[i].size(), .generator = Generator(options.seed + i)});
      if (!options.stop_text.empty())
        texts_.emplace_back(options.decode, prompts[i], options.stop_text, [](std::string_view) {});
    }
    if (options.cache && !prompts.empty() && !has_changed_blocks())
      cache_.emplace(model.options().layers, int64_t(prompts.size()), capacity());
  }

  std::vector<std::vector<int32_t>> run() {
    for (int64_t i = 0; i < options_.tokens; ++i) step();
    std::vector<std::vector<int32_t>> results;
    for (const Sequence& sequence : sequences_)
      results.emplace_back(sequence.added().begin(), sequence.added().end());
    return results;
  }

 private:
  int64_t context() const { return model_.options().context; }

  // Positions that the longest sequence takes.
  int64_t capacity() const {
    size_t longest = 0;
    for (const Sequence& sequence : sequences_) longest = std::max(longest, sequence.prompt_tokens);
    return options_.tokens < context() ? std::min(context(), int64_t(longest) + options_.tokens) : context();
  }

  // Hooks are part of a block's call, which a step by a cache is not.
  bool has_changed_blocks() const {
    for (const auto& [stack, blocks] : model_.named_children())
      for (const auto& [number, block] : blocks->named_children())
        if (const auto* layer = dynamic_cast<const nn::Layer*>(block); layer && layer->is_changed())
          return true;
    return false;
  }

  /// One token more of each sequence that has not ended. Neighbours whose next token alone is to be read are read together.
  void step() {
    const auto count = int64_t(sequences_.size());
    for (int64_t row = 0; row < count; ++row) move_window(row);
    for (int64_t row = 0, end; row < count; row = end) {
      end = row + 1;
      if (sequences_[size_t(row)].ended) continue;
      while (end < count && reads_one(row) && reads_one(end)) ++end;
      const std::vector<float> logits = logits_of(row, end).template to_vector<float>();
      const size_t vocabulary = logits.size() / size_t(end - row);
      for (int64_t i = row; i < end; ++i)
        choose(i, std::span(logits).subspan(size_t(i - row) * vocabulary, vocabulary));
    }
  }

  void move_window(int64_t row) {
    Sequence& sequence = sequences_[size_t(row)];
    if (sequence.ended || sequence.ids.size() - sequence.window <= size_t(context())) return;
    const auto half = size_t(std::max<int64_t>(1, context() / 2));
    sequence.window =
        sequence.ids.size() - (sequence.window == 0 && sequence.added().empty() ? size_t(context()) : half);
    if (cache_) cache_->clear(row);
  }

  /// Tokens that the model has to read before it can give the next one.
  int64_t unread(int64_t row) const {
    const Sequence& sequence = sequences_[size_t(row)];
    return int64_t(sequence.ids.size() - sequence.window) - (cache_ ? cache_->length(row) : 0);
  }
  bool reads_one(int64_t row) const { return cache_ && !sequences_[size_t(row)].ended && unread(row) == 1; }

  Tensor logits_of(int64_t row, int64_t end) {
    const int64_t count = unread(row);
    std::vector<int64_t> tokens;
    for (int64_t i = row; i < end; ++i) {
      const std::vector<int32_t>& ids = sequences_[size_t(i)].ids;
      tokens.insert(tokens.end(), ids.end() - count, ids.end());
    }
    const Tensor input = Tensor::from(tokens, {end - row, count}, device_);
    return (cache_ ? model_.next_logits(input, *cache_, row) : model_.next_logits(input)).to(DType::f32);
  }

  void choose(int64_t row, std::span<const float> logits) {
    Sequence& sequence = sequences_[size_t(row)];
    if (options_.vocab_size > 0) logits = logits.first(std::min(logits.size(), size_t(options_.vocab_size)));
    const int32_t token = sample_token(logits, options_.sampling, sequence.generator, sequence.ids);
    sequence.ids.push_back(token);
    auto ends_with = [&](const std::vector<int32_t>& stop) {
      const auto added = sequence.added();
      return !stop.empty() && added.size() >= stop.size() &&
             std::equal(stop.rbegin(), stop.rend(), added.rbegin());
    };
    sequence.ended = std::ranges::any_of(options_.stop, ends_with);
    if (!texts_.empty() && !texts_[size_t(row)].add(token)) sequence.ended = true;
    if (options_.on_token && !options_.on_token(row, token)) sequence.ended = true;
  }

  Model& model_;
  const GenerateOptions& options_;
  Device device_;
  std::vector<Sequence> sequences_;
  std::vector<WrittenTokens> texts_;  // of the sequences; none where no text ends them
  std::optional<nn::KvCache> cache_;
};

template <class Model>
std::vector<std::vector<int32_t>> generate_by(Model& model, std::span<const std::vector<int32_t>> prompts,
                                              const GenerateOptions& options) {
  check(options.tokens >= 0, "generate: tokens must be at least 0, got ", options.tokens);
  check(options.stop_text.empty() || options.decode, "generate: stop_text needs decode, the text of ids");
  check_sampling(options.sampling);
  const nn::EvalScope eval(model);
  return Generation<Model>(model, prompts, options).run();
}

}  // namespace

std::vector<std::vector<int32_t>> generate(nn::Gpt& model, std::span<const std::vector<int32_t>> prompts,
                                           const GenerateOptions& options) {
  return generate_by(model, prompts, options);
}
std::vector<std::vector<int32_t>> generate(nn::Llama& model, std::span<const std::vector<int32_t>> prompts,
                                           const GenerateOptions& options) {
  return generate_by(model, prompts, options);
}

}  // namespace reprise
