// Convolution by cuDNN's fixed functions. The algorithm is asked for once per kind of convolution, among
// those that give the same bits every time and sum products as they are: no Winograd or Fourier transforms.
#include "reprise/kernels/conv/cudnn.h"

#include <cudnn.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <vector>

#include "reprise/kernels/cuda/cudnn_handle.h"
#include "reprise/kernels/cuda/cudnn_library.h"
#include "reprise/kernels/cuda/workspace.h"
#include "reprise/kernels/gemm/matmul_precision.h"

namespace reprise::kernels::vendor {
namespace {

constexpr size_t workspace_limit = size_t(512) << 20;

using TensorDescriptor =
    CudnnDescriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using FilterDescriptor =
    CudnnDescriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor = CudnnDescriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor,
                                              cudnnDestroyConvolutionDescriptor>;

cudnnDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return CUDNN_DATA_DOUBLE;
    case DType::f32:
      return CUDNN_DATA_FLOAT;
    default:
      throw Bug("conv2d: no cuDNN type for this dtype");  // 16 bits go elsewhere: conv2d.cu
  }
}

/// Which of the three: the values only tell keys apart.
enum class Pass : uint8_t { forward, dx, dweight };

struct Algorithm {
  int number;
  cudnnMathType_t math;
  size_t workspace_bytes;
};

/// cuDNN's words for one convolution. Sizes fit its integers.
struct Problem {
  TensorDescriptor x, y;
  FilterDescriptor weight;
  ConvolutionDescriptor convolution;
  bool wide;   ///< factors are doubles
  bool exact;  ///< products of f32 are not to be rounded to TF32

  Problem(const TensorView& x_view, const TensorView& w, const TensorView& y_view, const Conv2dOptions& o)
      : wide(x_view.dtype == DType::f64),
        exact(x_view.dtype == DType::f32 && matmul_precision() == MatmulPrecision::highest) {
    const cudnnDataType_t type = type_of(x_view.dtype);
    set_tensor(x, type, x_view.shape);
    set_tensor(y, type, y_view.shape);
    check_cudnn(cudnnSetFilter4dDescriptor(weight, type, CUDNN_TENSOR_NCHW, int(w.size(0)), int(w.size(1)),
                                           int(w.size(2)), int(w.size(3))),
                "cudnnSetFilter4dDescriptor", w.shape);
    check_cudnn(cudnnSetConvolution2dDescriptor(
                    convolution, int(o.padding.height), int(o.padding.width), int(o.stride.height),
                    int(o.stride.width), int(o.dilation.height), int(o.dilation.width),
                    CUDNN_CROSS_CORRELATION, wide ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT),
                "cudnnSetConvolution2dDescriptor", x_view.shape, " by ", w.shape);
    check_cudnn(cudnnSetConvolutionGroupCount(convolution, int(o.groups)), "cudnnSetConvolutionGroupCount",
                o.groups);
    set_math(exact ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH);
  }

  void set_math(cudnnMathType_t math) {
    check_cudnn(cudnnSetConvolutionMathType(convolution, math), "cudnnSetConvolutionMathType", int(math));
  }
  const void* factor(int value) const {
    static constexpr float floats[] = {0, 1};
    static constexpr double doubles[] = {0, 1};
    return wide ? static_cast<const void*>(doubles + value) : floats + value;
  }

  static void set_tensor(cudnnTensorDescriptor_t to, cudnnDataType_t type, const Shape& shape) {
    check_cudnn(cudnnSetTensor4dDescriptor(to, CUDNN_TENSOR_NCHW, type, int(shape[0]), int(shape[1]),
                                           int(shape[2]), int(shape[3])),
                "cudnnSetTensor4dDescriptor", shape);
  }
};

/// The best of cuDNN's proposals that is fit, and in `allowed`.
template <class Proposal, class Ask, class Number>
std::optional<Algorithm> ask_algorithm(const char* call, Ask&& ask, std::initializer_list<Number> allowed) {
  std::array<Proposal, 16> proposals{};
  int count = 0;
  const cudnnStatus_t status = ask(int(proposals.size()), &count, proposals.data());
  if (is_unsupported(status)) return {};
  check_cudnn(status, call);
  for (int i = 0; i < count; ++i) {
    const Proposal& p = proposals[size_t(i)];
    if (p.status == CUDNN_STATUS_SUCCESS && p.determinism == CUDNN_DETERMINISTIC &&
        p.memory <= workspace_limit && std::find(allowed.begin(), allowed.end(), p.algo) != allowed.end())
      return Algorithm{int(p.algo), p.mathType, p.memory};
  }
  return {};
}

std::optional<Algorithm> ask_algorithm(Pass pass, cudnnHandle_t handle, const Problem& p) {
  switch (pass) {
    case Pass::forward:
      return ask_algorithm<cudnnConvolutionFwdAlgoPerf_t>(
          "cudnnGetConvolutionForwardAlgorithm_v7",
          [&](int limit, int* count, auto* out) {
            return cudnnGetConvolutionForwardAlgorithm_v7(handle, p.x, p.weight, p.convolution, p.y, limit,
                                                          count, out);
          },
          {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
           CUDNN_CONVOLUTION_FWD_ALGO_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_DIRECT});
    case Pass::dx:
      return ask_algorithm<cudnnConvolutionBwdDataAlgoPerf_t>(
          "cudnnGetConvolutionBackwardDataAlgorithm_v7",
          [&](int limit, int* count, auto* out) {
            return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, p.weight, p.y, p.convolution, p.x,
                                                               limit, count, out);
          },
          {CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1});
    case Pass::dweight:
      return ask_algorithm<cudnnConvolutionBwdFilterAlgoPerf_t>(
          "cudnnGetConvolutionBackwardFilterAlgorithm_v7",
          [&](int limit, int* count, auto* out) {
            return cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, p.x, p.y, p.convolution, p.weight,
                                                                 limit, count, out);
          },
          {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1,
           CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3});
  }
  throw Bug("conv2d: unknown pass");
}

