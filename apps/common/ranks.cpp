#include "reprise/apps/common/ranks.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <thread>

#include "reprise/apps/common/memory_advice.h"
#include "reprise/apps/common/rank_watch.h"
#include "reprise/core/bytes.h"
#include "reprise/core/parallel.h"
#include "reprise/core/quote.h"
#include "reprise/distributed/call.h"
#include "reprise/distributed/environment.h"
#include "reprise/distributed/gloo/gloo_transport.h"
#include "reprise/distributed/hub/host_name.h"
#include "reprise/distributed/nccl/nccl_channel.h"
#include "reprise/distributed/same_on_all.h"
#include "reprise/distributed/tree.h"
#include "reprise/train/option_error.h"
#include "reprise/train/output.h"

namespace reprise::apps {
namespace {

distributed::Environment environment() {
  return distributed::read_environment(distributed::process_variables());
}

void replace(CLI::App& train, const std::string& name, int64_t value) {
  CLI::Option* option = train.get_option(name);
  option->clear();
  option->add_result(std::to_string(value));
  option->run_callback();
}

// Multiples of `ranks` next to `count`: "10 and 15", or "5".
std::string nearest(int64_t count, int64_t ranks) {
  const int64_t below = count / ranks * ranks, above = below + ranks;
  return below > 0 ? fmt::format("{} and {}", below, above) : std::to_string(above);
}

// Numbers of ranks next to `ranks` that divide `count`: "2 and 5", or "5".
std::string nearest_ranks(int64_t count, int64_t ranks) {
  int64_t below = ranks, above = ranks;
  while (count % below != 0) --below;
  while (above < count && count % above != 0) ++above;
  return count % above == 0 ? fmt::format("{} and {}", below, above) : std::to_string(below);
}

void cut_rows(CLI::App& train, TrainingOptions& o, int64_t ranks) {
  check(o.batch % ranks == 0, "--batch ", o.batch, " is not a multiple of ", ranks,
        " ranks, each of which takes an equal part of a step's rows; the nearest are ",
        nearest(o.batch, ranks), ", and of ranks ", nearest_ranks(o.batch, ranks));
  replace(train, "--batch", o.batch / ranks);
  replace(train, "--accumulate", ranks);
  o.is_cut = true;
}

// Whether another number of ranks would train to other bits.
bool depends_on_ranks(const TrainingOptions& o) { return o.reduce != "tree" || o.wire != "f32"; }

// Such a run keeps its number, and goes on with another one only if that is a change.
void keep_number(CLI::App& train, TrainingOptions& o, int64_t ranks) {
  const int64_t before = o.bits_of_ranks, now = depends_on_ranks(o) ? ranks : 0;
  if (before > 0 && now > 0 && before != now)
    o.changes.push_back({"--ranks", std::to_string(before), std::to_string(now)});
  if (before != now) replace(train, "--bits-of-ranks", now);
}

// Ranks of another launcher may each see one GPU that is theirs.
void check_gpus(const TrainingOptions& o, const distributed::Environment& e, int64_t ranks) {
  if (Device::parse(o.device).is_cpu()) return;
  check(distributed::has_nccl(), "--device ", o.device, ": ", ranks,
        " ranks on GPUs need NCCL, which this build does not have; sudo apt-get install libnccl-dev, and "
        "configure again, or give --device cpu");
  const bool are_ours = e.launcher == "none" || e.launcher == "--ranks";
  const int64_t here = are_ours ? ranks : e.local_ranks, gpus = Device::cuda_count();
  check(here <= gpus || (!are_ours && gpus == 1), "--device ", o.device, ": ", here,
        " ranks on this machine need a GPU each, and it has ", gpus);
}

// What cannot be encrypted is not sent in the open instead.
void check_tls(const TrainingOptions& o, int64_t ranks) {
  if (!o.tls.is_asked()) return;
  if (ranks <= 1)
    distributed::check_no_tls(o.tls, "one process has no connections; give --ranks, or leave it out");
  if (!Device::parse(o.device).is_cpu())
    distributed::check_no_tls(
        o.tls, "with --device " + o.device +
                   " NCCL moves what lies on GPUs, and does not encrypt it; give --device cpu, or use a "
                   "private network or WireGuard");
  distributed::check_tls(o.tls);
}

// Tells the others what ends this rank. Where another one has failed, that is the cause, and is thrown.
void tell_others(distributed::ProcessGroup& group, const char* reason) {
  try {
    group.check_alive();
  } catch (const distributed::DistributedError&) { throw; } catch (const std::exception&) {
    return;  // a call of this rank has told them
  }
  group.abort(reason);
}

// Rank 0 alone has a standard output.
void close_output() {
  const int null = ::open("/dev/null", O_WRONLY);
  check(null >= 0 && ::dup2(null, STDOUT_FILENO) == STDOUT_FILENO, "/dev/null cannot be opened");
  ::close(null);
}

const char* transport_of(const TrainingOptions& o) {
  if (o.tls.is_asked()) return "Gloo with TLS";
  return Device::parse(o.device).is_cpu() ? "Gloo" : "NCCL and Gloo";
}

}  // namespace

void take_ranks(CLI::App& train, TrainingOptions& o) {
  check(o.ranks == 0 || o.rendezvous.empty(),
        "--rendezvous is for ranks that another launcher starts; --ranks ", o.ranks,
        " starts ranks that know where they meet");
  check(o.ranks == 0 || o.bind.empty(), "--bind is for ranks that another launcher starts; --ranks ", o.ranks,
        " starts ranks that meet on this machine's loopback");
  if (!o.rendezvous.empty()) ::setenv(distributed::rendezvous_variable, o.rendezvous.c_str(), 1);
  const distributed::Environment e = environment();
  const bool is_by_itself = e.launcher == "none" || e.launcher == "--ranks";
  check(o.ranks == 0 || is_by_itself, "--ranks ", o.ranks, " starts ranks of its own, and ", e.launcher,
        " has started ", e.ranks, ": leave it out");
  const int64_t ranks = std::max<int64_t>({o.ranks, e.ranks, 1});
  keep_number(train, o, ranks);
  check_tls(o, ranks);
  if (ranks <= 1) return;
  check(distributed::has_gloo(), ranks,
        " ranks need Gloo, which this build does not have; sudo apt-get install libgloo-dev, and configure "
        "again");
  check_gpus(o, e, ranks);
  if (o.batch_auto) {  // which chooses the micro-batches
    const int64_t rows = o.batch * o.trainer.accumulate;
    return check(rows % ranks == 0, "--batch auto: ", rows,
                 " rows per update, --batch x --accumulate, are no multiple of ", ranks, " ranks");
  }
  if (train.get_option("--accumulate")->count() == 0) cut_rows(train, o, ranks);
  check(o.trainer.accumulate % ranks == 0, "--accumulate ", o.trainer.accumulate, " is not a multiple of ",
        ranks, " ranks, each of which takes equally many of a step's micro-batches; the nearest are ",
        nearest(o.trainer.accumulate, ranks), ", and of ranks ", nearest_ranks(o.trainer.accumulate, ranks));
}

distributed::LeafRange own_share(const TrainingOptions& o) {
  const distributed::Environment e = environment();
  return distributed::leaves_of_rank(e.rank, e.ranks, o.trainer.accumulate);
}

Device device_of(const TrainingOptions& o) {
  const Device device = Device::parse(o.device);
  const distributed::Environment e = environment();
  const bool is_named = o.device.starts_with("cuda:");
  if (e.ranks == 1 || device.is_cpu() || is_named || Device::cuda_count() == 1) return device;
  return Device::cuda(e.local_rank);
}

int64_t gradient_sums(const TrainingOptions& o, const distributed::LeafRange& leaves) {
  const int64_t sums = distributed::most_sums(leaves);
  return o.reduce == "fast" ? std::min<int64_t>(sums, 1) : sums;
}

int64_t most_gradient_sums(const TrainingOptions& o, int64_t micro_batches) {
  int64_t most = 0;
  for (int rank = 0, ranks = rank_count(); rank < ranks; ++rank)
    most = std::max(most, gradient_sums(o, distributed::leaves_of_rank(rank, ranks, micro_batches)));
  return most;
}

size_t memory_of_rank(Device device) {
  const size_t there = nn::memory_for_tensors(device);
  const bool is_shared = device.is_cpu() && allocator(device).limit() == 0;
  return is_shared ? there / size_t(std::max(environment().local_ranks, 1)) : there;
}

bool is_first_rank() { return environment().rank == 0; }
int rank_count() { return environment().ranks; }

void record_calls(distributed::ProcessGroup& group, const std::string& run_folder, const TrainingOptions& o) {
  if (group.size() == 1) return;
  std::string folder;
  if (group.rank() == 0) {
    folder = std::filesystem::absolute(run_folder).lexically_normal();
    std::error_code ignored;
    std::filesystem::remove_all(folder + "/flight", ignored);
  }
  folder = group.gather_text(folder).front();
  group.record_to(folder + "/flight");
  if (o.rank_logs) train::keep_warnings(fmt::format("{}/rank-{}.log", folder, group.rank()));
}

void check_same_run(distributed::ProcessGroup& group, const TrainingOptions& o, const std::string& data,
                    const std::set<std::string>& data_options) {
  if (group.size() == 1) return;
  std::set<std::string> left_out = {"--threads", "--device"};
  left_out.insert(data_options.begin(), data_options.end());
  std::string lines, line;
  for (std::istringstream all(o.resolved); std::getline(all, line);) {
    const std::string option = "--" + line.substr(0, line.find(" = "));
    if (!line.empty() && !line.starts_with('#') && !left_out.contains(option)) lines += line + '\n';
  }
  distributed::check_same_on_all(group, "train", lines + data);
  train::report("{}", hosts_line(group.gather_text(distributed::host_name())));
}

std::string hosts_line(const std::vector<std::string>& host_of_rank) {
  std::vector<std::string> hosts;
  std::map<std::string, std::vector<int>> ranks;
  for (int rank = 0; const std::string& host : host_of_rank) {
    if (!ranks.contains(host)) hosts.push_back(host);
    ranks[host].push_back(rank++);
  }
  std::string listed;
  for (const std::string& host : hosts)
    listed += fmt::format("{}{} with {}", listed.empty() ? "" : ", ",
                          host.empty() ? "?" : distributed::shown_host(host),
                          distributed::ranks_in_words(ranks[host]));
  return fmt::format("Hosts: {}: {}\n", hosts.size(), listed);
}

int on_ranks(const TrainingOptions& o, const std::function<int(distributed::ProcessGroup& group)>& body) {
  distributed::GroupOptions options{
      .timeout = std::chrono::seconds(o.timeout),
      .tell = [](const std::string& line) { train::warn("warning: {}\n", printable(line)); },
      .token_file = o.token_file,
      .bind = o.bind,
      .tls = o.tls};
  if (o.peer_timeout) options.peer_timeout = std::chrono::seconds(*o.peer_timeout);
  if (environment().ranks > 1) {
    options.device = device_of(o);
    keep_requests_harmless();
  }
  auto group = distributed::ProcessGroup::join(options);
  if (group->rank() > 0) close_output();
  try {
    std::optional<RankWatch> watch;
    if (group->size() > 1) watch.emplace(*group);
    return with_memory_advice_before_steps([&] { return body(*group); });
  } catch (const distributed::DistributedError&) { throw; } catch (const std::exception& error) {
    tell_others(*group, error.what());
    throw;
  }
}

distributed::BucketOptions buckets_of(const TrainingOptions& o) {
  const auto bytes = int64_t(parse_bytes(o.bucket_size));
  return {.bytes = bytes, .first_bytes = std::min(bytes, distributed::BucketOptions().first_bytes)};
}

void take_threads(const TrainingOptions& o) {
  const int local_ranks = environment().local_ranks;
  if (o.threads > 0)
    train::under_option("--threads", [&] { set_num_threads(o.threads); });
  else if (local_ranks > 1)
    set_num_threads(std::max(1, num_threads() / local_ranks));
}

std::string ranks_line(const TrainingOptions& o) {
  const distributed::Environment e = environment();
  if (e.ranks == 1)
    return o.zero > 0 ? fmt::format("Ranks: one, which has nothing to share: --zero {} is as 0\n", o.zero)
                      : "";
  std::string line =
      fmt::format("Ranks: {} by {}, over {}, {} threads per rank; {} micro-batches of {}, {} per rank\n",
                  e.ranks, e.launcher, transport_of(o), num_threads(), o.trainer.accumulate, o.batch,
                  o.trainer.accumulate / e.ranks);
  const int cpus = int(std::thread::hardware_concurrency());  // 0: it is not known
  if (cpus > 0 && e.local_ranks > cpus)
    line += fmt::format("{} ranks take turns on this machine's {} CPUs\n", e.local_ranks, cpus);
  if (o.zero > 0)
    line += fmt::format("ZeRO stage {}: each rank has its part of {}\n", o.zero,
                        o.zero == 1   ? "the optimizer's state"
                        : o.zero == 2 ? "the optimizer's state and of the gradients"
                                      : "the optimizer's state, of the gradients and of the blocks' weights");
  const int64_t own = o.trainer.accumulate / e.ranks;
  if (o.zero >= 2 && own > 1)
    line +=
        fmt::format("Partial sums of the {} micro-batches per rank stay whole until they are sent\n", own);
  size_t nodes = 0;  // of the rank that has most
  for (int64_t rank = 0; rank < e.ranks; ++rank)
    nodes = std::max(nodes, distributed::nodes_of(own * rank, own * (rank + 1)).size());
  if (o.reduce == "tree" && o.wire == "f32" && nodes > 1)
    line += fmt::format(
        "Each rank sends up to {} partial sums per gradient: {} micro-batches per rank are no power of two\n",
        nodes, own);
  if (o.wire != "f32")
    line += fmt::format("Gradients are sent in {}: bits depend on the number of ranks\n", o.wire);
  if (o.reduce != "tree")
    line += fmt::format(
        "Gradients are added by --reduce {}: bits depend on the number of ranks, on --zero from 2 on and on "
        "--bucket-size\n",
        o.reduce);
  if (o.is_cut)
    line += fmt::format(
        "A step's {} rows are cut into these; --batch {} --accumulate {} gives the same {} on any ranks\n",
        o.batch * o.trainer.accumulate, o.batch, o.trainer.accumulate, depends_on_ranks(o) ? "rows" : "bits");
  return line;
}

}  // namespace reprise::apps
