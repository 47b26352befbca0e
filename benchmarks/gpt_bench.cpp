// One GPT training step, timed: the worker that benchmarks/bench_torch.py drives against PyTorch.
//
//   gpt_bench --model gpt_small [--device cuda] [--bf16 | --autocast | --autocast-f16] [--steps N] ...
//
// --bf16: weights, activations and gradients are bf16; AdamW keeps master weights and moments in f32. Warms
// up, then for each line "run" on standard input runs N steps and prints one JSON object. Ends with the
// input.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/engine.h"
#include "reprise/benchmarks/gpt_cases.h"
#include "reprise/benchmarks/worker.h"
#include "reprise/kernels/attention/backend.h"
#include "reprise/kernels/gemm/matmul_precision.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/groups.h"

namespace rp = reprise;

namespace {

/// False if there is no such backend in this build.
bool choose_attention(const std::string& name) {
  using rp::kernels::AttentionBackend;
  for (const AttentionBackend backend : rp::kernels::attention_backends)
    if (name == rp::kernels::name_of(backend) && rp::kernels::has_attention_backend(backend)) {
      rp::kernels::set_attention_backend(backend);
      return true;
    }
  std::fprintf(stderr, "gpt_bench: this build has no attention '%s'\n", name.c_str());
  return false;
}

/// What attention ran on, forward and backward: a backend leaves to others what it does not take.
std::string attention_used(rp::Device device) {
  using rp::kernels::AttentionPass;
  if (device.is_cpu()) return "cpu";
  const auto forward = rp::kernels::attention_backend_used(AttentionPass::forward);
  const auto backward = rp::kernels::attention_backend_used(AttentionPass::backward);
  return rp::detail::join(rp::kernels::name_of(forward), "/", rp::kernels::name_of(backward));
}

// Bytes of tensors in a step, above what is there between steps: at most, and between forward and backward.
struct StepBytes {
  size_t peak = 0, held = 0;
};

void usage() {
  std::puts(
      "gpt_bench --model NAME [--device cpu|cuda] [--bf16 | --autocast | --autocast-f16]\n"
      "  [--high] [--attention auto|reprise|sm90|cudnn] [--steps N] [--recompute STRATEGY]\n"
      "Reads lines \"run\" and prints one JSON object for each.");
}

struct Options {
  std::string model = "gpt_small";
  rp::Device device;
  int64_t steps = 0;
  bool bf16 = false;
  std::optional<rp::DType> autocast;
  rp::RecomputeStrategy recompute;
};

// Leaves where an option is wrong, or help is asked for.
Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    std::string option = argv[i];
    bool has_value = i + 1 < argc;
    if (option == "--model" && has_value) {
      o.model = argv[++i];
    } else if (option == "--device" && has_value) {
      o.device = rp::Device::parse(argv[++i]);
    } else if (option == "--high") {
      rp::set_matmul_precision(rp::MatmulPrecision::high);
    } else if (option == "--attention" && has_value) {
      if (!choose_attention(argv[++i])) std::exit(2);
    } else if (option == "--bf16") {
      o.bf16 = true;
    } else if (option == "--autocast") {
      o.autocast = rp::DType::bf16;
    } else if (option == "--autocast-f16") {
      o.autocast = rp::DType::f16;
    } else if (option == "--recompute" && has_value) {
      o.recompute = rp::parse_strategy(argv[++i]);
    } else if (option == "--steps" && has_value) {
      o.steps = std::atoll(argv[++i]);
    } else {
      usage();
      std::exit(option == "--help" ? 0 : 2);
    }
  }
  if (o.bf16 && o.autocast) {
    std::fprintf(stderr, "gpt_bench: --bf16 and --autocast are two ways; take one\n");
    std::exit(2);
  }
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  Options options = parse(argc, argv);
  rp::Device device = options.device;
  const rp::bench::GptCase& chosen = rp::bench::find_case(options.model);
  int64_t steps = options.steps > 0 ? options.steps : chosen.steps;
  rp::manual_seed(1);
  rp::nn::Gpt model(chosen.model, device);
  model.h.set_recompute(options.recompute);
  if (options.bf16) model.to(rp::DType::bf16);
  rp::optim::AdamW optimizer(rp::optim::decay_matrices(model, 1e-3, 0.1), {.beta1 = 0.9, .beta2 = 0.95});
  rp::Tensor tokens = rp::bench::random_tokens(chosen, chosen.batch, device),
             targets = rp::bench::random_tokens(chosen, chosen.batch, device);
  rp::Allocator& memory = rp::allocator(device);
  StepBytes bytes;
  auto step = [&] {
    size_t before = memory.stats().allocated;
    memory.reset_peaks();
    rp::Tensor loss;
    {
      rp::amp::Autocast scope(device, options.autocast.value_or(rp::DType::bf16),
                              {.enabled = options.autocast.has_value()});
      loss = rp::cross_entropy(model(tokens), targets);
    }
    bytes.held = memory.stats().allocated - before;
    loss.backward();
    bytes.peak = memory.stats().peak_allocated - before;
    optimizer.step();
    optimizer.zero_grad();
    return loss.item();
  };
  for (int i = 0; i < 2; ++i) step();
  for (std::string line; std::getline(std::cin, line);) {
    auto begin = std::chrono::steady_clock::now();
    double loss = 0;
    for (int64_t i = 0; i < steps; ++i) loss = step();
    std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    double seconds = taken.count() / double(steps);
    std::printf(
        "{\"seconds_per_step\": %.6f, \"tokens_per_second\": %.1f, \"peak_rss_bytes\": %zu, "
        "\"peak_device_bytes\": %zu, \"step_peak_bytes\": %zu, \"held_bytes\": %zu, \"loss\": %.6f, "
        "\"attention\": \"%s\"}\n",
        seconds, double(chosen.batch * chosen.length) / seconds, rp::bench::peak_rss_bytes(),
        memory.stats().peak_reserved, bytes.peak, bytes.held, loss, attention_used(device).c_str());
    std::fflush(stdout);
  }
}
