#include "reprise/distributed/environment.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "reprise/core/listing.h"
#include "reprise/core/number_in.h"
#include "reprise/core/quote.h"
#include "reprise/distributed/host_list.h"
#include "reprise/distributed/hub/address.h"
#include "reprise/io/crc32c.h"

namespace reprise::distributed {
namespace {

using Names = std::vector<std::string>;

const std::string* find(const Variables& variables, const std::string& name) {
  auto found = variables.find(name);
  return found == variables.end() || found->second.empty() ? nullptr : &found->second;
}

std::string value_or(const Variables& variables, const std::string& name, const std::string& otherwise) {
  const std::string* value = find(variables, name);
  return value ? *value : otherwise;
}

// A line for each name, set or not.
std::string listed(const Variables& variables, const Names& names) {
  Listing lines;
  for (const std::string& name : names) {
    const std::string* value = find(variables, name);
    lines.add(name, value ? " = " + quote(*value) : std::string(" is not set"));
  }
  return lines.str();
}

bool any_set(const Variables& variables, const Names& names) {
  return std::ranges::any_of(names, [&](const std::string& name) { return find(variables, name); });
}

void check_whole(const Variables& variables, const std::string& launcher, const Names& names) {
  for (const std::string& name : names)
    check(find(variables, name), "environment: the variables of ", launcher,
          " are set in part:", listed(variables, names));
}

int number(const Variables& variables, const std::string& name, int least, int most) {
  const std::string& text = variables.at(name);
  std::optional<int> value = number_in<int>(text);
  check(value && *value >= least && *value <= most, "environment: ", name, " is ", quote(text),
        ", not a number from ", least, " to ", most);
  return *value;
}

constexpr int most_ranks = 1 << 20;

// One rank below its count.
void read_pair(const Variables& variables, const Names& names, int& rank, int& ranks) {
  rank = number(variables, names[0], 0, most_ranks);
  ranks = number(variables, names[1], 1, most_ranks);
  check(rank < ranks, "environment: a rank is at most its count less one:", listed(variables, names));
}

// Any port of a job that names none: jobs of one machine mostly get others, and the handshake tells them apart.
int port_of_job(const std::string& job) { return 15000 + int(io::crc32c(job) % 10000); }

void read_address(const Variables& variables, Environment& e, int port) {
  const std::string* given = find(variables, "MASTER_ADDR");
  check(given || e.local_ranks == e.ranks, "environment: ", e.launcher, " runs ", e.ranks,
        " ranks on several machines, and where rank 0 is must be said:", listed(variables, {"MASTER_ADDR"}));
  if (given) e.address = *given;
  e.port = find(variables, "MASTER_PORT") ? number(variables, "MASTER_PORT", 1, 65535 - more_ports) : port;
}

// A program that has started its own ranks (--ranks).
std::optional<Environment> read_own(const Variables& variables) {
  const Names names{"REPRISE_RANK", "REPRISE_RANKS", "REPRISE_JOB", "REPRISE_PORT"};
  if (!any_set(variables, names)) return {};
  Environment e{.launcher = "--ranks"};
  check_whole(variables, e.launcher, names);
  read_pair(variables, {names[0], names[1]}, e.rank, e.ranks);
  e.local_rank = e.rank;
  e.local_ranks = e.ranks;
  e.job = variables.at("REPRISE_JOB");
  e.port = number(variables, "REPRISE_PORT", 1, 65535 - more_ports);
  return e;
}

std::optional<Environment> read_torchrun(const Variables& variables) {
  if (!any_set(variables, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"})) return {};
  Environment e{.launcher = "torchrun"};
  check_whole(variables, e.launcher, {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"});
  read_pair(variables, {"RANK", "WORLD_SIZE"}, e.rank, e.ranks);
  const Names local{"LOCAL_RANK", "LOCAL_WORLD_SIZE"};
  if (any_set(variables, local)) {
    check_whole(variables, e.launcher, local);
    read_pair(variables, local, e.local_rank, e.local_ranks);
  }
  e.job = value_or(variables, "TORCHELASTIC_RUN_ID", "");
  if (!e.job.empty()) e.job += "#" + value_or(variables, "TORCHELASTIC_RESTART_COUNT", "0");
  read_address(variables, e, 0);
  return e;
}

std::optional<Environment> read_open_mpi(const Variables& variables) {
  const Names names{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                    "OMPI_COMM_WORLD_LOCAL_SIZE"};
  if (!any_set(variables, names)) return {};
  Environment e{.launcher = "Open MPI"};
  check_whole(variables, e.launcher, names);
  read_pair(variables, {names[0], names[1]}, e.rank, e.ranks);
  read_pair(variables, {names[2], names[3]}, e.local_rank, e.local_ranks);
  e.job = value_or(variables, "PMIX_NAMESPACE", "");
  return e;
}

std::optional<Environment> read_mpich(const Variables& variables) {
  const Names names{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
  // `srun --mpi=pmi2` sets the first two.
  const Names own = find(variables, "SLURM_STEP_ID") ? Names{names[2], names[3]} : names;
  if (!any_set(variables, own)) return {};
  Environment e{.launcher = "MPICH"};
  check_whole(variables, e.launcher, names);
  read_pair(variables, {names[0], names[1]}, e.rank, e.ranks);
  read_pair(variables, {names[2], names[3]}, e.local_rank, e.local_ranks);
  e.job = value_or(variables, "PMI_JOBID", "");
  return e;
}

std::optional<Environment> read_srun(const Variables& variables) {
  if (!find(variables, "SLURM_STEP_ID")) return {};  // a batch script that forgot srun is one process
  Environment e{.launcher = "srun"};
  check_whole(
      variables, e.launcher,
      {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_NODELIST", "SLURM_JOB_ID"});
  read_pair(variables, {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}, e.rank, e.ranks);
  const std::vector<std::string> hosts = hosts_of(variables.at("SLURM_STEP_NODELIST"));
  e.local_rank = number(variables, "SLURM_LOCALID", 0, e.ranks - 1);
  e.local_ranks = hosts.size() == 1 ? e.ranks : std::max(e.local_rank + 1, e.ranks / int(hosts.size()));
  if (hosts.size() > 1) e.address = hosts.front();
  const std::string& id = variables.at("SLURM_JOB_ID");
  e.job = id + "." + variables.at("SLURM_STEP_ID");
  e.port = 15000 + number_in<int>(id.substr(id.size() - std::min<size_t>(4, id.size()))).value_or(0);
  return e;
}

constexpr const char* file_prefix = "file:";

// --rendezvous in the place of MASTER_ADDR and MASTER_PORT. Of a folder, rank 0 has any free port of its address.
Variables with_rendezvous(Variables variables, const std::string& rendezvous) {
  if (rendezvous.starts_with(file_prefix)) {
    variables.try_emplace("MASTER_ADDR", "localhost");
    variables["MASTER_PORT"] = "1";
    return variables;
  }
  const HostPort place = host_port_of(rendezvous, 65535 - more_ports);
  variables["MASTER_ADDR"] = place.host;
  variables["MASTER_PORT"] = std::to_string(place.port);
  return variables;
}

Environment read_rows(const Variables& variables) {
  if (std::optional<Environment> own = read_own(variables)) return *own;
  std::optional<Environment> torchrun = read_torchrun(variables);
  if (torchrun && find(variables, "TORCHELASTIC_RUN_ID")) return *torchrun;
  std::optional<Environment> first = torchrun;
  for (std::optional<Environment> e : {read_open_mpi(variables), read_mpich(variables)}) {
    if (!e) continue;
    check(!first || (first->rank == e->rank && first->ranks == e->ranks),
          "environment: two launchers' variables disagree: by ", first ? first->launcher : "",
          " this is rank ", first ? first->rank : 0, " of ", first ? first->ranks : 0, ", by ", e->launcher,
          " rank ", e->rank, " of ", e->ranks, "; unset those of one:",
          listed(variables, {"RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK",
                             "PMI_SIZE"}));
    if (!first) {
      read_address(variables, *e, port_of_job(e->job));
      first = e;
    }
  }
  if (first) return *first;
  std::optional<Environment> srun = read_srun(variables);
  if (!srun) return {};
  srun->address = value_or(variables, "MASTER_ADDR", srun->address);
  if (find(variables, "MASTER_PORT")) srun->port = number(variables, "MASTER_PORT", 1, 65535 - more_ports);
  return *srun;
}

}  // namespace

Environment read_environment(const Variables& variables) {
  const std::string* rendezvous = find(variables, rendezvous_variable);
  if (!rendezvous) return read_rows(variables);
  const std::string prefix = file_prefix;
  Environment e = read_rows(with_rendezvous(variables, *rendezvous));
  check(e.launcher != "--ranks",
        "environment: --ranks starts ranks that know where they meet: leave --rendezvous out");
  if (!rendezvous->starts_with(prefix) || e.ranks == 1) return e;
  e.rendezvous_folder = rendezvous->substr(prefix.size());
  check(!e.rendezvous_folder.empty(), "environment: --rendezvous is ", quote(*rendezvous),
        ", and names no folder");
  if (!find(variables, "MASTER_ADDR")) e.address.clear();
  return e;
}

Variables process_variables() {
  Variables variables;
  for (char** line = environ; line && *line; ++line) {
    const std::string text = *line;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

}  // namespace reprise::distributed
