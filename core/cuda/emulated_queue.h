// The emulator's streams, for what runs on them: the launch of a kernel, and tests. Part of the library in
// builds with REPRISE_CUDA=EMULATED only.
#pragma once

#include <cstddef>
#include <functional>

namespace reprise::cuda::emulated {

/// Runs `work` in the order of the stream: at once, or later if streams are deferred. While the stream is
/// captured it is recorded instead, and runs when the graph is launched. An exception of work that runs at
/// once comes out here; of later work, where the stream is next waited for.
void enqueue(void* stream, std::function<void()> work);

/// How streams of this process run. Starts at REPRISE_EMULATOR_STREAMS=eager|deferred.
enum class Streams {
  eager,    ///< work has run when the call that enqueues it returns
  deferred  ///< work runs as late as a GPU may run it: when somebody waits for it. It shows missing waits
};
Streams streams();
void set_streams(Streams streams);

/// Work that waits to be run.
size_t pending(void* stream);

}  // namespace reprise::cuda::emulated
