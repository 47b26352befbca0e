// The emulator's model of cuDNN, so that the files that ship run without a GPU: descriptors of graphs and their rules
// (cudnn_emulated.cpp), the operations of a graph, one by one on the CPU (cudnn_emulated_graph.h), and the fixed functions
// of convolution (cudnn_emulated_convolution.h). Used in builds with REPRISE_CUDA=EMULATED only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "reprise/core/cuda/emulated_memory.h"

namespace reprise::kernels::emulated {

enum class CudnnModel : uint8_t {
  none,   ///< there is no such library: our own kernels run
  plain,  ///< one engine, whose sums run in order
  /// What the library may do as well: the first engine gives other bits each time, the second takes no graph, the third
  /// needs a workspace, and the order of its sums depends on which of a graph's tensors lie in memory. Of a convolution the
  /// first proposals are as bad.
  unkind
};
/// REPRISE_EMULATOR_CUDNN=none|plain|unkind; `none` if it is not set.
CudnnModel cudnn_model();

/// Graphs and convolutions that have been enqueued, and the number of the next one, counting it.
int64_t cudnn_runs();
int64_t next_cudnn_run();

inline bool is_on_device(const void* data, size_t bytes) {
  return cuda::emulated::kind_of(data, bytes) == cuda::emulated::MemoryKind::device;
}

/// A function of the library by its name and address.
template <class Function>
std::pair<std::string_view, void*> entry(std::string_view name, Function* function) {
  return {name, reinterpret_cast<void*>(function)};
}

}  // namespace reprise::kernels::emulated
