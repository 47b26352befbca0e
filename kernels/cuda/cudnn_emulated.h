// The emulator's model of cuDNN's graphs, so that the files that ship run without a GPU: descriptors and their rules
// (cudnn_emulated.cpp), and the operations of a graph, one by one on the CPU (cudnn_emulated_graph.h). Convolutions are not
// in it. Used in builds with REPRISE_CUDA=EMULATED only.
#pragma once

#include <cstdint>

namespace reprise::kernels::emulated {

enum class CudnnModel : uint8_t {
  none,   ///< there is no such library: our own kernels run
  plain,  ///< one engine, whose sums run in order
  /// What the library may do as well: the first engine gives other bits each time, the second takes no graph, the third
  /// needs a workspace, and the order of its sums depends on which of a graph's tensors lie in memory.
  unkind
};
/// REPRISE_EMULATOR_CUDNN=none|plain|unkind; `none` if it is not set.
CudnnModel cudnn_model();

/// Calls of cudnnBackendExecute that have been enqueued.
int64_t cudnn_runs();

}  // namespace reprise::kernels::emulated
