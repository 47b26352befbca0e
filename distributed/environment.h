// Environment: which rank this process is, of how many, and where rank 0 is, as the launcher's variables say.
#pragma once

#include <map>
#include <string>

namespace reprise::distributed {

/// Names and values of environment variables.
using Variables = std::map<std::string, std::string>;

/// Which rank this process is, and where the ranks meet. Defaults are those of one process by itself.
struct Environment {
  /// "--ranks", "torchrun", "Open MPI", "MPICH", "srun"; "none": one process by itself.
  std::string launcher = "none";
  int rank = 0;        ///< of this process, in [0, ranks)
  int ranks = 1;       ///< of the job, on all machines
  int local_rank = 0;  ///< of this process among those of its machine, in [0, local_ranks)
  /// On this machine; of srun on several machines their mean, rounded down, or local_rank + 1 if that is more.
  int local_ranks = 1;
  std::string job{};                  ///< tells jobs apart, and attempts of one job ("ID#1"); may be empty
  std::string address = "127.0.0.1";  ///< of rank 0: a host name or an address
  int port = 0;                     ///< the first that rank 0 tries to listen on; 0 for one process by itself
  std::string rendezvous_folder{};  ///< where rank 0 writes in place of both where it is; empty: it does not
};

/// Ports that rank 0 tries beside the first one: torchrun's agent itself listens on MASTER_PORT.
inline constexpr int more_ports = 16;

/// What a launcher of ours tells where the ranks meet by.
inline constexpr const char* rendezvous_variable = "REPRISE_RENDEZVOUS";

/// Reads the first of these rows that is set:
///
///   --ranks             REPRISE_RANK, REPRISE_RANKS, REPRISE_JOB, REPRISE_PORT: what a program gives its own children
///                       (in a pipe of number REPRISE_TOKEN_FD, the token; rank 0's socket, REPRISE_LISTENER_FD)
///   torchrun, by hand   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; LOCAL_RANK and LOCAL_WORLD_SIZE, or neither
///   Open MPI            OMPI_COMM_WORLD_{RANK,SIZE,LOCAL_RANK,LOCAL_SIZE}
///   MPICH               PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS
///   srun                SLURM_{PROCID,STEP_NUM_TASKS,LOCALID,STEP_NODELIST,JOB_ID}, where SLURM_STEP_ID is set
///
/// REPRISE_RENDEZVOUS, which --rendezvous sets, is "host:port" in the place of MASTER_ADDR and MASTER_PORT, or
/// "file:FOLDER": a folder that all machines see, in which rank 0 says where it is. The first row says all by itself.
/// The last three take MASTER_ADDR and MASTER_PORT too, and need MASTER_ADDR where MPI runs on several machines. Error,
/// with the variables in question, where a row is set in half, where two of the first three disagree about rank or
/// ranks, where a rank is not below its count, and where a value is no number. Rows around torchrun's own
/// (TORCHELASTIC_RUN_ID) and srun's around any other are not compared: those start launchers, one per machine, and
/// count machines.
Environment read_environment(const Variables& variables);

/// The environment of this process.
Variables process_variables();

}  // namespace reprise::distributed
