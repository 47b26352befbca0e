// A graph of cuDNN's operations and what it computes, operation by operation. Used in builds with REPRISE_CUDA=EMULATED
// only.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <map>
#include <vector>

namespace reprise::kernels::emulated {

struct CudnnTensor {
  int64_t id = 0, alignment = 0;
  cudnnDataType_t type{};
  std::vector<int64_t> shape, strides;
  bool is_virtual = false;  ///< between two operations
  bool by_value = false;    ///< a number of the host

  int64_t numel() const;
  int64_t extent() const;  ///< elements from its first to behind its last
};

struct CudnnOperation {
  cudnnBackendDescriptorType_t kind{};
  cudnnPointwiseMode_t mode{};
  cudnnReduceTensorOp_t reduction{};
  int64_t axis = 0;
  std::vector<int64_t> x;  ///< ids of what it reads
  int64_t y = 0;           ///< and writes
};

struct CudnnModelGraph {
  std::map<int64_t, CudnnTensor> tensors;
  std::vector<CudnnOperation> operations;
};

/// BAD_PARAM where shapes do not fit each other; NOT_SUPPORTED for what no fused kernel takes: an operation that reads
/// what none before it writes, a tensor between operations that nothing reads.
cudnnStatus_t check_graph(const CudnnModelGraph& graph);

/// Computes in f32 and rounds each result to its tensor's type. A sum over K of a product is made of `pieces` sums, added
/// up. `memory` has an address for each id that is not virtual.
void run_graph(const CudnnModelGraph& graph, const std::map<int64_t, void*>& memory, int64_t pieces);

}  // namespace reprise::kernels::emulated
