// Graphs of operations in the words of cuDNN's backend API: everything is a descriptor with attributes.
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <utility>

#include "reprise/kernels/cuda/cudnn_graph.h"
#include "reprise/kernels/cuda/cudnn_library.h"

namespace reprise::kernels::vendor {
namespace {

/// A descriptor of cuDNN's backend.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    check_cudnn(cudnnBackendCreateDescriptor(type, &descriptor_), "cudnnBackendCreateDescriptor", "type ",
                int(type));
  }
  ~Descriptor() {
    if (descriptor_) cudnnBackendDestroyDescriptor(descriptor_);
  }
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  Descriptor& operator=(Descriptor&&) = delete;

  cudnnBackendDescriptor_t get() const { return descriptor_; }

  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T* values,
                  int64_t count) {
    check_cudnn(cudnnBackendSetAttribute(descriptor_, name, type, count, values), "cudnnBackendSetAttribute",
                "attribute ", int(name));
    return *this;
  }
  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    return set(name, type, &value, 1);
  }
  Descriptor& set(cudnnBackendAttributeName_t name, int64_t value) {
    return set(name, CUDNN_TYPE_INT64, value);
  }
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
    return set(name, CUDNN_TYPE_DATA_TYPE, value);
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& value) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.descriptor_);
  }
  Descriptor& finalize(const char* what) {
    check_cudnn(cudnnBackendFinalize(descriptor_), "cudnnBackendFinalize", what);
    return *this;
  }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

using Id = CudnnGraph::Id;
using Kind = CudnnGraph::Kind;
using Mode = CudnnGraph::Mode;

cudnnDataType_t type_of(Kind kind) {
  switch (kind) {
    case Kind::f32:
      return CUDNN_DATA_FLOAT;
    case Kind::i32:
      return CUDNN_DATA_INT32;
    case Kind::boolean:
      return CUDNN_DATA_BOOLEAN;
    case Kind::bf16:
      return CUDNN_DATA_BFLOAT16;
    case Kind::f16:
      return CUDNN_DATA_HALF;
  }
  throw Bug("cudnn graph: unknown kind");
}

Kind kind_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return Kind::f32;
    case DType::bf16:
      return Kind::bf16;
    case DType::f16:
      return Kind::f16;
    default:
      throw Bug("cudnn graph: no kind for this dtype");
  }
}

struct PointwiseWords {
  cudnnPointwiseMode_t mode;
  cudnnDataType_t compute;
};

PointwiseWords words_of(Mode mode) {
  switch (mode) {
    case Mode::add:
      return {CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT};
    case Mode::sub:
      return {CUDNN_POINTWISE_SUB, CUDNN_DATA_FLOAT};
    case Mode::mul:
      return {CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT};
    case Mode::div:
      return {CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT};
    case Mode::exp:
      return {CUDNN_POINTWISE_EXP, CUDNN_DATA_FLOAT};
    case Mode::log:
      return {CUDNN_POINTWISE_LOG, CUDNN_DATA_FLOAT};
    case Mode::index:
      return {CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32};
    case Mode::greater_equal:
      return {CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN};
    case Mode::select:
      return {CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT};
  }
  throw Bug("cudnn graph: unknown pointwise mode");
}

/// Whether the engine of a configuration gives the same bits every time.
bool is_deterministic(const Descriptor& config) {
  const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t handle = engine.get();
  int64_t count = 0;
  check_cudnn(cudnnBackendGetAttribute(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &handle),
              "cudnnBackendGetAttribute", "a configuration's engine");
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  check_cudnn(cudnnBackendGetAttribute(handle, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                       int64_t(notes.size()), &count, notes.data()),
              "cudnnBackendGetAttribute", "an engine's notes");
  const auto end = notes.begin() + std::min(count, int64_t(notes.size()));
  return std::find(notes.begin(), end, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) == end;
}

}  // namespace

struct CudnnGraph::State {
  std::deque<Descriptor> tensors;  // tensor i has the id i + 1
  std::deque<Descriptor> parts;    // what operations are described by
  std::deque<Descriptor> operations;
  std::deque<std::pair<Id, float>> numbers;
  std::optional<Descriptor> graph, config, plan;
  int64_t workspace_bytes = 0;

  const Descriptor& tensor(Id id) const { return tensors[size_t(id - 1)]; }

  Id add_tensor(const Shape& shape, const Strides& strides, Kind kind, bool is_virtual, bool by_value) {
    const Id id = Id(tensors.size()) + 1;
    tensors.emplace_back(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
        .set(CUDNN_ATTR_TENSOR_DATA_TYPE, type_of(kind))
        .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t(16))
        .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, shape.begin(), shape.size())
        .set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides.begin(), strides.size())
        .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual)
        .set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, by_value)
        .finalize("a tensor");
    return id;
  }

  bool plan_from(const CudnnScope& scope, cudnnBackendHeurMode_t mode);
};

CudnnGraph::CudnnGraph() : state_(std::make_unique<State>()) {}
CudnnGraph::~CudnnGraph() = default;

Id CudnnGraph::memory(const TensorView& view) {
  return state_->add_tensor(view.shape, view.strides, kind_of(view.dtype), false, false);
}

