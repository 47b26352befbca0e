// Descriptors, proposals and products of convolution in the model of cuDNN. An algorithm differs from another in what it
// rounds and in which order it adds, as far as the library leaves that open:
// - products of f32 are rounded to TF32 unless the math type is FMA;
// - Winograd's transforms are modelled as factors of 8 digits, which no test of exact sums overlooks;
// - one that is not deterministic adds from the other end in each second run.
//
// Source of the rules: NVIDIA's cuDNN documentation, "cudnn_cnn Library" and "cudnn_ops Library".
#include "reprise/kernels/cuda/cudnn_emulated_convolution.h"

#include <cudnn.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "reprise/core/cuda/emulated_queue.h"
#include "reprise/kernels/cuda/cudnn_emulated.h"
#include "reprise/kernels/cuda/cudnn_emulated_descriptor.h"
#include "reprise/kernels/cuda/cudnn_emulated_numbers.h"

/// Four dimensions, NCHW or KCHW, contiguous.
struct cudnnTensorStruct {
  cudnnDataType_t type{};
  std::array<int64_t, 4> shape{};
};
struct cudnnFilterStruct {
  cudnnDataType_t type{};
  std::array<int64_t, 4> shape{};
};
struct cudnnConvolutionStruct {
  std::array<int64_t, 2> padding{}, stride{}, dilation{};
  int64_t groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  cudnnDataType_t compute{};
};

namespace reprise::kernels::emulated {
namespace {

using Status = cudnnStatus_t;
constexpr Status ok = CUDNN_STATUS_SUCCESS, bad = CUDNN_STATUS_BAD_PARAM,
                 unsupported = CUDNN_STATUS_NOT_SUPPORTED;
constexpr size_t unkind_workspace = 640;

template <class Struct>
Status create(Struct** to) {
  *to = new Struct;
  return ok;
}
template <class Struct>
Status destroy(Struct* descriptor) {
  delete descriptor;
  return ok;
}

template <class Struct>
Status set_shape(Struct* to, cudnnTensorFormat_t format, cudnnDataType_t type, std::array<int64_t, 4> shape) {
  if (format != CUDNN_TENSOR_NCHW) return unsupported;
  for (int64_t size : shape)
    if (size <= 0) return bad;
  *to = {type, shape};
  return ok;
}
Status set_tensor(cudnnTensorDescriptor_t to, cudnnTensorFormat_t format, cudnnDataType_t type, int n, int c,
                  int h, int w) {
  return set_shape(to, format, type, {n, c, h, w});
}
Status set_filter(cudnnFilterDescriptor_t to, cudnnDataType_t type, cudnnTensorFormat_t format, int k, int c,
                  int h, int w) {
  return set_shape(to, format, type, {k, c, h, w});
}

Status set_convolution(cudnnConvolutionDescriptor_t to, int pad_h, int pad_w, int stride_h, int stride_w,
                       int dilation_h, int dilation_w, cudnnConvolutionMode_t mode, cudnnDataType_t compute) {
  if (mode != CUDNN_CROSS_CORRELATION) return unsupported;
  if (pad_h < 0 || pad_w < 0 || stride_h <= 0 || stride_w <= 0 || dilation_h <= 0 || dilation_w <= 0)
    return bad;
  *to = {.padding = {pad_h, pad_w},
         .stride = {stride_h, stride_w},
         .dilation = {dilation_h, dilation_w},
         .compute = compute};
  return ok;
}
Status set_groups(cudnnConvolutionDescriptor_t to, int groups) {
  if (groups < 1) return bad;
  to->groups = groups;
  return ok;
}
Status set_math(cudnnConvolutionDescriptor_t to, cudnnMathType_t math) {
  to->math = math;
  return ok;
}

/// A convolution y = x * w, whichever of the three is computed.
struct Convolution {
  cudnnTensorStruct x, y;
  cudnnFilterStruct w;
  cudnnConvolutionStruct how;

  int64_t group_channels() const { return w.shape[1]; }
  int64_t group_outputs() const { return y.shape[1] / how.groups; }

