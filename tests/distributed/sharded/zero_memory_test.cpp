// Bytes that a rank has at each stage of ZeRO, by the allocator, beside the formulas of Rajbhandari et al. 2020.
// labels: concurrency
#include <gtest/gtest.h>

#include <cstdio>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/ops.h"
#include "reprise/distributed/sharded/sharded_adamw.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/nn/small_models.h"

namespace reprise::distributed {
namespace {

const nn::GptOptions gpt{.vocab_size = 256, .context = 64, .layers = 4, .heads = 4, .width = 128};

enum class Mode { f32, autocast, pure };
const char* name_of(Mode mode) {
  return mode == Mode::pure ? "pure" : mode == Mode::autocast ? "autocast" : "f32";
}

// Weights, gradients and the optimizer's state that there are now.
int64_t bytes_held() {
  const MemoryStats stats = allocator(Device::cpu()).stats();
  int64_t held = 0;
  for (const auto of : {MemoryCategory::parameters, MemoryCategory::gradients, MemoryCategory::optimizer})
    held += int64_t(stats.by_category[size_t(of)]);
  return held;
}

// Those of all ranks, which share an allocator, between a step and zero_grad.
int64_t bytes_of_all(ProcessGroup& group, int stage, Mode mode) {
  manual_seed(5);
  nn::Gpt model(gpt);
  if (mode == Mode::pure) nn::to_precision(model, DType::bf16);
  for (const Tensor& x : model.parameters()) x.set_grad_dtype(DType::f32);
  DataParallel parallel(model, group);
  ShardedAdamW optimizer(parallel, optim::decay_matrices(model, 1e-3, 0.1), {.stage = stage});
  int64_t held = 0;
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    for (const int64_t g : parallel.share(group.size())) {
      std::optional<amp::Autocast> autocast;
      if (mode == Mode::pure)
        autocast.emplace(Device::cpu(), DType::bf16, amp::AutocastOptions{.norms = amp::Norms::as_given});
      if (mode == Mode::autocast) autocast.emplace(Device::cpu(), DType::bf16);
      const Tensor ids = testing::random_tokens({1, 16}, gpt.vocab_size, uint64_t(g));
      const Tensor loss = cross_entropy(model(ids), ids);
      autocast.reset();
      parallel.backward(loss, g);
    }
    optimizer.step();
    group.barrier();
    held = bytes_held();
    group.barrier();
  }
  return held;
}

struct Case {
  Mode mode;
  int ranks, stage;
};

class ZeroMemory : public ::testing::TestWithParam<Case> {};

TEST_P(ZeroMemory, IsThatOfTheFormulas) {
  const auto [mode, ranks, stage] = GetParam();
  const bool is_pure = mode == Mode::pure;
  int64_t around = 0, all = 0;  // parameters that are in no block, which ranks have whole
  int64_t shadows = 0;          // 16-bit values of what products read, where the weight is there
  for (const auto& [name, x] : nn::Gpt(gpt).named_parameters()) {
    const bool is_around = !name.starts_with("h.");
    all += x.numel();
    if (is_around) around += x.numel();
    if (mode == Mode::autocast && x.rank() == 2 && name != "wpe.weight" && (stage < 3 || is_around))
      shadows += x.numel();
  }
  const double weights = is_pure ? 2 : 4, gradients = 4, state = is_pure ? 12 : 8, n = ranks;
  const double table = double(all) * (weights / (stage > 2 ? n : 1) + gradients / (stage > 1 ? n : 1) +
                                      state / (stage > 0 ? n : 1)) +
                       2 * double(shadows);
  const double more = stage > 2 ? double(around) * weights * (1 - 1 / n) : 0;
  const int64_t before = bytes_held();
  const std::vector<std::string> told = testing::run_ranks(
      testing::Ranks::threads, ranks,
      [&](ProcessGroup& group) { return std::to_string(bytes_of_all(group, stage, mode)); });
  const double measured = (std::stod(told[0]) - double(before)) / n;
  std::printf(
      "%s, %d ranks, stage %d: %.0f bytes per rank, table %.0f: %+.2f %%; with what is around blocks %+.2f "
      "%%\n",
      name_of(mode), ranks, stage, measured, table, 100 * (measured / table - 1),
      100 * (measured / (table + more) - 1));
  EXPECT_NEAR(measured, table, 0.05 * table);
  EXPECT_NEAR(measured, table + more, 0.01 * table);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Mode mode : {Mode::f32, Mode::autocast, Mode::pure})
    for (const int ranks : {2, 4})
      for (const int stage : {0, 1, 2, 3}) all.push_back({mode, ranks, stage});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cases, ZeroMemory, ::testing::ValuesIn(cases()), [](const auto& of) {
  return detail::join(name_of(of.param.mode), "_ranks", of.param.ranks, "_stage", of.param.stage);
});

}  // namespace
}  // namespace reprise::distributed
