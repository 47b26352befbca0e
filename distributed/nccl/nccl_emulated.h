// The emulator's double of NCCL, so that the file that ships runs without a GPU. Its ranks are threads or processes of one
// machine; messages are files of a folder in memory. It refuses what NCCL documents as wrong, and is unkind: see
// nccl_emulated.cpp. Used in builds with REPRISE_CUDA=EMULATED only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reprise/core/cuda/stream_priority.h"

namespace reprise::distributed::emulated {

/// One call fails: the `call`-th, from 1, that is made where `device` is selected, and returns `result`, an ncclResult_t.
/// Of questions to ncclCommGetAsyncError, those that follow one another count as one, and those that are answered by
/// ncclInProgress do not count.
struct NcclFault {
  int device = 0;
  int call = 1;
  int result = 0;
};
/// Counts calls from here on; none fails without a fault.
void set_nccl_fault(const std::optional<NcclFault>& fault);
/// The function that failed, empty if the fault has not come yet.
std::string failed_nccl_function();

/// What ncclGetVersion says from here on, in this process: 21900 is 2.19.0; without one, what the header says.
void set_nccl_version(std::optional<int> version);

/// Buffers of calls that came on streams of that priority, so far.
size_t nccl_calls_on(cuda::StreamPriority priority);

/// Communicators that were made in this process, and neither destroyed nor aborted. At its end, stderr has a line where there are any.
int live_communicators();

/// What windows there are.
enum class NcclWindows {
  made,       ///< as NCCL makes them
  none_made,  ///< ncclCommWindowRegister succeeds, and gives no window
  refused,    ///< it returns ncclInvalidUsage
  absent      ///< the library is an older one, without these functions
};
void set_nccl_windows(NcclWindows kind);  ///< from here on, in this process
int live_windows();                       ///< of live communicators of this process

/// What was done that NCCL does not allow, with windows and their memory, or beside an abort, since it was last asked for. At the end of the process, stderr has a
/// line for each that nobody asked for.
std::vector<std::string> take_misuses();

}  // namespace reprise::distributed::emulated
