// Which attributes a descriptor of cuDNN's backend takes, and what those of tensors and operations mean.
#include "reprise/kernels/cuda/cudnn_emulated_descriptor.h"

#include <algorithm>
#include <initializer_list>

#include "reprise/kernels/cuda/cudnn_emulated_numbers.h"

namespace reprise::kernels::emulated {
namespace {

using Status = cudnnStatus_t;
constexpr Status ok = CUDNN_STATUS_SUCCESS, bad = CUDNN_STATUS_BAD_PARAM,
                 unsupported = CUDNN_STATUS_NOT_SUPPORTED;

/// What may be set, with its type and the most values.
struct Rule {
  cudnnBackendDescriptorType_t descriptor;
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  size_t bytes;
  int64_t most;
};
constexpr int64_t any_count = 1 << 20;

template <class T>
constexpr Rule rule(cudnnBackendDescriptorType_t descriptor, cudnnBackendAttributeName_t name,
                    cudnnBackendAttributeType_t type, int64_t most = 1) {
  return {descriptor, name, type, sizeof(T), most};
}
constexpr Rule names(cudnnBackendDescriptorType_t descriptor, cudnnBackendAttributeName_t name,
                     int64_t most = 1) {
  return rule<cudnnBackendDescriptor_t>(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most);
}

constexpr Rule rules[] = {
    rule<int64_t>(tensor_type, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64),
    rule<cudnnDataType_t>(tensor_type, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE),
    rule<int64_t>(tensor_type, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64),
    rule<int64_t>(tensor_type, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 8),
    rule<int64_t>(tensor_type, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 8),
    rule<bool>(tensor_type, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN),
    rule<bool>(tensor_type, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN),
    rule<cudnnPointwiseMode_t>(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MODE,
                               CUDNN_TYPE_POINTWISE_MODE),
    rule<cudnnDataType_t>(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MATH_PREC,
                          CUDNN_TYPE_DATA_TYPE),
    rule<int64_t>(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64),
    rule<cudnnDataType_t>(CUDNN_BACKEND_MATMUL_DESCRIPTOR, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE),
    rule<cudnnReduceTensorOp_t>(CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_OPERATOR,
                                CUDNN_TYPE_REDUCTION_OPERATOR_TYPE),
    rule<cudnnDataType_t>(CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_COMP_TYPE,
                          CUDNN_TYPE_DATA_TYPE),
    names(pointwise_type, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR),
    names(pointwise_type, CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
    names(pointwise_type, CUDNN_ATTR_OPERATION_POINTWISE_BDESC),
    names(pointwise_type, CUDNN_ATTR_OPERATION_POINTWISE_TDESC),
    names(pointwise_type, CUDNN_ATTR_OPERATION_POINTWISE_YDESC),
    names(matmul_type, CUDNN_ATTR_OPERATION_MATMUL_DESC),
    names(matmul_type, CUDNN_ATTR_OPERATION_MATMUL_ADESC),
    names(matmul_type, CUDNN_ATTR_OPERATION_MATMUL_BDESC),
    names(matmul_type, CUDNN_ATTR_OPERATION_MATMUL_CDESC),
    names(reduction_type, CUDNN_ATTR_OPERATION_REDUCTION_DESC),
    names(reduction_type, CUDNN_ATTR_OPERATION_REDUCTION_XDESC),
    names(reduction_type, CUDNN_ATTR_OPERATION_REDUCTION_YDESC),
    names(reshape_type, CUDNN_ATTR_OPERATION_RESHAPE_XDESC),
    names(reshape_type, CUDNN_ATTR_OPERATION_RESHAPE_YDESC),
    names(graph_type, CUDNN_ATTR_OPERATIONGRAPH_OPS, any_count),
    rule<cudnnHandle_t>(graph_type, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE),
    names(heuristic_type, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH),
    rule<cudnnBackendHeurMode_t>(heuristic_type, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE),
    rule<cudnnHandle_t>(plan_type, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE),
    names(plan_type, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG),
    rule<int64_t>(pack_type, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, any_count),
    rule<void*>(pack_type, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, any_count),
    rule<void*>(pack_type, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR),
};

/// Whether an operation of `count` inputs has them all and an output; notes them.
bool take_tensors(Backend& it, std::initializer_list<cudnnBackendAttributeName_t> inputs,
                  cudnnBackendAttributeName_t output) {
  auto take = [&](cudnnBackendAttributeName_t name) {
    const Backend* tensor = it.part(name);
    if (tensor) it.graph.tensors[tensor->tensor.id] = tensor->tensor;
    return tensor ? tensor->tensor.id : 0;
  };
  for (auto name : inputs) it.operation.x.push_back(take(name));
  it.operation.y = take(output);
  return it.operation.y != 0 &&
         std::find(it.operation.x.begin(), it.operation.x.end(), 0) == it.operation.x.end();
}

Status finalize_pointwise(Backend& it) {
  const Backend* part = it.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  if (!part || !part->attributes.contains(CUDNN_ATTR_POINTWISE_MATH_PREC)) return bad;
  const auto mode = part->one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  it.operation.mode = mode;
  it.operation.axis = part->one<int64_t>(CUDNN_ATTR_POINTWISE_AXIS, -1);
  constexpr auto x = CUDNN_ATTR_OPERATION_POINTWISE_XDESC, b = CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                 t = CUDNN_ATTR_OPERATION_POINTWISE_TDESC, y = CUDNN_ATTR_OPERATION_POINTWISE_YDESC;
  const bool index = mode == CUDNN_POINTWISE_GEN_INDEX, select = mode == CUDNN_POINTWISE_BINARY_SELECT;
  if (index != (it.operation.axis >= 0) || it.operation.axis > 3) return bad;
  it.operation.axis = std::max<int64_t>(it.operation.axis, 0);
  const bool single = index || mode == CUDNN_POINTWISE_EXP || mode == CUDNN_POINTWISE_LOG;
  if (it.attributes.contains(b) == single || it.attributes.contains(t) != select) return bad;
  if (single) return take_tensors(it, {x}, y) ? ok : bad;
  return (select ? take_tensors(it, {x, b, t}, y) : take_tensors(it, {x, b}, y)) ? ok : bad;
}

}  // namespace

Status set_attribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                     cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  auto* backend = static_cast<Backend*>(descriptor);
  if (!backend || backend->finalized || count < 1 || !values) return bad;
  for (const Rule& each : rules) {
    if (each.descriptor != backend->type || each.name != name) continue;
    if (each.type != type) return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
    if (count > each.most) return CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND;
    const auto* from = static_cast<const std::byte*>(values);
    backend->attributes[name] = {type, count, {from, from + size_t(count) * each.bytes}};
    return ok;
  }
  return unsupported;
}

Status finalize_tensor(Backend& it) {
  CudnnTensor& x = it.tensor;
  x.id = it.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  x.type = it.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  x.alignment = it.one<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  x.shape = it.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  x.strides = it.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  x.is_virtual = it.one<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  x.by_value = it.one<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  if (x.id == 0 || x.alignment < int64_t(size_of(x.type)) || (x.is_virtual && x.by_value)) return bad;
  if (!it.attributes.contains(CUDNN_ATTR_TENSOR_DATA_TYPE)) return bad;
  if (x.shape.size() != 4 || x.strides.size() != 4) return unsupported;
  for (int64_t size : x.shape)
    if (size < 1) return bad;
  return ok;
}

Status finalize_operation(Backend& it) {
  it.operation.kind = it.type;
  switch (it.type) {
    case pointwise_type:
      return finalize_pointwise(it);
    case matmul_type: {
      const Backend* part = it.part(CUDNN_ATTR_OPERATION_MATMUL_DESC);
      if (!part || !part->attributes.contains(CUDNN_ATTR_MATMUL_COMP_TYPE)) return bad;
      return take_tensors(it, {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC},
                          CUDNN_ATTR_OPERATION_MATMUL_CDESC)
                 ? ok
                 : bad;
    }
    case reduction_type: {
      const Backend* part = it.part(CUDNN_ATTR_OPERATION_REDUCTION_DESC);
      if (!part || !part->attributes.contains(CUDNN_ATTR_REDUCTION_COMP_TYPE)) return bad;
      it.operation.reduction = part->one<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
      return take_tensors(it, {CUDNN_ATTR_OPERATION_REDUCTION_XDESC}, CUDNN_ATTR_OPERATION_REDUCTION_YDESC)
                 ? ok
                 : bad;
    }
    default:
      return take_tensors(it, {CUDNN_ATTR_OPERATION_RESHAPE_XDESC}, CUDNN_ATTR_OPERATION_RESHAPE_YDESC) ? ok
                                                                                                        : bad;
  }
}

}  // namespace reprise::kernels::emulated
