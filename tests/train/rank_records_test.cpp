// What a run on ranks records of communication, the checksum of its weights, and how ranks are compared.
// labels: concurrency
#include <gtest/gtest.h>

#include <thread>

#include "reprise/autograd/grad_mode.h"
#include "reprise/distributed/flight/records.h"
#include "reprise/distributed/threads/thread_groups.h"
#include "reprise/io/run_log.h"
#include "reprise/tests/distributed/sharded/wide_net.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/support/compare.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/ranks/rank_times.h"
#include "reprise/train/ranks/same_state.h"
#include "reprise/train/trainer.h"

namespace reprise::train {
namespace {

using distributed::ProcessGroup;
using testing::TempFolder;
using testing::WideNet;

struct Start {
  int ranks = 1, stage = 0;
  int64_t steps = 4, eval_every = 2, save_every = 0;
  std::function<void(ProcessGroup& group, Task& task)> change{};
};

void train_rank(ProcessGroup& group, const Start& start, const std::string& folder) {
  manual_seed(3);
  WideNet net;
  distributed::DataParallel parallel(net, group, {.bytes = 300000, .first_bytes = 1000});
  std::vector<nn::Layer*> blocks;
  if (start.stage == 3) blocks = {&net.wide, &net.last};
  distributed::ShardedAdamW optimizer(parallel, optim::decay_matrices(net, 1e-2, 0.1),
                                      {.stage = start.stage, .blocks = blocks});
  std::optional<distributed::WholeWeights> whole(parallel);
  optim::Ema ema(net, 0.9);  // what is evaluated, and not what the checksum is of
  Task task{.model = net,
            .optimizer = optimizer,
            .ema = &ema,
            .units_per_step = 1,
            .loss = [&](int64_t step, int64_t g) { return net.loss(int(step), g); },
            .validation_loss = [](bool) { return 1.0; }};
  whole.reset();
  if (start.change) start.change(group, task);
  train(task,
        {.run_folder = folder,
         .schedule = {.lr = 1e-2, .steps = start.steps, .decay = optim::Decay::constant},
         .accumulate = 4,
         .eval_every = start.eval_every,
         .save_every = start.save_every},
        parallel);
}

// What each rank threw.
std::vector<std::string> run(const Start& start, const std::string& folder) {
  auto groups = distributed::make_thread_groups(start.ranks);
  std::vector<std::string> errors(size_t(start.ranks));
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < errors.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        train_rank(*groups[rank], start, folder);
      } catch (const distributed::DistributedError& error) {
        errors[rank] = std::string(name_of(error.kind())) + ": " + error.what();
      } catch (const std::exception& error) { errors[rank] = error.what(); }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

using Records = std::vector<std::map<std::string, double>>;  // by step

Records records_of(const Start& start, const std::string& folder) {
  for (const std::string& error : run(start, folder)) EXPECT_EQ(error, "");
  Records records(size_t(start.steps) + 1);
  for (const io::RunRecord& record : io::read_run_log(folder + "/metrics.jsonl"))
    for (const auto& [name, value] : record.metrics) records.at(size_t(record.step))[name] = value;
  return records;
}

// CRC-32C by its definition, a bit at a time.
uint32_t reference_crc(const nn::NamedTensors& tensors) {
  uint32_t crc = ~0u;
  for (const auto& [name, x] : tensors)
    for (unsigned char byte : testing::bytes_of(x)) {
      crc ^= byte;
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0u);
    }
  return ~crc;
}

// In the order of the model, which is not that of a file's names.
nn::NamedTensors saved_weights(const std::string& folder) {
  std::map<std::string, Tensor> saved;
  for (const auto& [name, x] : load_checkpoint(folder, false).parameters) saved[name] = x;
  nn::NamedTensors in_order;
  for (const auto& [name, x] : WideNet().state_dict()) in_order.emplace_back(name, saved.at(name));
  return in_order;
}

TEST(WeightsCrc, IsThatOfWhatIsSavedOnAnyRanks) {
  TempFolder one;
  const Records want = records_of({}, one.path());
  EXPECT_EQ(want[4].at("weights_crc"), double(reference_crc(saved_weights(one.path()))));
  EXPECT_NE(want[4].at("weights_crc"), want[2].at("weights_crc"));
  EXPECT_FALSE(want[1].contains("weights_crc")) << "it is not evaluated";
  for (const auto& [ranks, stage] : {std::pair{2, 0}, {4, 0}, {2, 1}, {4, 2}, {2, 3}}) {
    TempFolder folder;
    const Records got = records_of({.ranks = ranks, .stage = stage}, folder.path());
    for (size_t step : {2u, 4u})
      EXPECT_EQ(got[step].at("weights_crc"), want[step].at("weights_crc")) << ranks << ' ' << stage;
  }
}

TEST(RankRecords, SayWhatCommunicationTakesOnSeveralRanksAlone) {
  TempFolder one, three;
  for (const auto& record : records_of({}, one.path()))
    for (const auto& [name, value] : record)
      EXPECT_TRUE(name.find("comm") == std::string::npos && name.find("rank") == std::string::npos) << name;
  const Records records = records_of({.ranks = 4}, three.path());
  // All gradients twice, but for a fourth; beside them, some hundred bytes of losses and control words.
  for (size_t step = 1; step < records.size(); ++step) {
    const auto& record = records[step];
    EXPECT_GT(record.at("comm_seconds"), 0);
    EXPECT_GE(record.at("exposed_comm_seconds"), 0);
    const double gradients = 60000 + 200 + 1000 + 5 + 25 + 5 + 9 + 3;
    EXPECT_NEAR(record.at("comm_bytes"), 2 * 0.75 * 4 * gradients, 0.02 * 6 * gradients)
        << "parts are cut at cache lines";
    EXPECT_EQ(record.contains("slowest_rank"), step > 1) << "ranks tell it a step later";
    if (step == 1) continue;
    EXPECT_GT(record.at("step_seconds_min"), 0);
    EXPECT_LE(record.at("step_seconds_min"), record.at("step_seconds_max"));
    EXPECT_GE(record.at("slowest_rank"), 0);
    EXPECT_LT(record.at("slowest_rank"), 4);
  }
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Each rank's own record, of what it computes between its calls.
TEST(Computations, OfARunAreInTheRecordOfCalls) {
  TempFolder folder;
  const std::vector<std::string> errors = run({.ranks = 2,
                                               .steps = 2,
                                               .eval_every = 1,
                                               .save_every = 1,
                                               .change =
                                                   [&](ProcessGroup& group, Task& task) {
                                                     group.record_to(folder / "flight");
                                                     task.updated = [&group, updates = 0]() mutable {
                                                       if (++updates == 2)
                                                         group.write_calls("the second update");
                                                     };
                                                   }},
                                              folder.path());
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  const auto records = distributed::read_records(folder / "flight");
  ASSERT_EQ(records.size(), 2u);
  for (const auto& [rank, record] : records) {
    std::vector<std::string> names;
    double last = 0;
    for (const distributed::RecordedComputation& one : record.computations) {
      names.push_back(detail::join(one.step, ' ', one.name));
      EXPECT_GE(one.begun, last) << one.name;
      EXPECT_GE(one.done, one.begun) << one.name;
      last = one.done;
    }
    std::vector<std::string> want;
    for (int step = 0; step < 2; ++step) {
      for (int g = 2 * rank; g < 2 * rank + 2; ++g)
        for (const char* what : {"forward", "backward"})
          want.push_back(detail::join(step, ' ', what, " of micro-batch ", g));
      if (step == 1) break;  // the second update has not ended
      for (const char* what : {"update", "evaluation", "save"}) want.push_back(detail::join(step, ' ', what));
    }
    EXPECT_EQ(names, want) << "rank " << rank;
  }
}

TEST(RankTimes, OwnTimeIsWhatIsLeftOfTheStepWithoutItsWaits) {
  auto groups = distributed::make_thread_groups(2);
  RankTimes times(*groups[0], [](const std::string&) {}, {});
  RunRecords::Values values;
  const double before = now();
  EXPECT_EQ(times.begin_step(), std::vector<double>{0}) << "there was none";
  const double begun = now();
  std::thread late([&] {
    while (groups[0]->communication().exposed_seconds == 0) std::this_thread::yield();
    groups[1]->barrier();
  });
  groups[0]->barrier();
  const double present = now();
  times.end_step(values);
  const double after = now();
  late.join();
  const std::map<std::string, double> by_name(values.begin(), values.end());
  const double own = times.begin_step()[0], exposed = by_name.at("exposed_comm_seconds");
  EXPECT_GT(exposed, 0);
  constexpr double rounding = 1e-9;  // of seconds since the machine's start
  EXPECT_LE(exposed, present - begun + rounding);
  EXPECT_GE(own + exposed, present - begun - rounding);
  EXPECT_LE(own + exposed, after - before + rounding);
}

TEST(RankTimes, AreRecordedAndToldByRank0) {
  auto groups = distributed::make_thread_groups(3);
  for (const auto& group : groups) {
    std::string told;
    RankTimes times(*group, [&](const std::string& line) { told += line + '\n'; }, {"a", "b", "b"});
    RunRecords::Values values;
    for (int step = 0; step < 30; ++step) {
      times.begin_step();
      times.hear({0.5, 1, 1.5});
      values.clear();
      times.end_step(values);
    }
    const std::map<std::string, double> by_name(values.begin(), values.end());
    EXPECT_EQ(by_name.at("step_seconds_min"), 0.5);
    EXPECT_EQ(by_name.at("step_seconds_max"), 1.5);
    EXPECT_EQ(by_name.at("slowest_rank"), 2);
    EXPECT_EQ(told, group->rank() == 0 ? "rank 2, host b: 1.50 x the median step time of ranks for 20 steps\n"
                                       : "");
  }
}

TEST(SlowRanks, AreToldOnceAndAgainOnceTheyHaveRecovered) {
  SlowRanks ranks;
  size_t lines = 0;
  auto steps = [&](int count, double slow) {
    for (int i = 0; i < count; ++i)
      for (const std::string& line : ranks.add({1, 1.1, slow, 1})) {
        ++lines;
        EXPECT_EQ(line, "rank 2: 1.42 x the median step time of ranks for 20 steps");
      }
    return lines;
  };
  EXPECT_EQ(steps(19, 1.42), 0u);
  EXPECT_EQ(steps(1, 1), 0u) << "not in a row";
  EXPECT_EQ(steps(19, 1.42), 0u);
  EXPECT_EQ(steps(1, 1.42), 1u);
  EXPECT_EQ(steps(100, 1.42), 1u);
  EXPECT_EQ(steps(19, 1.19), 1u);
  EXPECT_EQ(steps(40, 1.42), 1u) << "it had not recovered";
  EXPECT_EQ(steps(20, 1.19), 1u);
  EXPECT_EQ(steps(20, 1.42), 2u);
}

TEST(SlowRanks, AreToldWithTheirHostsWhereTheseDiffer) {
  auto told = [](const std::vector<std::string>& hosts) {
    SlowRanks ranks(hosts);
    std::string line;
    for (int i = 0; i < 20; ++i)
      for (const std::string& one : ranks.add({1, 1.42})) line += one;
    return line;
  };
  const std::string rest = ": 1.42 x the median step time of ranks for 20 steps";
  EXPECT_EQ(told({"a", "b"}), "rank 1, host b" + rest);
  EXPECT_EQ(told({"a", "a"}), "rank 1" + rest);
  EXPECT_EQ(told({"a", ""}), "rank 1" + rest) << "it says no name";
  EXPECT_EQ(told({"a", "b\x1b[31m\n" + std::string(10000, 'x')}),
            "rank 1, host b??31m?" + std::string(57, 'x') + "..." + rest);
}

TEST(SlowRanks, OfTwoAreComparedWithTheFaster) {
  SlowRanks ranks;
  std::vector<std::string> lines;
  for (int i = 0; i < 20; ++i) lines = ranks.add({2, 1});
  EXPECT_EQ(lines, std::vector<std::string>{"rank 0: 2.00 x the median step time of ranks for 20 steps"});
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(ranks.add({0, 0}).empty());
}

// One bit of one weight, of one rank, after an update; not the lowest, which the next update may round away.
auto flip_on(int at_fault, int64_t update) {
  return [=](ProcessGroup& group, Task& task) {
    if (group.rank() != at_fault) return;
    task.updated = [&task, updates = int64_t(0), update]() mutable {
      if (++updates != update) return;
      static_cast<unsigned char*>(task.model.named_parameters()[2].second.view().data)[42] ^= 1;
    };
  };
}

TEST(SameState, AFlippedBitIsToldOnAllRanksAtTheNextSave) {
  // Where ranks share the optimizer, the owner's weights take the place of others at the next update.
  for (const auto& [at_fault, stage, update] : {std::tuple{0, 0, 3}, {2, 1, 4}}) {
    TempFolder folder;
    const auto told = run({.ranks = 4, .stage = stage, .save_every = 2, .change = flip_on(at_fault, update)},
                          folder.path());
    for (const std::string& one : told) {
      EXPECT_TRUE(one.starts_with("mismatch: ranks have other bits in last.weight after step 4: CRC-32C "))
          << one;
      EXPECT_NE(one.find(" on rank " + std::to_string(at_fault)), std::string::npos) << one;
    }
    EXPECT_EQ(load_checkpoint(folder.path(), true).step, 2) << "it is not saved";
  }
}

// As where a rank has read another file of the same step.
TEST(SameState, IsComparedBeforeTheFirstStep) {
  TempFolder folder;
  auto flip = [](ProcessGroup& group, Task& task) {
    if (group.rank() == 1)
      static_cast<unsigned char*>(task.model.named_parameters()[2].second.view().data)[42] ^= 1;
  };
  for (const std::string& one : run({.ranks = 3, .stage = 0, .save_every = 0, .change = flip}, folder.path()))
    EXPECT_TRUE(one.starts_with("mismatch: ranks have other bits in last.weight after step 0: CRC-32C "))
        << one;
  EXPECT_FALSE(has_checkpoint(folder.path()));
}

TEST(SameState, IsComparedEveryThousandStepsWithoutSaves) {
  const auto told = [] {
    auto groups = distributed::make_thread_groups(2);
    std::vector<std::string> errors(2);
    std::vector<std::thread> threads;
    TempFolder folder;
    for (size_t rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        manual_seed(3);
        nn::Linear net(3, 2);
        distributed::DataParallel parallel(net, *groups[rank]);
        optim::AdamW optimizer(net.parameters(), optim::AdamWOptions{});
        Task task{.model = net,
                  .optimizer = optimizer,
                  .units_per_step = 1,
                  .loss =
                      [&](int64_t, int64_t g) {
                        return net(Tensor::zeros({1, 3}).fill_(double(g))).mean();
                      },
                  .validation_loss = [](bool) { return 1.0; }};
        if (rank == 1)
          task.updated = [&, updates = 0]() mutable {
            if (++updates == 900) static_cast<unsigned char*>(net.bias.view().data)[2] ^= 1;
          };
        try {
          train(task,
                {.run_folder = folder.path(),
                 .schedule = {.lr = 1e-2, .steps = 1002, .decay = optim::Decay::constant},
                 .accumulate = 2,
                 .eval_every = 0,
                 .save_every = 0},
                parallel);
        } catch (const Error& error) { errors[rank] = error.what(); }
      });
    for (std::thread& thread : threads) thread.join();
    return errors;
  }();
  for (const std::string& one : told)
    EXPECT_NE(one.find("ranks have other bits in bias after step 1000"), std::string::npos) << one;
}

// Moments, and the loss scale, of which a trainer has its own.
TEST(SameState, IsOfMomentsAndTheLossScaleToo) {
  auto difference = [](int state) {
    auto groups = distributed::make_thread_groups(2);
    std::vector<std::string> errors(2);
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        manual_seed(3);
        nn::Linear net(3, 2);
        optim::AdamW optimizer(net.parameters(), optim::AdamWOptions{});
        net(Tensor::zeros({1, 3}).fill_(1)).mean().backward();
        optimizer.step(rank == 1 && state == 0 ? 0.5 : 1);
        NoGrad guard;
        for (Tensor x : net.parameters()) x.zero_();
        const optim::GradScaler scaler({}, {.init_scale = rank == 1 && state == 1 ? 512.0 : 1024.0});
        try {
          check_same_state(*groups[rank], 5, net, whole_state(optimizer), &scaler);
        } catch (const distributed::DistributedError& error) { errors[rank] = error.what(); }
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(errors[0], errors[1]);
    return errors[0];
  };
  EXPECT_NE(difference(0).find("other bits in the optimizer's 0.first_moment after step 5"),
            std::string::npos)
      << difference(0);
  EXPECT_NE(difference(1).find("other bits in the loss scale's scale after step 5"), std::string::npos)
      << difference(1);
  EXPECT_EQ(difference(2), "");
}

}  // namespace
}  // namespace reprise::train
