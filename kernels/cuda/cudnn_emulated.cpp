// The model of cuDNN: its backend's descriptors, what each takes, engines and plans. What a graph computes is in
// cudnn_emulated_graph.cpp.
//
// Source of the rules: NVIDIA's cuDNN documentation, "Graph API" (descriptors, their attributes and when they are
// finalized; fused attention), and the comments of cudnn_graph.h. Where these leave something open, the model refuses it.
#include "reprise/kernels/cuda/cudnn_emulated.h"

#include <cudnn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "reprise/core/cuda/emulated_queue.h"
#include "reprise/core/cuda/runtime.h"
#include "reprise/core/error.h"
#include "reprise/kernels/cuda/cudnn_emulated_convolution.h"
#include "reprise/kernels/cuda/cudnn_emulated_descriptor.h"
#include "reprise/kernels/cuda/cudnn_emulated_graph.h"
#include "reprise/kernels/cuda/cudnn_emulated_numbers.h"
#include "reprise/kernels/cuda/cudnn_library.h"

namespace reprise::kernels {
namespace emulated {
namespace {

using Status = cudnnStatus_t;
constexpr Status ok = CUDNN_STATUS_SUCCESS, bad = CUDNN_STATUS_BAD_PARAM,
                 unsupported = CUDNN_STATUS_NOT_SUPPORTED;

std::atomic<int64_t> runs{0};

CudnnModel model_from_environment() {
  const char* text = std::getenv("REPRISE_EMULATOR_CUDNN");
  const std::string_view name = text ? text : "none";
  if (name == "none") return CudnnModel::none;
  if (name == "plain") return CudnnModel::plain;
  check(name == "unkind", "REPRISE_EMULATOR_CUDNN: needs none, plain or unkind, got '", name, "'");
  return CudnnModel::unkind;
}

/// Of fused attention: factors in memory have 16 bits, rows of 8 of them, and one of the last two dimensions is dense.
Status check_factors(const CudnnModelGraph& graph) {
  for (const CudnnOperation& operation : graph.operations) {
    if (operation.kind != matmul_type) continue;
    for (int64_t id : operation.x) {
      const CudnnTensor& x = graph.tensors.at(id);
      if (x.is_virtual) continue;
      if (size_of(x.type) != 2) return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
      const size_t dense = x.strides[3] == 1 ? 3 : 2;
      if (x.strides[dense] != 1 || x.shape[dense] % 8 != 0) return CUDNN_STATUS_NOT_SUPPORTED_LAYOUT;
      for (size_t dim = 0; dim < 4; ++dim)
        if (dim != dense && x.strides[dim] % 8 != 0) return CUDNN_STATUS_NOT_SUPPORTED_LAYOUT;
    }
  }
  return ok;
}

Status finalize_graph(Backend& it) {
  if (!it.one<cudnnHandle_t>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE)) return bad;
  for (cudnnBackendDescriptor_t each : it.all<cudnnBackendDescriptor_t>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    const auto* operation = static_cast<const Backend*>(each);
    if (!operation || !operation->finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    it.graph.operations.push_back(operation->operation);
    it.graph.tensors.insert(operation->graph.tensors.begin(), operation->graph.tensors.end());
  }
  if (it.graph.operations.empty()) return bad;
  if (const Status status = check_graph(it.graph); status != ok) return status;
  return check_factors(it.graph);
}

/// The engines for a graph, best first.
Status finalize_heuristic(Backend& it) {
  const Backend* graph = it.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  if (!graph) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  it.graph = graph->graph;
  const auto mode = it.one<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE);
  if (cudnn_model() == CudnnModel::plain) {
    it.engines = {Engine{}};
  } else if (mode == CUDNN_HEUR_MODE_FALLBACK) {
    int64_t in_memory = 0;
    for (const auto& [id, x] : it.graph.tensors) in_memory += !x.is_virtual;
    it.engines = {Engine{.pieces = 2 + in_memory % 3, .workspace_bytes = 640}};
  } else {
    it.engines = {Engine{.deterministic = false}, Engine{.builds = false}};
  }
  return ok;
}

Status finalize_plan(Backend& it) {
  const auto handle = it.one<cudnnHandle_t>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
  const Backend* config = it.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  if (!handle || !config || config->engines.empty()) return bad;
  // It compiles and loads kernels, which is no work for a stream.
  if (handle->stream && cuda::is_capturing(handle->stream)) return CUDNN_STATUS_INTERNAL_ERROR;
  if (!config->engines.front().builds) return unsupported;
  it.graph = config->graph;
  it.engines = config->engines;
  return ok;
}

Status finalize_pack(Backend& it) {
  const auto ids = it.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = it.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (ids.size() != pointers.size()) return bad;
  for (size_t i = 0; i < ids.size(); ++i)
    if (!it.pointers.emplace(ids[i], pointers[i]).second) return CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES;
  it.workspace = it.one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  return ok;
}

Status finalize_by_type(Backend& it) {
  switch (it.type) {
    case tensor_type:
      return finalize_tensor(it);
    case pointwise_type:
    case matmul_type:
    case reduction_type:
    case reshape_type:
      return finalize_operation(it);
    case graph_type:
      return finalize_graph(it);
    case heuristic_type:
      return finalize_heuristic(it);
    case plan_type:
      return finalize_plan(it);
    case pack_type:
      return finalize_pack(it);
    default:
      return ok;
  }
}

Status finalize(cudnnBackendDescriptor_t descriptor) {
  auto* backend = static_cast<Backend*>(descriptor);
  if (!backend || backend->finalized) return bad;
  const Status status = finalize_by_type(*backend);
  backend->finalized = status == ok;
  return status;
}

/// Gives the engines of a heuristic, or that of a configuration, to descriptors of the caller's.
Status give_engines(const Backend& from, int64_t wanted, int64_t* count, void* to) {
  auto* handles = static_cast<cudnnBackendDescriptor_t*>(to);
  *count = int64_t(from.engines.size());
  for (int64_t i = 0; i < std::min(wanted, *count); ++i) {
    auto* result = static_cast<Backend*>(handles[i]);
    if (!result || result->finalized) return bad;
    result->graph = from.graph;
    result->engines = {from.engines[size_t(i)]};
    result->finalized = true;
  }
  return ok;
}

Status get_attribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                     cudnnBackendAttributeType_t type, int64_t wanted, int64_t* count, void* to) {
  const auto* backend = static_cast<const Backend*>(descriptor);
  if (!backend || !backend->finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
      return give_engines(*backend, wanted, count, to);
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: {
      if (type != CUDNN_TYPE_NUMERICAL_NOTE) return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
      auto* notes = static_cast<cudnnBackendNumericalNote_t*>(to);
      *count = 1;
      if (wanted > 0)
        *notes = backend->engines.front().deterministic ? CUDNN_NUMERICAL_NOTE_TENSOR_CORE
                                                        : CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
      return ok;
    }
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      if (type != CUDNN_TYPE_INT64) return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
      *static_cast<int64_t*>(to) = backend->engines.front().workspace_bytes;
      *count = 1;
      return ok;
    default:
      return unsupported;
  }
}

Status check_pointer(const CudnnTensor& x, const void* data) {
  if (!data) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (x.by_value) return ok;
  if (reinterpret_cast<uintptr_t>(data) % uintptr_t(x.alignment) != 0)
    return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
  return is_on_device(data, size_t(x.extent()) * size_of(x.type)) ? ok : bad;
}

Status execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_descriptor,
               cudnnBackendDescriptor_t pack_descriptor) {
  const auto *plan = static_cast<const Backend*>(plan_descriptor),
             *pack = static_cast<const Backend*>(pack_descriptor);
  if (!plan || !pack || !plan->finalized || !pack->finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  const Engine& engine = plan->engines.front();
  const auto bytes = size_t(engine.workspace_bytes);
  if (bytes > 0 && (!pack->workspace || !is_on_device(pack->workspace, bytes))) return bad;
  std::map<int64_t, void*> memory;
  std::map<int64_t, float> numbers;  // those of the host may change after this call
  for (const auto& [id, x] : plan->graph.tensors) {
    if (x.is_virtual) continue;
    auto at = pack->pointers.find(id);
    if (at == pack->pointers.end()) return bad;
    if (const Status status = check_pointer(x, at->second); status != ok) return status;
    if (x.by_value)
      numbers[id] = *static_cast<const float*>(at->second);
    else
      memory[id] = at->second;
  }
  const int64_t run = next_cudnn_run(), pieces = engine.deterministic ? engine.pieces : 1 + run % 3;
  cuda::emulated::enqueue(handle->stream, [graph = plan->graph, memory, numbers, pieces]() mutable {
    for (auto& [id, value] : numbers) memory[id] = &value;
    run_graph(graph, memory, pieces);
  });
  return ok;
}

Status create_descriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* to) {
  *to = new Backend{type};
  return ok;
}

