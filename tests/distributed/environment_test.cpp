// The launchers' variables: which row is read, and what is refused.
#include "reprise/distributed/environment.h"

#include "reprise/distributed/host_list.h"
#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

using testing::expect_error;

const Variables kTorchrun{{"RANK", "5"},
                          {"WORLD_SIZE", "8"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "4"},
                          {"MASTER_ADDR", "10.0.0.7"},
                          {"MASTER_PORT", "29500"}};
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "2"},
                         {"OMPI_COMM_WORLD_SIZE", "3"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                         {"PMIX_NAMESPACE", "1234567"}};
const Variables kMpich{{"PMI_RANK", "1"},
                       {"PMI_SIZE", "2"},
                       {"MPI_LOCALRANKID", "1"},
                       {"MPI_LOCALNRANKS", "2"},
                       {"PMI_JOBID", "kvs_7"}};
const Variables kSrun{{"SLURM_STEP_ID", "3"},        {"SLURM_PROCID", "6"},
                      {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_LOCALID", "2"},
                      {"SLURM_JOB_ID", "421337"},    {"SLURM_STEP_NODELIST", "gpu[07-08],login"}};

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

void expect_place(const Environment& e, const std::string& launcher, std::vector<int> place) {
  EXPECT_EQ(e.launcher, launcher);
  EXPECT_EQ((std::vector{e.rank, e.ranks, e.local_rank, e.local_ranks}), place);
}

TEST(Environment, IsOneProcessWithoutALauncher) {
  Environment e = read_environment({{"HOME", "/root"}, {"MASTER_ADDR", "a"}});
  expect_place(e, "none", {0, 1, 0, 1});
  EXPECT_EQ(e.port, 0);
}

TEST(Environment, ReadsTorchrun) {
  Environment e = read_environment(
      with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "abc"}, {"TORCHELASTIC_RESTART_COUNT", "2"}}));
  expect_place(e, "torchrun", {5, 8, 1, 4});
  EXPECT_EQ(e.address, "10.0.0.7");
  EXPECT_EQ(e.port, 29500);
  EXPECT_EQ(e.job, "abc#2") << "a restart is another job";
}

TEST(Environment, NeedsNoLocalRankByHand) {
  expect_place(read_environment(without(without(kTorchrun, "LOCAL_RANK"), "LOCAL_WORLD_SIZE")), "torchrun",
               {5, 8, 0, 1});
}

TEST(Environment, ReadsMpi) {
  Environment open_mpi = read_environment(kOpenMpi);
  expect_place(open_mpi, "Open MPI", {2, 3, 2, 3});
  EXPECT_EQ(open_mpi.address, "127.0.0.1") << "one machine";
  EXPECT_EQ(open_mpi.job, "1234567");
  Environment mpich = read_environment(kMpich);
  expect_place(mpich, "MPICH", {1, 2, 1, 2});
  EXPECT_EQ(mpich.job, "kvs_7");
  for (const Environment& e : {open_mpi, mpich}) {
    EXPECT_GE(e.port, 15000);
    EXPECT_LT(e.port, 25000);
  }
  EXPECT_NE(open_mpi.port, mpich.port) << "jobs of one machine do not all try one port first";
  EXPECT_EQ(read_environment(with(kMpich, {{"MASTER_PORT", "7000"}})).port, 7000);
}

TEST(Environment, NeedsAnAddressWhereMpiHasSeveralMachines) {
  Variables several = with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "6"}});
  expect_error([&] { read_environment(several); }, "Open MPI runs 6 ranks on several machines",
               "MASTER_ADDR is not set");
  EXPECT_EQ(read_environment(with(several, {{"MASTER_ADDR", "a1"}})).address, "a1");
}

TEST(Environment, ReadsSrun) {
  Environment e = read_environment(kSrun);
  expect_place(e, "srun", {6, 8, 2, 3});
  EXPECT_EQ(e.address, "gpu07");
  EXPECT_EQ(e.port, 16337);
  EXPECT_EQ(e.job, "421337.3");
  Environment one = read_environment(with(kSrun, {{"SLURM_STEP_NODELIST", "gpu07"}}));
  expect_place(one, "srun", {6, 8, 2, 8});
  EXPECT_EQ(one.address, "127.0.0.1");
}

TEST(Environment, IsOneProcessInABatchScriptWithoutSrun) {
  expect_place(read_environment(without(kSrun, "SLURM_STEP_ID")), "none", {0, 1, 0, 1});
}

TEST(Environment, LauncherThatALauncherStartedWins) {
  expect_place(read_environment(with(kTorchrun, kSrun)), "torchrun", {5, 8, 1, 4});
  expect_place(read_environment(with(kOpenMpi, kSrun)), "Open MPI", {2, 3, 2, 3});
  Variables pmi2 = with(kSrun, {{"PMI_RANK", "6"}, {"PMI_SIZE", "8"}});
  expect_place(read_environment(pmi2), "srun", {6, 8, 2, 3});
  Variables elastic = with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "a"}});
  expect_place(read_environment(with(elastic, kOpenMpi)), "torchrun", {5, 8, 1, 4});
}

