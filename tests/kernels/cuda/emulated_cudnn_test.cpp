// The emulator's model of cuDNN refuses what the library documents as wrong or unsupported.
// also by cuDNN
#include "reprise/kernels/cuda/cudnn_emulated.h"

#include <cudnn.h>
#include <gtest/gtest.h>

#include "reprise/kernels/cuda/cudnn_library.h"
#include "reprise/tests/support/errors.h"

namespace reprise::kernels::vendor {
namespace {

constexpr auto ok = CUDNN_STATUS_SUCCESS, bad = CUDNN_STATUS_BAD_PARAM;

class CudnnModel : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_cudnn()) GTEST_SKIP() << "set REPRISE_EMULATOR_CUDNN";
  }
  void TearDown() override {
    for (cudnnBackendDescriptor_t each : made_) cudnnBackendDestroyDescriptor(each);
  }

  cudnnBackendDescriptor_t make(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = nullptr;
    EXPECT_EQ(cudnnBackendCreateDescriptor(type, &made), ok);
    return made_.emplace_back(made);
  }
  template <class T>
  static cudnnStatus_t set(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
                           cudnnBackendAttributeType_t type, const std::vector<T>& values) {
    return cudnnBackendSetAttribute(to, name, type, int64_t(values.size()), values.data());
  }
  static cudnnStatus_t name(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t as,
                            cudnnBackendDescriptor_t what) {
    return cudnnBackendSetAttribute(of, as, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &what);
  }

  /// Finalized, of 16-bit numbers unless it lies between operations.
  cudnnBackendDescriptor_t tensor(int64_t id, const std::vector<int64_t>& shape, char is_virtual = false) {
    const cudnnBackendDescriptor_t x = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    std::vector<int64_t> strides(shape.size(), 1);
    for (size_t i = shape.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * shape[i + 1];
    const auto type = is_virtual ? CUDNN_DATA_FLOAT : CUDNN_DATA_HALF;
    EXPECT_EQ(set<int64_t>(x, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, {id}), ok);
    EXPECT_EQ(set<cudnnDataType_t>(x, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, {type}), ok);
    EXPECT_EQ(set<int64_t>(x, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, {16}), ok);
    EXPECT_EQ(set(x, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, shape), ok);
    EXPECT_EQ(set(x, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides), ok);
    EXPECT_EQ(set<char>(x, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, {is_virtual}), ok);
    EXPECT_EQ(cudnnBackendFinalize(x), ok);
    return x;
  }
  cudnnBackendDescriptor_t matmul(cudnnBackendDescriptor_t a, cudnnBackendDescriptor_t b,
                                  cudnnBackendDescriptor_t c) {
    const cudnnBackendDescriptor_t part = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set<cudnnDataType_t>(part, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, {CUDNN_DATA_FLOAT});
    EXPECT_EQ(cudnnBackendFinalize(part), ok);
    const cudnnBackendDescriptor_t operation = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    name(operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, part);
    name(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    name(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    name(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    return operation;
  }
  cudnnStatus_t finalize_graph(const std::vector<cudnnBackendDescriptor_t>& operations) {
    for (cudnnBackendDescriptor_t each : operations) EXPECT_EQ(cudnnBackendFinalize(each), ok);
    static const cudnnHandle_t handle = [] {  // for the process, as the library's own
      cudnnHandle_t made = nullptr;
      EXPECT_EQ(cudnnCreate(&made), ok);
      return made;
    }();
    const cudnnBackendDescriptor_t graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations);
    cudnnBackendSetAttribute(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    return cudnnBackendFinalize(graph);
  }

 private:
  std::vector<cudnnBackendDescriptor_t> made_;
};

TEST_F(CudnnModel, ChecksAttributes) {
  const cudnnBackendDescriptor_t x = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  EXPECT_EQ(set<int64_t>(x, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_BOOLEAN, {1}),
            CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
  EXPECT_EQ(set<int64_t>(x, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, {1, 2}),
            CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND);
  EXPECT_EQ(set<int64_t>(x, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, {1}), CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(cudnnBackendFinalize(x), bad);  // of no shape
  const cudnnBackendDescriptor_t whole = tensor(7, {1, 1, 8, 8});
  EXPECT_EQ(set<int64_t>(whole, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, {1}), bad);  // it is finalized
  EXPECT_EQ(cudnnBackendFinalize(matmul(whole, x, whole)), bad);                            // x is not
}

TEST_F(CudnnModel, ChecksGraphs) {
  const auto a = tensor(1, {1, 1, 8, 16}), b = tensor(2, {1, 1, 16, 8}), c = tensor(3, {1, 1, 8, 8});
  EXPECT_EQ(finalize_graph({matmul(a, b, c)}), ok);
  EXPECT_EQ(finalize_graph({matmul(a, a, c)}), CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  EXPECT_EQ(finalize_graph({matmul(a, b, tensor(4, {1, 1, 8, 8}, true))}),
            CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);  // nobody reads it
  EXPECT_EQ(finalize_graph({matmul(tensor(5, {1, 1, 8, 16}, true), b, c)}),
            CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);  // nobody writes it
  EXPECT_EQ(finalize_graph({matmul(tensor(6, {1, 1, 8, 12}), tensor(7, {1, 1, 12, 8}), c)}),
            CUDNN_STATUS_NOT_SUPPORTED_LAYOUT);
  EXPECT_EQ(finalize_graph({}), bad);
}

TEST_F(CudnnModel, NamesAFunctionThatItLacks) {
  reprise::testing::expect_error([] { cudnn_function("cudnnRNNForward"); }, "no cudnnRNNForward");
}

}  // namespace
}  // namespace reprise::kernels::vendor
