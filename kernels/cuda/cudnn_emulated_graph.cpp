// The operations of cuDNN's graphs on the CPU. Every tensor is held whole, as f32 in the order of its indices.
//
// Source of the rules: NVIDIA's cuDNN documentation, "Graph API" (operations, their shapes and broadcasting).
#include "reprise/kernels/cuda/cudnn_emulated_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "reprise/core/dtype.h"
#include "reprise/core/error.h"
#include "reprise/kernels/cuda/cudnn_emulated_numbers.h"

namespace reprise::kernels::emulated {
namespace {

constexpr int rank = 4;
using Index = std::array<int64_t, rank>;
using Values = std::vector<float>;

template <class Use>
void for_each_index(const std::vector<int64_t>& shape, Use&& use) {
  Index i{};
  int64_t at = 0;
  for (i[0] = 0; i[0] < shape[0]; ++i[0])
    for (i[1] = 0; i[1] < shape[1]; ++i[1])
      for (i[2] = 0; i[2] < shape[2]; ++i[2])
        for (i[3] = 0; i[3] < shape[3]; ++i[3]) use(i, at++);
}

int64_t offset_of(const CudnnTensor& x, const Index& i) {
  int64_t offset = 0;
  for (size_t dim = 0; dim < rank; ++dim) offset += i[dim] * x.strides[dim];
  return offset;
}

/// The place in x's values that belongs to index `i` of a tensor of `shape`: a dimension of size 1 holds for all, and a
/// smaller one for groups of equal size.
int64_t place_of(const CudnnTensor& x, const Index& i, const std::vector<int64_t>& shape) {
  int64_t at = 0;
  for (size_t dim = 0; dim < rank; ++dim) at = at * x.shape[dim] + i[dim] * x.shape[dim] / shape[dim];
  return at;
}

bool divides(const std::vector<int64_t>& small, const std::vector<int64_t>& large, size_t dims = rank) {
  for (size_t dim = 0; dim < dims; ++dim)
    if (large[dim] % small[dim] != 0) return false;
  return true;
}

float rounded(float x, cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_HALF:
      return float(Float16(x));
    case CUDNN_DATA_BFLOAT16:
      return float(BFloat16(x));
    default:
      return x;  // indices and conditions are small whole numbers
  }
}

float pointwise(cudnnPointwiseMode_t mode, const std::array<float, 3>& x, int64_t index) {
  switch (mode) {
    case CUDNN_POINTWISE_ADD:
      return x[0] + x[1];
    case CUDNN_POINTWISE_SUB:
      return x[0] - x[1];
    case CUDNN_POINTWISE_MUL:
      return x[0] * x[1];
    case CUDNN_POINTWISE_DIV:
      return x[0] / x[1];
    case CUDNN_POINTWISE_EXP:
      return std::exp(x[0]);
    case CUDNN_POINTWISE_LOG:
      return std::log(x[0]);
    case CUDNN_POINTWISE_GEN_INDEX:
      return float(index);
    case CUDNN_POINTWISE_CMP_GE:
      return x[0] >= x[1] ? 1 : 0;
    case CUDNN_POINTWISE_BINARY_SELECT:
      return x[2] != 0 ? x[0] : x[1];
    default:
      throw Bug("emulated cuDNN: an unknown pointwise mode");
  }
}

class Run {
 public:
  Run(const CudnnModelGraph& graph, const std::map<int64_t, void*>& memory, int64_t pieces)
      : graph_(graph), memory_(memory), pieces_(pieces) {}

  void run() {
    for (const CudnnOperation& operation : graph_.operations) {
      const CudnnTensor& y = tensor(operation.y);
      Values result = compute(operation, y);
      for (float& value : result) value = rounded(value, y.type);
      values_[y.id] = std::move(result);
      if (!y.is_virtual) store(y);
    }
  }

 private:
  const CudnnTensor& tensor(int64_t id) const { return graph_.tensors.at(id); }

  /// What an operation before has written, or memory holds.
  const Values& values(int64_t id) {
    auto at = values_.find(id);
    if (at != values_.end()) return at->second;
    const CudnnTensor& x = tensor(id);
    Values loaded(size_t(x.numel()));
    for_each_index(x.shape, [&](const Index& i, int64_t place) {
      loaded[size_t(place)] = float(read_number(memory_.at(id), offset_of(x, i), x.type));
    });
    return values_[id] = std::move(loaded);
  }

  void store(const CudnnTensor& y) {
    const Values& from = values_.at(y.id);
    for_each_index(y.shape, [&](const Index& i, int64_t place) {
      write_number(memory_.at(y.id), offset_of(y, i), y.type, double(from[size_t(place)]));
    });
  }

  Values compute(const CudnnOperation& operation, const CudnnTensor& y) {
    switch (operation.kind) {
      case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return pointwise_of(operation, y);
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        return product_of(operation, y);
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        return reduction_of(operation, y);
      default:
        return reshape_of(operation, y);
    }
  }

  Values pointwise_of(const CudnnOperation& operation, const CudnnTensor& y) {
    Values result(size_t(y.numel()));
    for (int64_t id : operation.x) values(id);
    for_each_index(y.shape, [&](const Index& i, int64_t place) {
      std::array<float, 3> x{};
      for (size_t n = 0; n < operation.x.size(); ++n)
        x[n] = values_.at(operation.x[n])[size_t(place_of(tensor(operation.x[n]), i, y.shape))];
      result[size_t(place)] = emulated::pointwise(operation.mode, x, i[size_t(operation.axis)]);
    });
    return result;
  }