Id CudnnGraph::number(float value) {
  const Id id = state_->add_tensor({1, 1, 1, 1}, {1, 1, 1, 1}, Kind::f32, false, true);
  state_->numbers.emplace_back(id, value);
  return id;
}

Id CudnnGraph::temporary(const Shape& shape, Kind kind, const Strides& strides) {
  return state_->add_tensor(shape, strides.empty() ? contiguous_strides(shape) : strides, kind, true, false);
}

void CudnnGraph::pointwise(Mode mode, const std::vector<Id>& x, Id y, int64_t axis) {
  const auto [word, compute] = words_of(mode);
  Descriptor& part = state_->parts.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  part.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, word)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, compute);
  if (mode == Mode::index) part.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
  part.finalize("a pointwise mode");
  constexpr cudnnBackendAttributeName_t places[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                    CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                    CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  Descriptor& operation = state_->operations.emplace_back(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, part);
  for (size_t i = 0; i < x.size(); ++i) operation.set(places[i], state_->tensor(x[i]));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, state_->tensor(y)).finalize("a pointwise operation");
}

void CudnnGraph::matmul(Id a, Id b, Id c) {
  Descriptor& part = state_->parts.emplace_back(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  part.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT).finalize("a matmul type");
  state_->operations.emplace_back(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_MATMUL_DESC, part)
      .set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, state_->tensor(a))
      .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, state_->tensor(b))
      .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, state_->tensor(c))
      .finalize("a matmul");
}

void CudnnGraph::reduce(Sum operation, Id x, Id y) {
  Descriptor& part = state_->parts.emplace_back(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  part.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE,
           operation == Sum::add ? CUDNN_REDUCE_TENSOR_ADD : CUDNN_REDUCE_TENSOR_MAX)
      .set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .finalize("a reduction's operator");
  state_->operations.emplace_back(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, part)
      .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, state_->tensor(x))
      .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, state_->tensor(y))
      .finalize("a reduction");
}

void CudnnGraph::reshape(Id x, Id y) {
  state_->operations.emplace_back(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, state_->tensor(x))
      .set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, state_->tensor(y))
      .finalize("a reshape");
}

/// Takes the first of the heuristic's deterministic engines that accepts the graph.
bool CudnnGraph::State::plan_from(const CudnnScope& scope, cudnnBackendHeurMode_t mode) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, *graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (cudnnBackendFinalize(heuristic.get()) != CUDNN_STATUS_SUCCESS) return false;
  constexpr int64_t most = 16;
  std::deque<Descriptor> configs;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (int64_t i = 0; i < most; ++i)
    handles.push_back(configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  int64_t count = 0;
  check_cudnn(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &count, handles.data()),
              "cudnnBackendGetAttribute", "the heuristic's results");
  for (int64_t i = 0; i < std::min(count, most); ++i) {
    if (!is_deterministic(configs[size_t(i)])) continue;
    Descriptor candidate(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    candidate.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, scope.handle())
        .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs[size_t(i)]);
    if (cudnnBackendFinalize(candidate.get()) != CUDNN_STATUS_SUCCESS) continue;
    int64_t values = 0;
    check_cudnn(cudnnBackendGetAttribute(candidate.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                         CUDNN_TYPE_INT64, 1, &values, &workspace_bytes),
                "cudnnBackendGetAttribute", "the plan's workspace");
    config.emplace(std::move(configs[size_t(i)]));
    plan.emplace(std::move(candidate));
    return true;
  }
  return false;
}

bool CudnnGraph::build(const CudnnScope& scope) {
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const Descriptor& operation : state_->operations) operations.push_back(operation.get());
  state_->graph.emplace(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  state_->graph->set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations.data(),
                     int64_t(operations.size()));
  state_->graph->set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, scope.handle());
  const cudnnStatus_t status = cudnnBackendFinalize(state_->graph->get());
  if (is_unsupported(status)) return false;
  check_cudnn(status, "cudnnBackendFinalize", "a graph of ", operations.size(), " operations");
  return state_->plan_from(scope, CUDNN_HEUR_MODE_A) || state_->plan_from(scope, CUDNN_HEUR_MODE_FALLBACK);
}

size_t CudnnGraph::workspace_bytes() const { return size_t(state_->workspace_bytes); }

void CudnnGraph::run(const CudnnScope& scope, const std::vector<Pointer>& pointers, void* workspace) const {
  std::vector<int64_t> ids;
  std::vector<void*> data;
  for (const Pointer& pointer : pointers) {
    ids.push_back(pointer.id);
    data.push_back(pointer.data);
  }
  for (auto& [id, value] : state_->numbers) {
    ids.push_back(id);
    data.push_back(&value);
  }
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids.data(), int64_t(ids.size()))
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, data.data(), int64_t(data.size()))
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace)
      .finalize("the pointers of a run");
  check_cudnn(cudnnBackendExecute(scope.handle(), state_->plan->get(), pack.get()), "cudnnBackendExecute",
              data.size(), " tensors");
}

}  // namespace reprise::kernels::vendor
