// NCCL itself, opened at run time: a program of a CUDA build starts on machines without it, and trains on one rank there.
#include "reprise/distributed/nccl/nccl_library.h"

#include <nccl.h>

#include "reprise/core/error.h"
#include "reprise/kernels/cuda/shared_library.h"

namespace reprise::distributed {
namespace {

Nccl find_functions(const kernels::device::SharedLibrary& from) {
  Nccl all;
  from.find("ncclGetVersion", all.get_version);
  from.find("ncclGetErrorString", all.get_error_string);
  from.find("ncclGetLastError", all.get_last_error);
  from.find("ncclGetUniqueId", all.get_unique_id);
  from.find("ncclCommInitRankConfig", all.comm_init_rank_config);
  from.find("ncclCommGetAsyncError", all.comm_get_async_error);
  from.find("ncclCommFinalize", all.comm_finalize);
  from.find("ncclCommDestroy", all.comm_destroy);
  from.find("ncclCommAbort", all.comm_abort);
  from.find("ncclGroupStart", all.group_start);
  from.find("ncclGroupEnd", all.group_end);
  from.find("ncclSend", all.send);
  from.find("ncclRecv", all.recv);
  from.find("ncclAllReduce", all.all_reduce);
  from.find("ncclReduceScatter", all.reduce_scatter);
  from.find("ncclAllGather", all.all_gather);
  from.find("ncclBroadcast", all.broadcast);
  return all;
}

Nccl open_library() {
  try {
    static const kernels::device::SharedLibrary library("libnccl.so", NCCL_MAJOR);
    return find_functions(library);
  } catch (const Error& error) {
    fail("several ranks on GPUs need NCCL, which this machine does not have: ", error.what(),
         "; install libnccl2, or give --device cpu");
  }
}

}  // namespace

const Nccl& nccl_library() {
  static const Nccl functions = open_library();
  return functions;
}

}  // namespace reprise::distributed