TEST(Environment, RefusesRowsThatDisagree) {
  expect_error([] { read_environment(with(kTorchrun, kOpenMpi)); }, "two launchers' variables disagree",
               "by torchrun this is rank 5 of 8", "by Open MPI rank 2 of 3", "WORLD_SIZE = \"8\"",
               "OMPI_COMM_WORLD_SIZE = \"3\"");
  Variables agree = with(
      kOpenMpi, {{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}, {"MPI_LOCALRANKID", "2"}, {"MPI_LOCALNRANKS", "3"}});
  expect_place(read_environment(agree), "Open MPI", {2, 3, 2, 3});
}

TEST(Environment, RefusesEachHalfOfARow) {
  const std::vector<std::pair<Variables, std::vector<std::string>>> rows{
      {kTorchrun, {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}},
      {kOpenMpi,
       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE"}},
      {kMpich, {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}},
      {kSrun,
       {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_NODELIST", "SLURM_JOB_ID"}}};
  for (const auto& [row, names] : rows)
    for (const std::string& name : names)
      for (const Variables& half : {without(row, name), with(row, {{name, ""}})})
        expect_error([&] { read_environment(half); }, name + " is not set", "are set in part");
}

TEST(Environment, RefusesWhatIsNoPlace) {
  expect_error(
      [] {
        read_environment(with(kTorchrun, {{"RANK", "8"}}));
      },
      "RANK = \"8\"", "WORLD_SIZE = \"8\"");
  expect_error([] { read_environment(with(kTorchrun, {{"LOCAL_RANK", "4"}})); }, "LOCAL_WORLD_SIZE = \"4\"");
  for (const char* text : {"x", "-1", "1.5", " 1", "99999999999"})
    expect_error(
        [&] {
          read_environment(with(kTorchrun, {{"RANK", text}}));
        },
        "RANK is", text, "not a number");
  expect_error([] { read_environment(with(kTorchrun, {{"WORLD_SIZE", "0"}})); }, "WORLD_SIZE is \"0\"");
  for (const char* port : {"0", "65530", "x"})
    expect_error([&] { read_environment(with(kTorchrun, {{"MASTER_PORT", port}})); }, "MASTER_PORT is", port);
  expect_error([] { read_environment(with(kSrun, {{"SLURM_PROCID", "8"}})); }, "SLURM_PROCID = \"8\"");
}

TEST(Environment, RendezvousGoesBeforeWhatTheLauncherSays) {
  auto by = [](const std::string& rendezvous, Variables variables) {
    return read_environment(with(std::move(variables), {{"REPRISE_RENDEZVOUS", rendezvous}}));
  };
  for (const Variables& row : {kTorchrun, kOpenMpi, kMpich, kSrun}) {
    const Environment place = by("a.b:7000", row);
    EXPECT_EQ(place.address, "a.b");
    EXPECT_EQ(place.port, 7000);
    EXPECT_EQ(place.rendezvous_folder, "");
    const Environment file = by("file:/shared/a:b", row);
    EXPECT_EQ(file.rendezvous_folder, "/shared/a:b");
    EXPECT_EQ(file.rank, read_environment(row).rank);
    EXPECT_EQ(file.address, row.contains("MASTER_ADDR") ? "10.0.0.7" : "") << "rank 0 knows its own";
  }
  const Variables bare = without(without(kTorchrun, "MASTER_ADDR"), "MASTER_PORT");
  EXPECT_EQ(by("file:x", bare).rendezvous_folder, "x");
  EXPECT_EQ(by("a:1", bare).address, "a");
  EXPECT_EQ(by("file:x", with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "6"}})).ranks, 6) << "several machines";
  expect_place(by("a:1", {}), "none", {0, 1, 0, 1});
  for (const char* bad : {"a", "a:0", "a:65530", ":1", "file:"})
    expect_error([&] { by(bad, kTorchrun); }, "--rendezvous is");
  const Variables own{
      {"REPRISE_RANK", "0"}, {"REPRISE_RANKS", "2"}, {"REPRISE_JOB", "j"}, {"REPRISE_PORT", "20000"}};
  expect_error([&] { by("a:1", own); }, "--ranks", "leave --rendezvous out");
}

TEST(Environment, ReadsTheProcess) {
  setenv("REPRISE_TEST_VARIABLE", "a=b", 1);
  EXPECT_EQ(process_variables().at("REPRISE_TEST_VARIABLE"), "a=b");
  unsetenv("REPRISE_TEST_VARIABLE");
}

TEST(HostList, IsSlurms) {
  using Hosts = std::vector<std::string>;
  EXPECT_EQ(hosts_of("a"), Hosts{"a"});
  EXPECT_EQ(hosts_of("n[008-011,7],b-2"), (Hosts{"n008", "n009", "n010", "n011", "n7", "b-2"}));
  EXPECT_EQ(hosts_of("r[1-2]n[3,4]"), (Hosts{"r1n3", "r1n4", "r2n3", "r2n4"}));
  EXPECT_EQ(hosts_of("r[1-2].x"), (Hosts{"r1.x", "r2.x"}));
  for (const char* text :
       {"", "a,,b", "a[", "a]1[", "a[1-", "a[2-1]", "a[x]", "a[]", "a[0-99999999]", "a[0-65535,0-9]"})
    expect_error([&] { hosts_of(text); }, "SLURM_STEP_NODELIST");
}

}  // namespace
}  // namespace reprise::distributed
