// A GPT's training step on the ranks of a launcher's variables, timed: the worker that benchmarks/bench_ranks.py starts once
// per rank.
//
//   ranks_bench --model gpt_6x384 --micro-batches 2 --zero 3
//
// A step has the case's rows, cut into micro-batches, or --rows per micro-batch. Warms up; then, for each line "run" on rank 0's
// standard input, all ranks run the case's steps, and rank 0 prints one JSON object. Ends with the input.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

#include "reprise/benchmarks/gpt_cases.h"
#include "reprise/benchmarks/worker.h"
#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/distributed/sharded/sharded_adamw.h"
#include "reprise/nn/optim/groups.h"

namespace rp = reprise;

namespace {

struct Options {
  std::string model = "gpt_6x384";
  int64_t micro_batches = 2, rows = 0;
  int zero = 0;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--model") == 0)
      o.model = argv[i + 1];
    else if (std::strcmp(argv[i], "--micro-batches") == 0)
      o.micro_batches = std::atoll(argv[i + 1]);
    else if (std::strcmp(argv[i], "--rows") == 0)
      o.rows = std::atoll(argv[i + 1]);
    else if (std::strcmp(argv[i], "--zero") == 0)
      o.zero = std::atoi(argv[i + 1]);
  }
  return o;
}

// Rank 0's wish to go on, on all ranks.
bool goes_on(rp::distributed::ProcessGroup& group, bool mine) {
  const rp::Tensor word = rp::Tensor::from(std::vector<uint8_t>{uint8_t(mine)}, {1});
  group.broadcast(word, 0).wait();
  return word.item() != 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const rp::bench::GptCase& chosen = rp::bench::find_case(options.model);
  const int64_t rows = options.rows > 0 ? options.rows : chosen.batch / options.micro_batches;
  auto group = rp::distributed::ProcessGroup::join();
  rp::manual_seed(1);
  rp::nn::Gpt model(chosen.model);
  rp::distributed::DataParallel parallel(model, *group);
  rp::distributed::ShardedAdamW optimizer(parallel, rp::optim::decay_matrices(model, 1e-3, 0.1),
                                          {.stage = options.zero, .adamw = {.beta1 = 0.9, .beta2 = 0.95}});
  const rp::Tensor tokens = rp::bench::random_tokens(chosen, rows, {}),
                   targets = rp::bench::random_tokens(chosen, rows, {});
  auto step = [&] {
    for (int64_t g : parallel.share(options.micro_batches))
      parallel.backward(rp::cross_entropy(model(tokens), targets), g);
    optimizer.step();
    optimizer.zero_grad();
  };
  for (int i = 0; i < 2; ++i) step();
  const bool drives = group->rank() == 0;
  std::string line;
  while (goes_on(*group, drives && bool(std::getline(std::cin, line)))) {
    const double waited = group->communication().exposed_seconds;
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < chosen.steps; ++i) step();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    const double seconds = taken.count() / double(chosen.steps),
                 exposed = (group->communication().exposed_seconds - waited) / double(chosen.steps);
    if (!drives) continue;
    std::printf(
        "{\"seconds_per_step\": %.6f, \"exposed_seconds\": %.6f, \"tokens_per_second\": %.1f, "
        "\"peak_rss_bytes\": %zu}\n",
        seconds, exposed, double(rows * options.micro_batches * chosen.length) / seconds,
        rp::bench::peak_rss_bytes());
    std::fflush(stdout);
  }
}
