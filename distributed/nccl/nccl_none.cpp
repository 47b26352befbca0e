// A build without NCCL's header.
#include "reprise/core/error.h"
#include "reprise/distributed/nccl/nccl_channel.h"

namespace reprise::distributed {

class NcclChannel::Communicator {};

bool has_nccl() { return false; }

std::string new_nccl_id(const std::string&) {
  fail("several ranks on GPUs need NCCL, which this build does not have");
}

const cuda::LibraryMemory& nccl_memory() {
  new_nccl_id("");
  throw Bug("unreachable");
}

NcclChannel::NcclChannel(const Options&, Clock::time_point) { new_nccl_id(""); }
NcclChannel::~NcclChannel() = default;

void NcclChannel::exchange(const Stream&, std::span<const Transport::Send>,
                           std::span<const Transport::Receive>, Clock::time_point) {}
void NcclChannel::sum(const Stream&, DType, int64_t, void*, Clock::time_point) {}
void NcclChannel::scatter_sum(const Stream&, DType, int64_t, const void*, void*, Clock::time_point) {}
void NcclChannel::all_gather(const Stream&, const void*, void*, size_t, Clock::time_point) {}
void NcclChannel::broadcast(const Stream&, void*, size_t, int, Clock::time_point) {}
bool NcclChannel::has_windows() const { return false; }
bool NcclChannel::begin_window(void*, size_t) { return false; }
bool NcclChannel::finish_window(void*, Clock::time_point) { return false; }
void NcclChannel::end_window(void*, Clock::time_point) {}
void NcclChannel::wait(const cuda::Event&, Clock::time_point) {}

}  // namespace reprise::distributed