  /// Factors have one type: an f32 one beside 16 bits is rounded to them first.
  Values product_of(const CudnnOperation& operation, const CudnnTensor& c) {
    const CudnnTensor &a = tensor(operation.x[0]), &b = tensor(operation.x[1]);
    const Values &left = values(a.id), &right = values(b.id);
    const cudnnDataType_t type = a.type == CUDNN_DATA_FLOAT ? b.type : a.type;
    const int64_t k = a.shape[3], piece = std::max<int64_t>(1, (k + pieces_ - 1) / pieces_);
    Values result(size_t(c.numel()));
    for_each_index(c.shape, [&](const Index& i, int64_t place) {
      const int64_t row = place_of(a, {i[0], i[1], i[2], 0}, {c.shape[0], c.shape[1], c.shape[2], 1});
      const int64_t column = place_of(b, {i[0], i[1], 0, i[3]}, {c.shape[0], c.shape[1], 1, c.shape[3]});
      float total = 0;
      for (int64_t begin = 0; begin < k; begin += piece) {
        float sum = 0;
        for (int64_t p = begin; p < std::min(k, begin + piece); ++p)
          sum += rounded(left[size_t(row + p)], type) * rounded(right[size_t(column + p * b.shape[3])], type);
        total += sum;
      }
      result[size_t(place)] = total;
    });
    return result;
  }

  Values reduction_of(const CudnnOperation& operation, const CudnnTensor& y) {
    const CudnnTensor& x = tensor(operation.x[0]);
    const bool adds = operation.reduction == CUDNN_REDUCE_TENSOR_ADD;
    Values result(size_t(y.numel()), adds ? 0.0f : -INFINITY);
    const Values& from = values(x.id);
    for_each_index(x.shape, [&](const Index& i, int64_t place) {
      float& to = result[size_t(place_of(y, i, x.shape))];
      to = adds ? to + from[size_t(place)] : std::max(to, from[size_t(place)]);
    });
    return result;
  }

  /// y sees the memory of x by its own shape and strides.
  Values reshape_of(const CudnnOperation& operation, const CudnnTensor& y) {
    const CudnnTensor& x = tensor(operation.x[0]);
    Values all(size_t(x.extent())), result(size_t(y.numel()));
    const Values& from = values(x.id);
    for_each_index(
        x.shape, [&](const Index& i, int64_t place) { all[size_t(offset_of(x, i))] = from[size_t(place)]; });
    for_each_index(y.shape, [&](const Index& i, int64_t place) {
      result[size_t(place)] = all[size_t(offset_of(y, i))];
    });
    return result;
  }

  const CudnnModelGraph& graph_;
  const std::map<int64_t, void*>& memory_;
  const int64_t pieces_;
  std::map<int64_t, Values> values_;
};

cudnnStatus_t check_shapes(const CudnnModelGraph& graph, const CudnnOperation& operation) {
  const CudnnTensor &y = graph.tensors.at(operation.y), &a = graph.tensors.at(operation.x[0]);
  const auto mismatch = CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
  switch (operation.kind) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      for (int64_t id : operation.x)
        if (!divides(graph.tensors.at(id).shape, y.shape)) return mismatch;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: {
      const CudnnTensor& b = graph.tensors.at(operation.x[1]);
      const bool fits = divides(a.shape, y.shape, 2) && divides(b.shape, y.shape, 2) &&
                        a.shape[2] == y.shape[2] && b.shape[3] == y.shape[3] && a.shape[3] == b.shape[2];
      return fits ? CUDNN_STATUS_SUCCESS : mismatch;
    }
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return divides(y.shape, a.shape) ? CUDNN_STATUS_SUCCESS : mismatch;
    default:
      return a.numel() == y.numel() && a.extent() == y.extent() ? CUDNN_STATUS_SUCCESS : mismatch;
  }
}

}  // namespace

int64_t CudnnTensor::numel() const {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return count;
}

int64_t CudnnTensor::extent() const {
  int64_t last = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim) last += (shape[dim] - 1) * strides[dim];
  return last + 1;
}

cudnnStatus_t check_graph(const CudnnModelGraph& graph) {
  std::set<int64_t> written, seen;
  for (const CudnnOperation& operation : graph.operations) {
    if (const cudnnStatus_t status = check_shapes(graph, operation); status != CUDNN_STATUS_SUCCESS)
      return status;
    for (int64_t id : operation.x) {
      seen.insert(id);
      if (graph.tensors.at(id).is_virtual && !written.contains(id))
        return CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
    }
    if (!written.insert(operation.y).second || graph.tensors.at(operation.y).by_value)
      return CUDNN_STATUS_BAD_PARAM;
  }
  for (const auto& [id, tensor] : graph.tensors)
    if (tensor.is_virtual && !seen.contains(id)) return CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
  return CUDNN_STATUS_SUCCESS;
}

void run_graph(const CudnnModelGraph& graph, const std::map<int64_t, void*>& memory, int64_t pieces) {
  Run(graph, memory, pieces).run();
}

}  // namespace reprise::kernels::emulated
