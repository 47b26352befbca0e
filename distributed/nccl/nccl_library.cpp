// NCCL itself, opened at run time: a program of a CUDA build starts on machines without it, and trains on one rank there.
#include "reprise/distributed/nccl/nccl_library.h"

#include <nccl.h>

#include <type_traits>

#include "reprise/core/error.h"
#include "reprise/distributed/nccl/nccl_channel.h"
#include "reprise/kernels/cuda/shared_library.h"

namespace reprise::distributed {
namespace {

#ifdef NCCL_WIN_COLL_SYMMETRIC  // a header of 2.27 or newer: what nccl_library.h says of windows is true
static_assert(symmetric_window == NCCL_WIN_COLL_SYMMETRIC);
static_assert(std::is_pointer_v<ncclWindow_t>);
static_assert(std::is_same_v<decltype(&ncclCommWindowRegister),
                             ncclResult_t (*)(ncclComm_t, void*, size_t, ncclWindow_t*, int)>);
static_assert(
    std::is_same_v<decltype(&ncclCommWindowDeregister), ncclResult_t (*)(ncclComm_t, ncclWindow_t)>);
static_assert(std::is_same_v<decltype(&ncclMemAlloc), decltype(Nccl::mem_alloc)>);
static_assert(std::is_same_v<decltype(&ncclMemFree), decltype(Nccl::mem_free)>);
#endif
#ifdef NCCL_WIN_REQUIRED_ALIGNMENT
static_assert(window_alignment == NCCL_WIN_REQUIRED_ALIGNMENT);
#endif

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
  from.find_if_there("ncclMemAlloc", all.mem_alloc);
  from.find_if_there("ncclMemFree", all.mem_free);
  from.find_if_there("ncclCommWindowRegister", all.comm_window_register);
  from.find_if_there("ncclCommWindowDeregister", all.comm_window_deregister);
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