  Status check() const {
    if (x.type != y.type || x.type != w.type) return bad;
    if ((x.type == CUDNN_DATA_DOUBLE) != (how.compute == CUDNN_DATA_DOUBLE)) return bad;
    if (x.shape[0] != y.shape[0] || x.shape[1] != w.shape[1] * how.groups) return bad;
    if (y.shape[1] != w.shape[0] || y.shape[1] % how.groups != 0) return bad;
    for (size_t d = 0; d < 2; ++d) {
      const int64_t window = (w.shape[d + 2] - 1) * how.dilation[d] + 1;
      const int64_t room = x.shape[d + 2] + 2 * how.padding[d] - window;
      if (room < 0 || y.shape[d + 2] != room / how.stride[d] + 1) return bad;
    }
    return ok;
  }
};

enum class Role { x, w, y };

template <class Shape>
int64_t place(const Shape& shape, int64_t a, int64_t b, int64_t c, int64_t d) {
  return ((a * shape[1] + b) * shape[2] + c) * shape[3] + d;
}

/// Calls use(at_x, at_w, at_y) for each product, in one order or its reverse.
template <class Use>
void each_product(const Convolution& k, bool reverse, Use&& use) {
  const auto& [ys, ws] = std::pair(k.y.shape, k.w.shape);
  const std::array<int64_t, 7> sizes = {ys[0], ys[1], ys[2], ys[3], ws[1], ws[2], ws[3]};
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  for (int64_t i = 0; i < count; ++i) {
    std::array<int64_t, 7> at{};
    int64_t rest = reverse ? count - 1 - i : i;
    for (size_t d = sizes.size(); d-- > 0; rest /= sizes[d]) at[d] = rest % sizes[d];
    const auto [n, o, p, q, c, r, s] = at;
    const int64_t row = p * k.how.stride[0] - k.how.padding[0] + r * k.how.dilation[0];
    const int64_t column = q * k.how.stride[1] - k.how.padding[1] + s * k.how.dilation[1];
    if (row < 0 || row >= k.x.shape[2] || column < 0 || column >= k.x.shape[3]) continue;
    const int64_t channel = o / k.group_outputs() * k.group_channels() + c;
    use(place(k.x.shape, n, channel, row, column), place(ws, o, c, r, s), place(ys, n, o, p, q));
  }
}

/// How an algorithm computes.
struct Way {
  bool winograd = false, tf32 = false, reverse = false;

  double factor(double x) const {
    if (winograd) return double(float(BFloat16(float(x))));
    if (!tf32) return x;
    const uint32_t bits = std::bit_cast<uint32_t>(float(x));
    return double(std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu));
  }
};

double number_of(const void* factor, cudnnDataType_t type) {
  return type == CUDNN_DATA_DOUBLE ? *static_cast<const double*>(factor)
                                   : double(*static_cast<const float*>(factor));
}

/// result = alpha * sums + beta * result; what stands there is not read if beta is 0.
struct Result {
  void* data;
  cudnnDataType_t type;
  int64_t numel;
  double alpha, beta;

  void write(const std::vector<double>& sums) const {
    for (int64_t i = 0; i < numel; ++i)
      write_number(data, i, type,
                   alpha * sums[size_t(i)] + (beta == 0 ? 0 : beta * read_number(data, i, type)));
  }
};

void run(const Convolution& k, Role role, Way way, const void* x, const void* w, const void* y,
         const Result& to) {
  std::vector<double> sums(static_cast<size_t>(to.numel));
  const cudnnDataType_t type = k.x.type;
  const bool wide = type == CUDNN_DATA_DOUBLE;
  auto add = [&](int64_t at, const void* a, int64_t at_a, const void* b, int64_t at_b) {
    double& sum = sums[size_t(at)];
    sum += way.factor(read_number(a, at_a, type)) * way.factor(read_number(b, at_b, type));
    if (!wide) sum = double(float(sum));
  };
  each_product(k, way.reverse, [&](int64_t at_x, int64_t at_w, int64_t at_y) {
    if (role == Role::y) add(at_y, x, at_x, w, at_w);
    if (role == Role::x) add(at_x, y, at_y, w, at_w);
    if (role == Role::w) add(at_w, y, at_y, x, at_x);
  });
  to.write(sums);
}

template <class Struct>
int64_t numel(const Struct& x) {
  return x.shape[0] * x.shape[1] * x.shape[2] * x.shape[3];
}

/// What one of the three functions was called with.
struct Call {
  cudnnHandle_t handle;
  Convolution convolution;
  Role role;
  Way way;
  const void *alpha, *beta, *x, *w, *y;
  const void* workspace;
  size_t workspace_bytes;

