// generate: text from a language model, token by token.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "reprise/nn/generation/sampling.h"
#include "reprise/nn/generation/written_text.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/models/llama.h"

namespace reprise {

/// How `generate` goes on, and when it ends.
struct GenerateOptions {
  int64_t tokens = 100;        ///< at most so many for each prompt
  SamplingOptions sampling{};  ///< how each token is chosen from its logits
  uint64_t seed = 0;           ///< prompt i draws from Generator(seed + i), whatever stands beside it
  /// Ids from here on are never chosen: rows that pad a table of tokens; 0: all may be.
  int64_t vocab_size = 0;
  /// A sequence ends behind any of these.
  std::vector<std::vector<int32_t>> stop{};
  /// A sequence ends behind the token with which its new text has any of these, whole tokens or not.
  std::vector<std::string> stop_text{};
  /// What `stop_text` is looked for in: `[&](auto ids) { return tokenizer.decode(ids); }`.
  Decode decode{};
  /// Called with each token as it is chosen, and the number of its prompt; false ends the sequence.
  std::function<bool(int64_t prompt, int32_t token)> on_token{};
  /// Keep keys and values, so that a token costs one pass over the weights; the tokens are the same. Not where a block had
  /// hooks, which its call alone runs.
  bool cache = true;
};

/// @{
/// Continues each prompt: the new tokens, without the prompt. The model sees the last tokens that its context holds: where
/// it is full, those before its last half are dropped. In eval mode and outside of any graph, whatever the model is in. Error
/// on an empty prompt, on options out of range, and on `stop_text` without `decode`.
std::vector<std::vector<int32_t>> generate(nn::Gpt& model, std::span<const std::vector<int32_t>> prompts,
                                           const GenerateOptions& options = {});

std::vector<std::vector<int32_t>> generate(nn::Llama& model, std::span<const std::vector<int32_t>> prompts,
                                           const GenerateOptions& options = {});
/// @}

}  // namespace reprise
