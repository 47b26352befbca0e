// Calls between the ranks of a launcher's variables, timed: the worker that benchmarks/bench_communication.py starts once per rank.
//
//   communication_bench --call tree    25 MiB of f32, summed over the ranks in the order of the tree, as gradients are
//   communication_bench --call ring    the same by the ring of `--reduce fast`
//   communication_bench --call none    a call that moves nothing: what comparing and recording cost
//   communication_bench --call join    nothing: says that all have come
//   communication_bench --call step    two passes of GPT-2 124M on a link of 200 MB/s that takes no CPU; their calls are
//                                      recorded in the folder --record
//
// The first three wait for lines "run" on rank 0's standard input; for each, all ranks make some calls, and rank 0 prints one JSON
// object. With --device cuda each rank's numbers lie on a GPU of its own.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "reprise/benchmarks/gpt_cases.h"
#include "reprise/benchmarks/worker.h"
#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/distributed/environment.h"

namespace rp = reprise;
namespace dist = reprise::distributed;
using Clock = std::chrono::steady_clock;

namespace {

constexpr double link_bytes_per_second = 200e6;

// The link to a second rank that does what this one does, at the same times. A long message takes its time and is not copied:
// what arrives is whatever lies there.
class Mirror final : public dist::Transport {
 public:
  int rank() const override { return 0; }
  int ranks() const override { return 2; }
  void post(int, uint64_t tag, const dist::Note& note) override {
    std::lock_guard lock(mutex_);
    notes_[tag] = note;
  }
  dist::Note take(int, uint64_t tag, Clock::time_point) override {
    std::lock_guard lock(mutex_);
    auto entry = notes_.extract(tag);
    rp::check(bool(entry), "Mirror: a note is taken that was not posted");
    return entry.mapped();
  }
  void exchange(uint64_t, std::span<const Send> sends, std::span<const Receive> receives,
                Clock::time_point) override {
    const auto begin = Clock::now();
    size_t out = 0, in = 0;
    for (const Send& s : sends) out += s.bytes;
    for (const Receive& r : receives) in += r.bytes;
    if (out == in && out <= 65536 && out > 0) std::memcpy(receives[0].data, sends[0].data, out);
    std::this_thread::sleep_until(
        begin + std::chrono::duration_cast<Clock::duration>(
                    std::chrono::duration<double>(double(std::max(out, in)) / link_bytes_per_second)));
  }
  std::optional<dist::Failure> failure() const override { return {}; }
  dist::Failure explain(const dist::Failure& own) override { return own; }
  void fail(const dist::Failure&) override {}
  void leave(const std::string&) override {}

 private:
  std::mutex mutex_;
  std::map<uint64_t, dist::Note> notes_;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Rank 0's wish to go on, on all ranks.
bool goes_on(dist::ProcessGroup& group) {
  std::string line;
  const bool mine = group.rank() == 0 && bool(std::getline(std::cin, line));
  const rp::Tensor word = rp::Tensor::from(std::vector<uint8_t>{uint8_t(mine)}, {1});
  group.broadcast(word, 0).wait();
  return word.item() != 0;
}

void time_calls(const std::string& name, bool on_gpus) {
  const rp::Device device =
      on_gpus ? rp::Device::cuda(dist::read_environment(dist::process_variables()).local_rank)
              : rp::Device::cpu();
  auto group = dist::ProcessGroup::join({.device = device});
  const int64_t elements = name == "none" ? 0 : (25 << 20) / 4, calls = name == "none" ? 200 : 8;
  const rp::Tensor x = rp::Tensor::zeros({elements}, rp::DType::f32, device);
  while (goes_on(*group)) {
    const auto begin = Clock::now();
    for (int64_t i = 0; i < calls; ++i) {
      if (name == "ring")
        group->ring_sum(x).wait();
      else
        group->all_reduce(x).wait();
    }
    rp::synchronize(device);
    const double seconds = seconds_since(begin) / double(calls);
    if (group->rank() > 0) continue;
    std::printf("{\"seconds_per_step\": %.9f, \"peak_rss_bytes\": %zu}\n", seconds,
                rp::bench::peak_rss_bytes());
    std::fflush(stdout);
  }
}

void time_step(const std::string& folder) {
  const rp::bench::GptCase& chosen = rp::bench::find_case("gpt2_124m");
  auto group = dist::ProcessGroup::over(std::make_shared<Mirror>());
  rp::nn::Gpt model(chosen.model);
  dist::DataParallel parallel(model, *group);
  const int64_t rows = chosen.batch / 2;
  const rp::Tensor tokens = rp::bench::random_tokens(chosen, rows, {}),
                   targets = rp::bench::random_tokens(chosen, rows, {});
  auto pass = [&] {
    model.zero_grad();
    for (int64_t g : parallel.share(2)) parallel.backward(rp::cross_entropy(model(tokens), targets), g);
  };
  pass();
  const double waited = group->communication().exposed_seconds;
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  const auto begin = Clock::now();
  pass();
  const double seconds = seconds_since(begin);
  const double exposed = group->communication().exposed_seconds - waited;
  group->record_to(folder);
  const std::string record = group->write_calls("timed");
  std::printf(
      "{\"begin\": %.6f, \"seconds\": %.6f, \"exposed_seconds\": %.6f, \"bytes_per_second\": %.0f, "
      "\"record\": \"%s\"}\n",
      now.count(), seconds, exposed, link_bytes_per_second, record.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> options;
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  const std::string& call = options["--call"];
  if (call == "join") {
    auto group = dist::ProcessGroup::join();
    group->barrier();
    if (group->rank() == 0) std::puts("joined");
    group->leave();
  } else if (call == "step") {
    time_step(options["--record"]);
  } else {
    time_calls(call, options["--device"] == "cuda");
  }
}
