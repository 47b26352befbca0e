// Generation by a GPT-2 of 124M parameters, timed: the worker that benchmarks/bench_generate.py drives against transformers.
//
//   generate_bench --model PROMPT_TOKENS [--bf16]
//
// --bf16: weights and cache are bf16. Warms up, then for each line "run" on standard input continues a prompt of so many
// tokens by 32, always the most likely one, and prints one JSON object: the seconds of the prompt and those per token.
// Ends with the input.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "reprise/benchmarks/worker.h"
#include "reprise/nn/generation/generate.h"

namespace rp = reprise;

namespace {

constexpr int64_t new_tokens = 32;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

int main(int argc, char** argv) {
  int64_t prompt_tokens = 16;
  bool bf16 = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--model" && i + 1 < argc) {
      prompt_tokens = std::atoll(argv[++i]);
    } else if (option == "--bf16") {
      bf16 = true;
    } else {
      std::puts("generate_bench [--model PROMPT_TOKENS] [--bf16]");
      return option == "--help" ? 0 : 2;
    }
  }
  rp::manual_seed(1);
  rp::nn::Gpt model({});
  if (bf16) model.to(rp::DType::bf16);
  std::vector<std::vector<int32_t>> prompts(1);
  for (int64_t i = 0; i < prompt_tokens; ++i) prompts[0].push_back(int32_t(i * 7919 % 50257));
  auto run = [&] {
    const auto begin = std::chrono::steady_clock::now();
    double first = 0;
    rp::generate(model, prompts,
                 {.tokens = new_tokens, .sampling = {.temperature = 0}, .on_token = [&](int64_t, int32_t) {
                    if (first == 0) first = seconds_since(begin);
                    return true;
                  }});
    const double rest = (seconds_since(begin) - first) / double(new_tokens - 1);
    std::printf(
        "{\"seconds_per_step\": %.6f, \"tokens_per_second\": %.3f, \"prompt_seconds\": %.6f, "
        "\"peak_rss_bytes\": %zu}\n",
        rest, 1 / rest, first, rp::bench::peak_rss_bytes());
    std::fflush(stdout);
  };
  for (std::string line; std::getline(std::cin, line);) run();
}
