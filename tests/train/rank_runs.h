// Runs of a small model on ranks that are threads, and their checkpoints beside one process's.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "reprise/distributed/threads/thread_groups.h"
#include "reprise/io/file.h"
#include "reprise/io/file_calls.h"
#include "reprise/tests/distributed/sharded/wide_net.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/trainer.h"

namespace reprise::testing {

/// What a thread throws that ends as a process that is killed: no Error, which could be met.
struct Killed {};

inline constexpr int64_t steps = 8, micro_batches = 4;

/// One start of a program on some ranks.
struct Start {
  int ranks = 1, stage = 0;
  int64_t stop_after = 0;
  int64_t save_every = 2;
  std::function<void(distributed::ProcessGroup& group, train::Task& task)>
      change{};  ///< what is wrong with a rank
  io::FileCalls* calls = nullptr;
  int rank_of_calls = 0;
  bool save_async = false;
  bool is_sgd = false;  ///< else AdamW
};

inline std::unique_ptr<optim::Optimizer> optimizer_of(const Start& start, WideNet& net,
                                                      distributed::DataParallel& parallel) {
  auto groups = optim::decay_matrices(net, 1e-2, 0.1);
  std::vector<nn::Layer*> blocks;
  if (start.stage == 3) blocks = {&net.wide, &net.last};
  if (start.is_sgd)
    return std::make_unique<distributed::ShardedSgd>(
        parallel, std::move(groups),
        distributed::ShardedSgdOptions{
            .stage = start.stage, .sgd = {.momentum = 0.9, .nesterov = true}, .blocks = blocks});
  return std::make_unique<distributed::ShardedAdamW>(
      parallel, std::move(groups),
      distributed::ShardedAdamWOptions{
          .stage = start.stage, .adamw = {.moments = DType::u8, .seed = 5}, .blocks = blocks});
}

inline void train_rank(distributed::ProcessGroup& group, const Start& start, const std::string& folder) {
  manual_seed(3);
  WideNet net;
  distributed::DataParallel parallel(net, group, {.bytes = 300000, .first_bytes = 1000});
  const std::unique_ptr<optim::Optimizer> optimizer = optimizer_of(start, net, parallel);
  std::optional<distributed::WholeWeights> whole(parallel);
  optim::Ema ema(net, 0.9);
  whole.reset();
  train::Task task{.model = net,
                   .optimizer = *optimizer,
                   .ema = &ema,
                   .units_per_step = 1,
                   .loss = [&](int64_t step, int64_t g) { return net.loss(int(step), g); },
                   .validation_loss = [](bool) { return 1.0; }};
  if (start.change) start.change(group, task);
  std::optional<io::FileCallsScope> calls;
  if (start.calls && group.rank() == start.rank_of_calls) calls.emplace(*start.calls);
  train::train(task,
               {.run_folder = folder,
                .resume = true,
                .schedule = {.lr = 1e-2, .steps = steps, .decay = optim::Decay::constant},
                .accumulate = micro_batches,
                .seed = 7,
                .save_every = start.save_every,
                .stop_after = start.stop_after,
                .keep = 100,
                .save_async = start.save_async,
                .retry_seconds = 0.001},
               parallel);
}

/// What each rank threw.
inline std::vector<std::string> run(const Start& start, const std::string& folder) {
  auto groups = distributed::make_thread_groups(start.ranks);
  std::vector<std::string> errors(size_t(start.ranks));
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < errors.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        train_rank(*groups[rank], start, folder);
      } catch (const distributed::DistributedError& error) {
        errors[rank] = std::string("told: ") + error.what();
      } catch (const Error& error) {
        errors[rank] = error.what();
        groups[rank]->abort(error.what());
      } catch (const Killed&) {
        errors[rank] = "killed";
        groups[rank]->abort("killed");
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

inline void expect_well(const Start& start, const std::string& folder) {
  for (const std::string& error : run(start, folder)) EXPECT_EQ(error, "") << start.ranks << " ranks";
}

inline std::string folder_of(const std::string& run_folder, int64_t step) {
  return run_folder + "/checkpoints/step-0000000" + std::to_string(step);
}

/// Of some ranks beside those of one process, which has all of the optimizer's state in one file.
inline void expect_same_files(const std::string& got, const std::string& want, int64_t step) {
  TempFolder whole;
  train::consolidate_checkpoint(folder_of(got, step), whole / "checkpoint");
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "ema.safetensors", "manifest.json"})
    EXPECT_TRUE(io::read_file(whole / "checkpoint/" + name) ==
                io::read_file(folder_of(want, step) + "/" + name))
        << name << " of step " << step;
}

}  // namespace reprise::testing