/// Whether all sizes fit cuDNN's 32-bit integers, and there is something to multiply.
bool fits(const TensorView& x, const TensorView& w, const TensorView& y, const Conv2dOptions& o) {
  constexpr int64_t largest = 0x7fffffff;
  int64_t most = std::max({x.numel(), w.numel(), y.numel(), o.groups});
  for (Size2 size : {o.stride, o.padding, o.dilation}) most = std::max({most, size.height, size.width});
  return most <= largest && std::min({x.numel(), w.numel(), y.numel()}) > 0;
}

/// The algorithm, asked for once while the CudnnScope is held.
std::optional<Algorithm> algorithm_of(Pass pass, cudnnHandle_t handle, const Problem& problem,
                                      const TensorView& x, const TensorView& w, const Conv2dOptions& o) {
  static auto& known = *new std::map<std::vector<int64_t>, std::optional<Algorithm>>;
  std::vector<int64_t> key{int64_t(pass),     x.device.index,   int64_t(x.dtype), problem.exact,
                           o.stride.height,   o.stride.width,   o.padding.height, o.padding.width,
                           o.dilation.height, o.dilation.width, o.groups};
  key.insert(key.end(), x.shape.begin(), x.shape.end());
  key.insert(key.end(), w.shape.begin(), w.shape.end());
  auto at = known.find(key);
  if (at == known.end()) at = known.emplace(key, ask_algorithm(pass, handle, problem)).first;
  return at->second;
}

/// Calls body(handle, problem, algorithm, workspace) if cuDNN has an algorithm for the pass.
template <class Body>
bool run(Pass pass, const Stream& stream, const TensorView& x, const TensorView& w, const TensorView& y,
         const Conv2dOptions& options, Body&& body) {
  if (!has_cudnn() || !fits(x, w, y, options)) return false;
  CudnnScope scope(stream);
  Problem problem(x, w, y, options);
  const auto algorithm = algorithm_of(pass, scope.handle(), problem, x, w, options);
  if (!algorithm) return false;
  if (!problem.exact) problem.set_math(algorithm->math);  // the default one may round to TF32
  device::Workspace workspace(stream, algorithm->workspace_bytes);
  body(scope.handle(), problem, *algorithm, workspace.as<void>());
  return true;
}

/// Adds the bias of each channel to images that are written.
void add_bias(cudnnHandle_t handle, const Problem& p, const TensorView& bias, cudnnTensorDescriptor_t of,
              const TensorView& images) {
  TensorDescriptor channels;
  Problem::set_tensor(channels, type_of(bias.dtype), {1, bias.size(0), 1, 1});
  check_cudnn(cudnnAddTensor(handle, p.factor(1), channels, bias.data, p.factor(1), of, images.data),
              "cudnnAddTensor", bias.shape, " to ", images.shape);
}

}  // namespace

bool cudnn_conv2d(const Stream& stream, const Conv2dArguments& arguments) {
  const auto& [x, weight, bias, options, y] = arguments;
  auto body = [&](cudnnHandle_t handle, const Problem& p, const Algorithm& algorithm, void* workspace) {
    check_cudnn(cudnnConvolutionForward(handle, p.factor(1), p.x, x.data, p.weight, weight.data,
                                        p.convolution, cudnnConvolutionFwdAlgo_t(algorithm.number), workspace,
                                        algorithm.workspace_bytes, p.factor(0), p.y, y.data),
                "cudnnConvolutionForward", x.shape, " by ", weight.shape, ", algorithm ", algorithm.number);
    if (bias) add_bias(handle, p, bias, p.y, y);
  };
  return run(Pass::forward, stream, x, weight, y, options, body);
}

bool cudnn_conv2d_dx(const Stream& stream, const Conv2dDxArguments& arguments) {
  const auto& [dy, weight, bias, options, dx] = arguments;
  auto body = [&](cudnnHandle_t handle, const Problem& p, const Algorithm& algorithm, void* workspace) {
    check_cudnn(cudnnConvolutionBackwardData(handle, p.factor(1), p.weight, weight.data, p.y, dy.data,
                                             p.convolution, cudnnConvolutionBwdDataAlgo_t(algorithm.number),
                                             workspace, algorithm.workspace_bytes, p.factor(0), p.x, dx.data),
                "cudnnConvolutionBackwardData", dx.shape, " by ", weight.shape, ", algorithm ",
                algorithm.number);
    if (bias) add_bias(handle, p, bias, p.x, dx);
  };
  return run(Pass::dx, stream, dx, weight, dy, options, body);
}

bool cudnn_conv2d_dweight(const Stream& stream, const Conv2dDweightArguments& arguments) {
  const auto& [dy, x, options, dweight] = arguments;
  auto body = [&](cudnnHandle_t handle, const Problem& p, const Algorithm& algorithm, void* workspace) {
    check_cudnn(
        cudnnConvolutionBackwardFilter(handle, p.factor(1), p.x, x.data, p.y, dy.data, p.convolution,
                                       cudnnConvolutionBwdFilterAlgo_t(algorithm.number), workspace,
                                       algorithm.workspace_bytes, p.factor(0), p.weight, dweight.data),
        "cudnnConvolutionBackwardFilter", x.shape, " by ", dweight.shape, ", algorithm ", algorithm.number);
  };
  return run(Pass::dweight, stream, x, dweight, dy, options, body);
}

}  // namespace reprise::kernels::vendor
