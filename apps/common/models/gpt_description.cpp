#include "reprise/apps/common/models/gpt_description.h"

namespace reprise::apps {

Description describe(const nn::GptOptions& o) {
  return {{"vocab_size", std::to_string(o.vocab_size)},
          {"context", std::to_string(o.context)},
          {"layers", std::to_string(o.layers)},
          {"heads", std::to_string(o.heads)},
          {"width", std::to_string(o.width)},
          {"dropout", shortest(o.dropout)},
          {"bias", o.bias ? "1" : "0"}};
}

nn::GptOptions gpt_options_from(const Description& description) {
  auto whole = [&](const char* key) { return number_in_entry<int64_t>(description, key); };
  return {.vocab_size = whole("vocab_size"),
          .context = whole("context"),
          .layers = whole("layers"),
          .heads = whole("heads"),
          .width = whole("width"),
          .dropout = number_in_entry<double>(description, "dropout"),
          .bias = whole("bias") != 0};
}

}  // namespace reprise::apps
