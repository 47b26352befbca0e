// A descriptor of cuDNN's backend in the emulator's model: the attributes that it was given and what they mean. Used in
// builds with REPRISE_CUDA=EMULATED only.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <vector>

#include "reprise/kernels/cuda/cudnn_emulated_graph.h"

/// What the library's handle points to.
struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace reprise::kernels::emulated {

inline constexpr auto tensor_type = CUDNN_BACKEND_TENSOR_DESCRIPTOR,
                      pointwise_type = CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
                      matmul_type = CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
                      reduction_type = CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
                      reshape_type = CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
                      graph_type = CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
                      heuristic_type = CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
                      plan_type = CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
                      pack_type = CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR;

/// How a graph may be run.
struct Engine {
  bool deterministic = true, builds = true;
  int64_t pieces = 1;  ///< of a sum over K
  int64_t workspace_bytes = 0;
};

struct Attribute {
  cudnnBackendAttributeType_t type{};
  int64_t count = 0;
  std::vector<std::byte> bytes;
};

/// A descriptor: the attributes that it was given, and what they mean once it is finalized.
struct Backend {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes{};

  CudnnTensor tensor{};
  CudnnOperation operation{};
  CudnnModelGraph graph{};  ///< of an operation: its tensors
  std::vector<Engine> engines{};
  std::map<int64_t, void*> pointers{};
  void* workspace = nullptr;

  template <class T>
  std::vector<T> all(cudnnBackendAttributeName_t name) const {
    auto at = attributes.find(name);
    if (at == attributes.end()) return {};
    std::vector<T> values(static_cast<size_t>(at->second.count));
    std::memcpy(values.data(), at->second.bytes.data(), at->second.bytes.size());
    return values;
  }
  template <class T>
  T one(cudnnBackendAttributeName_t name, T otherwise = {}) const {
    auto at = attributes.find(name);
    if (at != attributes.end()) std::memcpy(&otherwise, at->second.bytes.data(), sizeof(T));
    return otherwise;
  }
  /// The finalized descriptor that an attribute names, or null.
  const Backend* part(cudnnBackendAttributeName_t name) const {
    const auto* named = static_cast<const Backend*>(one<cudnnBackendDescriptor_t>(name));
    return named && named->finalized ? named : nullptr;
  }
};

/// cudnnBackendSetAttribute: BAD_PARAM for a wrong type or count, or once finalized.
cudnnStatus_t set_attribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                            cudnnBackendAttributeType_t type, int64_t count, const void* values);

/// Reads the attributes of a tensor, of an operation.
cudnnStatus_t finalize_tensor(Backend& it);
cudnnStatus_t finalize_operation(Backend& it);

}  // namespace reprise::kernels::emulated
