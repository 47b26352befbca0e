// Lower bounds in doubles, which do not overflow.
#include "reprise/apps/common/models/model_size.h"

#include <unistd.h>

#include "reprise/core/bytes.h"
#include "reprise/core/error.h"

namespace reprise::apps {
namespace {

constexpr double largest_gpu = 1e12;  // bytes

constexpr int64_t most_layers = 10000;  // building more takes longer than training them would

double memory_of(Device device) {
  if (!device.is_cpu()) return largest_gpu;
  return double(::sysconf(_SC_PHYS_PAGES)) * double(::sysconf(_SC_PAGESIZE));
}

// Parameters, without biases and norms: attention has 4 width^2, the MLP 8.
double size_of(const nn::GptOptions& o) {
  const double width = double(o.width);
  return (double(o.vocab_size) + double(o.context) + 12 * double(o.layers) * width) * width;
}

double size_of(const nn::LlamaOptions& o) {
  const double width = double(o.width), shared = o.kv_heads > 0 ? double(o.kv_heads) / double(o.heads) : 1;
  const double of_heads = double(o.heads * head_dim_of(o));
  const double hidden = o.hidden > 0 ? double(o.hidden) : 8 * width / 3;
  const double block = 2 * of_heads + 2 * shared * of_heads + 3 * hidden;
  return ((o.tied ? 1 : 2) * double(o.vocab_size) + double(o.layers) * block) * width;
}

template <class Options>
void check_sizes(const Options& o, int64_t rows, int64_t length, Device device, const LeastBytes& bytes) {
  check(o.layers <= most_layers, "--layers ", o.layers, ": at most ", most_layers, " make sense");
  const double memory = memory_of(device), model_bytes = bytes.parameter * size_of(o);
  check(model_bytes <= memory, "--layers ", o.layers, ", --width ", o.width, ", --context ", o.context,
        " and a vocabulary of ", o.vocab_size, ": weights, gradients and moments take ",
        format_bytes(model_bytes), ", the machine has ", format_bytes(memory));
  const double logit_bytes = bytes.logit * double(rows) * double(length) * double(o.vocab_size);
  check(logit_bytes <= memory, "--batch ", rows, " of ", length, " tokens: the logits alone take ",
        format_bytes(logit_bytes), ", the machine has ", format_bytes(memory));
}

}  // namespace

void check_fits(const LanguageModelOptions& model, int64_t rows, int64_t length, Device device,
                const LeastBytes& bytes) {
  std::visit([&](const auto& o) { check_sizes(o, rows, length, device, bytes); }, model);
}

}  // namespace reprise::apps
