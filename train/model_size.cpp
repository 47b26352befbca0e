// Lower bounds in doubles, which do not overflow.
#include "reprise/train/model_size.h"

#include <unistd.h>

#include "reprise/core/error.h"
#include "reprise/train/progress.h"

namespace reprise::train {
namespace {

constexpr double largest_gpu = 1e12;  // bytes

constexpr int64_t most_layers = 10000;  // building more takes longer than training them would

double memory_of(Device device) {
  if (!device.is_cpu()) return largest_gpu;
  return double(::sysconf(_SC_PHYS_PAGES)) * double(::sysconf(_SC_PAGESIZE));
}

}  // namespace

void check_fits(const nn::GptOptions& o, int64_t rows, int64_t length, Device device,
                const LeastBytes& bytes) {
  check(o.layers <= most_layers, "--layers ", o.layers, ": at most ", most_layers, " make sense");
  double width = double(o.width), memory = memory_of(device);
  // Attention has 4 width^2, the MLP 8; each weight has a gradient and two moments beside it.
  double weights = (double(o.vocab_size) + double(o.context) + 12 * double(o.layers) * width) * width;
  double model_bytes = bytes.parameter * weights;
  check(model_bytes <= memory, "--layers ", o.layers, ", --width ", o.width, ", --context ", o.context,
        " and a vocabulary of ", o.vocab_size, ": weights, gradients and moments take ",
        format_bytes(model_bytes), ", the machine has ", format_bytes(memory));
  double logit_bytes = bytes.logit * double(rows) * double(length) * double(o.vocab_size);
  check(logit_bytes <= memory, "--batch ", rows, " of ", length, " tokens: the logits alone take ",
        format_bytes(logit_bytes), ", the machine has ", format_bytes(memory));
}

}  // namespace reprise::train