  Status launch() const {
    if (const Status status = convolution.check(); status != ok) return status;
    const auto& [kx, ky, kw, how] = convolution;
    const size_t bytes = size_of(kx.type);
    if (!is_on_device(x, size_t(numel(kx)) * bytes) || !is_on_device(y, size_t(numel(ky)) * bytes) ||
        !is_on_device(w, size_t(numel(kw)) * bytes))
      return bad;
    if (cudnn_model() == CudnnModel::unkind &&
        (workspace_bytes < unkind_workspace || !is_on_device(workspace, unkind_workspace)))
      return bad;
    const void* out = role == Role::x ? x : role == Role::w ? w : y;
    const Result to{const_cast<void*>(out), kx.type,
                    role == Role::x   ? numel(kx)
                    : role == Role::w ? numel(kw)
                                      : numel(ky),
                    number_of(alpha, how.compute), number_of(beta, how.compute)};
    Way exact = way;
    exact.tf32 = kx.type == CUDNN_DATA_FLOAT && how.math != CUDNN_FMA_MATH;
    const int64_t number = next_cudnn_run();
    exact.reverse = way.reverse && number % 2 == 0;
    cuda::emulated::enqueue(handle->stream, [k = convolution, r = role, exact, a = x, b = w, c = y, to] {
      run(k, r, exact, a, b, c, to);
    });
    return ok;
  }
};

Status forward(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x, const void* x_data,
               cudnnFilterDescriptor_t w, const void* w_data, cudnnConvolutionDescriptor_t how,
               cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t bytes, const void* beta,
               cudnnTensorDescriptor_t y, void* y_data) {
  const Way way{.winograd = algorithm == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED,
                .reverse = algorithm == CUDNN_CONVOLUTION_FWD_ALGO_DIRECT};
  return Call{handle, {*x, *y, *w, *how}, Role::y, way, alpha, beta, x_data, w_data, y_data, workspace, bytes}
      .launch();
}
Status backward_data(cudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t w, const void* w_data,
                     cudnnTensorDescriptor_t y, const void* y_data, cudnnConvolutionDescriptor_t how,
                     cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace, size_t bytes, const void* beta,
                     cudnnTensorDescriptor_t x, void* x_data) {
  const Way way{.winograd = algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED,
                .reverse = algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_0};
  return Call{handle, {*x, *y, *w, *how}, Role::x, way, alpha, beta, x_data, w_data, y_data, workspace, bytes}
      .launch();
}
Status backward_filter(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x, const void* x_data,
                       cudnnTensorDescriptor_t y, const void* y_data, cudnnConvolutionDescriptor_t how,
                       cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace, size_t bytes,
                       const void* beta, cudnnFilterDescriptor_t w, void* w_data) {
  const Way way{.winograd = algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED,
                .reverse = algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0};
  return Call{handle, {*x, *y, *w, *how}, Role::w, way, alpha, beta, x_data, w_data, y_data, workspace, bytes}
      .launch();
}

/// Best first. The unkind model begins with one that transforms, one whose bits differ from run to run, one that cannot be
/// run and one that takes too much memory.
template <class Proposal, class Number>
Status propose(const Convolution& k, Number winograd, Number unsteady, Number good, int limit, int* count,
               Proposal* to) {
  if (const Status status = k.check(); status != ok) return status;
  std::vector<Proposal> all;
  auto add = [&](Number algorithm, cudnnDeterminism_t determinism, Status status, size_t bytes) {
    Proposal p{};
    p.algo = algorithm;
    p.status = status;
    p.determinism = determinism;
    p.memory = bytes;
    p.mathType = k.how.math;
    all.push_back(p);
  };
  if (cudnn_model() == CudnnModel::unkind) {
    add(winograd, CUDNN_DETERMINISTIC, ok, unkind_workspace);
    add(unsteady, CUDNN_NON_DETERMINISTIC, ok, unkind_workspace);
    add(good, CUDNN_DETERMINISTIC, unsupported, 0);
    add(good, CUDNN_DETERMINISTIC, ok, size_t(1) << 40);
    add(good, CUDNN_DETERMINISTIC, ok, unkind_workspace);
  } else {
    add(good, CUDNN_DETERMINISTIC, ok, 0);
  }
  *count = std::min(limit, int(all.size()));
  std::copy_n(all.begin(), *count, to);
  return ok;
}

Status propose_forward(cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                       cudnnConvolutionDescriptor_t how, cudnnTensorDescriptor_t y, int limit, int* count,
                       cudnnConvolutionFwdAlgoPerf_t* to) {
  return propose({*x, *y, *w, *how}, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED,
                 CUDNN_CONVOLUTION_FWD_ALGO_DIRECT, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, limit,
                 count, to);
}
Status propose_data(cudnnHandle_t, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t y,
                    cudnnConvolutionDescriptor_t how, cudnnTensorDescriptor_t x, int limit, int* count,
                    cudnnConvolutionBwdDataAlgoPerf_t* to) {
  return propose({*x, *y, *w, *how}, CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED,
                 CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, limit, count, to);
}
Status propose_filter(cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t y,
                      cudnnConvolutionDescriptor_t how, cudnnFilterDescriptor_t w, int limit, int* count,
                      cudnnConvolutionBwdFilterAlgoPerf_t* to) {
  return propose({*x, *y, *w, *how}, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED,
                 CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, limit, count, to);
}

/// y = alpha x + beta y, where a dimension of x of size 1 holds for all.
Status add_tensor(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x, const void* x_data,
                  const void* beta, cudnnTensorDescriptor_t y, void* y_data) {
  if (x->type != y->type) return bad;
  for (size_t d = 0; d < 4; ++d)
    if (x->shape[d] != 1 && x->shape[d] != y->shape[d]) return bad;
  if (!is_on_device(x_data, size_t(numel(*x)) * size_of(x->type)) ||
      !is_on_device(y_data, size_t(numel(*y)) * size_of(y->type)))
    return bad;
  const auto compute = x->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  const double a = number_of(alpha, compute), b = number_of(beta, compute);
  cuda::emulated::enqueue(handle->stream, [from = *x, to = *y, x_data, y_data, a, b] {
    for (int64_t i = 0; i < numel(to); ++i) {
      int64_t rest = i, at = 0, stride = 1;
      for (size_t d = 4; d-- > 0; rest /= to.shape[d], stride *= from.shape[d])
        at += (from.shape[d] == 1 ? 0 : rest % to.shape[d]) * stride;
      write_number(y_data, i, to.type,
                   a * read_number(x_data, at, from.type) + b * read_number(y_data, i, to.type));
    }
  });
  return ok;
}

}  // namespace

