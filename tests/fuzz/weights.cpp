// llm.c's checkpoints, which come back as they were, and the index of several files of safetensors.
#include "reprise/io/weights.h"

#include "reprise/io/llm_c.h"
#include "reprise/tests/fuzz/fuzz.h"

using namespace reprise;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  std::string path = fuzz::write("x.bin", fuzz::text_of(data, bytes));
  std::string index = fuzz::write("x.safetensors.index.json", fuzz::text_of(data, bytes));
  const auto of_tensors = int64_t(16 * bytes);  // a tensor of 4 bytes takes some hundred with its name
  fuzz::reads(
      bytes, [&] { io::read_weights(index); }, of_tensors);
  io::Weights weights;
  if (!fuzz::reads(
          bytes, [&] { weights = io::read_weights(path); }, of_tensors) ||
      weights.heads == 0)
    return 0;
  std::string copy = fuzz::folder() + "/copy.bin";
  io::write_llm_c(copy, {.heads = weights.heads, .tensors = weights.tensors});
  io::LlmC again = io::read_llm_c(copy);
  fuzz::require(again.heads == weights.heads && again.tensors.size() == weights.tensors.size(),
                "something was lost");
  for (size_t i = 0; i < again.tensors.size(); ++i)
    fuzz::require(again.tensors[i].second.shape() == weights.tensors[i].second.shape(), "a shape changed");
  return 0;
}
