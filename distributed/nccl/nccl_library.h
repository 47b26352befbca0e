// The functions of NCCL that channels call: those of the library (nccl_library.cpp), which a program opens when it first needs
// it, or those of the emulator's double of it (nccl_emulated.cpp). A build has one of the two.
#pragma once

#include <nccl.h>

#include <cstddef>

namespace reprise::distributed {

/// To ncclCommWindowRegister: calls use the same part of the window on all ranks.
inline constexpr int symmetric_window = 1;

/// Named as in the library, without its prefix.
struct Nccl {
  decltype(&ncclGetVersion) get_version;
  decltype(&ncclGetErrorString) get_error_string;
  decltype(&ncclGetLastError) get_last_error;
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config;
  decltype(&ncclCommGetAsyncError) comm_get_async_error;
  decltype(&ncclCommFinalize) comm_finalize;
  decltype(&ncclCommDestroy) comm_destroy;
  decltype(&ncclCommAbort) comm_abort;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) recv;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclBroadcast) broadcast;

  // Null in an older library: NCCL has all four from 2.27 on. Older headers do not know them either; a window's handle is a pointer.
  ncclResult_t (*mem_alloc)(void** data, size_t bytes) = nullptr;
  ncclResult_t (*mem_free)(void* data) = nullptr;
  ncclResult_t (*comm_window_register)(ncclComm_t communicator, void* data, size_t bytes, void** window,
                                       int flags) = nullptr;
  ncclResult_t (*comm_window_deregister)(ncclComm_t communicator, void* window) = nullptr;
  bool has_windows() const { return mem_alloc && mem_free && comm_window_register && comm_window_deregister; }
};

/// Error with the loader's words if there is none.
const Nccl& nccl_library();

}  // namespace reprise::distributed