void* find_convolution_function(std::string_view name) {
#define REPRISE_ENTRY(function, model) entry<decltype(function)>(#function, model)
  for (const auto& [known, at] :
       {REPRISE_ENTRY(cudnnCreateTensorDescriptor, create),
        REPRISE_ENTRY(cudnnCreateFilterDescriptor, create),
        REPRISE_ENTRY(cudnnCreateConvolutionDescriptor, create),
        REPRISE_ENTRY(cudnnDestroyTensorDescriptor, destroy),
        REPRISE_ENTRY(cudnnDestroyFilterDescriptor, destroy),
        REPRISE_ENTRY(cudnnDestroyConvolutionDescriptor, destroy),
        REPRISE_ENTRY(cudnnSetTensor4dDescriptor, set_tensor),
        REPRISE_ENTRY(cudnnSetFilter4dDescriptor, set_filter),
        REPRISE_ENTRY(cudnnSetConvolution2dDescriptor, set_convolution),
        REPRISE_ENTRY(cudnnSetConvolutionGroupCount, set_groups),
        REPRISE_ENTRY(cudnnSetConvolutionMathType, set_math),
        REPRISE_ENTRY(cudnnGetConvolutionForwardAlgorithm_v7, propose_forward),
        REPRISE_ENTRY(cudnnGetConvolutionBackwardDataAlgorithm_v7, propose_data),
        REPRISE_ENTRY(cudnnGetConvolutionBackwardFilterAlgorithm_v7, propose_filter),
        REPRISE_ENTRY(cudnnConvolutionForward, forward),
        REPRISE_ENTRY(cudnnConvolutionBackwardData, backward_data),
        REPRISE_ENTRY(cudnnConvolutionBackwardFilter, backward_filter),
        REPRISE_ENTRY(cudnnAddTensor, add_tensor)})
    if (known == name) return at;
#undef REPRISE_ENTRY
  return nullptr;
}

}  // namespace reprise::kernels::emulated