Status destroy_descriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<Backend*>(descriptor);
  return ok;
}

Status create(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return ok;
}

Status set_stream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return ok;
}

const char* error_string(Status status) {
  if (status == ok) return "CUDNN_STATUS_SUCCESS";
  return status / 1000 == 2   ? "CUDNN_STATUS_BAD_PARAM"
         : status / 1000 == 3 ? "CUDNN_STATUS_NOT_SUPPORTED"
                              : "CUDNN_STATUS_INTERNAL_ERROR";
}

void last_error_string(char* message, size_t size) {
  if (size > 0) message[0] = '\0';
}

size_t version() { return CUDNN_VERSION; }

void* find_function(std::string_view name) {
  for (const auto& [known, at] :
       {entry<decltype(cudnnCreate)>("cudnnCreate", create),
        entry<decltype(cudnnSetStream)>("cudnnSetStream", set_stream),
        entry<decltype(cudnnGetVersion)>("cudnnGetVersion", version),
        entry<decltype(cudnnGetErrorString)>("cudnnGetErrorString", error_string),
        entry<decltype(cudnnGetLastErrorString)>("cudnnGetLastErrorString", last_error_string),
        entry<decltype(cudnnBackendCreateDescriptor)>("cudnnBackendCreateDescriptor", create_descriptor),
        entry<decltype(cudnnBackendDestroyDescriptor)>("cudnnBackendDestroyDescriptor", destroy_descriptor),
        entry<decltype(cudnnBackendSetAttribute)>("cudnnBackendSetAttribute", set_attribute),
        entry<decltype(cudnnBackendGetAttribute)>("cudnnBackendGetAttribute", get_attribute),
        entry<decltype(cudnnBackendFinalize)>("cudnnBackendFinalize", finalize),
        entry<decltype(cudnnBackendExecute)>("cudnnBackendExecute", execute)})
    if (known == name) return at;
  if (void* at = find_convolution_function(name)) return at;
  fail("the emulator's model of cuDNN has no ", name);
}

}  // namespace

CudnnModel cudnn_model() {
  static const CudnnModel model = model_from_environment();
  return model;
}

int64_t cudnn_runs() { return runs; }

int64_t next_cudnn_run() { return ++runs; }

}  // namespace emulated

namespace vendor {

bool has_cudnn() { return emulated::cudnn_model() != emulated::CudnnModel::none; }

void* cudnn_function(const char* name) { return emulated::find_function(name); }

}  // namespace vendor
}  // namespace reprise::kernels
