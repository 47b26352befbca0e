// The differentiable functions. Shapes broadcast as in NumPy; every function throws Error naming itself, the
// fact and the values when shapes or dtypes do not fit.
#pragma once

#include <optional>
#include <string_view>

#include "reprise/core/random.h"
#include "reprise/core/tensor.h"
#include "reprise/kernels/conv/conv2d.h"
#include "reprise/kernels/gemm/gemm.h"

namespace reprise {

using kernels::Activation;
using kernels::Conv2dOptions;
using kernels::Size2;

// Making tensors. Nothing here is recorded.
/// @{
/// One number in each place of `shape`, on the CPU unless a device is named; `scalar` has no dimensions. Error if the
/// dtype does not have the number: a fraction in integers, or one out of range.
Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = {});
Tensor ones(const Shape& shape, DType dtype = DType::f32, Device device = {});
Tensor full(const Shape& shape, double value, DType dtype = DType::f32, Device device = {});
Tensor scalar(double value, DType dtype = DType::f32, Device device = {});
/// @}
Tensor arange(int64_t count, DType dtype = DType::i64, Device device = {});  ///< 0, 1, ..., count - 1
/// `count` numbers at equal distances, the first `start`, the last `end`.
Tensor linspace(double start, double end, int64_t count, DType dtype = DType::f32, Device device = {});
Tensor eye(int64_t rows, int64_t columns, DType dtype = DType::f32,
           Device device = {});  ///< 1 on the diagonal, else 0
/// @{
/// `zeros`, `ones`, `full`, `rand` and `randn` of the shape, dtype and device of x.
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor full_like(const Tensor& x, double value);
Tensor rand_like(const Tensor& x, Generator* generator = nullptr);
Tensor randn_like(const Tensor& x, Generator* generator = nullptr);
/// @}
/// @{
/// Uniform in [0, 1) (`rand`) and standard normal (`randn`), of a floating dtype, from `generator` (default: the
/// thread's): one offset of it per call.
Tensor rand(const Shape& shape, DType dtype = DType::f32, Device device = {}, Generator* generator = nullptr);
Tensor randn(const Shape& shape, DType dtype = DType::f32, Device device = {},
             Generator* generator = nullptr);
/// @}
/// 1 at each index, else 0: indices i64 or i32 (...) -> (..., classes). Error on an index outside [0,
/// classes).
Tensor one_hot(const Tensor& indices, int64_t classes, DType dtype = DType::f32);

// Elementwise, two arguments.
/// @{
/// Elementwise arithmetic. Dtypes that differ meet in the wider one, floating before integer; a number takes the dtype
/// of the tensor beside it, and one with a fraction is an Error beside integers. Integers wrap; a quotient of two is
/// f32. x / number is x * (1 / number).
Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator+(const Tensor& a, double b);
Tensor operator-(const Tensor& a, double b);
Tensor operator*(const Tensor& a, double b);
Tensor operator/(const Tensor& a, double b);
Tensor operator+(double a, const Tensor& b);
Tensor operator-(double a, const Tensor& b);
Tensor operator*(double a, const Tensor& b);
Tensor operator/(double a, const Tensor& b);
Tensor operator-(const Tensor& x);
/// @}
/// x^exponent, of a floating dtype, or of integers by a whole exponent of at least 0. An exponent that is a tensor:
/// autograd/ops/elementwise/powers.h.
Tensor pow(const Tensor& x, double exponent);
/// @{
/// The larger, or the smaller, of two numbers; NaN if one is. Where they are equal, each gets half the gradient.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
/// @}
/// a where the condition, bool, holds; b elsewhere. The three broadcast; outside of autocast a and b have one dtype.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
/// `value` where the mask, bool, holds; x elsewhere. The two broadcast.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);
/// @{
/// The lower or upper triangle of matrices (..., M, N), else 0: j - i <= diagonal, or >=.
Tensor tril(const Tensor& x, int64_t diagonal = 0);
Tensor triu(const Tensor& x, int64_t diagonal = 0);
/// @}
/// @{
/// Elementwise comparisons: bool, and not differentiable. Dtypes that differ meet in the wider one; NaN equals nothing.
/// As operators, and with numbers: autograd/ops/elementwise/conditions.h.
Tensor equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);
/// @}

// Elementwise, one argument. Of integers and bool square, abs and relu keep the dtype; others give f32, or are an Error.
Tensor exp(const Tensor& x);         ///< e^x
Tensor log(const Tensor& x);         ///< the natural logarithm
Tensor sqrt(const Tensor& x);        ///< the square root; NaN where x < 0
Tensor rsqrt(const Tensor& x);       ///< 1 / sqrt(x)
Tensor square(const Tensor& x);      ///< x^2; of integers too
Tensor reciprocal(const Tensor& x);  ///< 1 / x
Tensor abs(const Tensor& x);         ///< |x|, with the gradient 0 at 0; of integers too
Tensor sin(const Tensor& x);         ///< the sine of x in radians
Tensor cos(const Tensor& x);         ///< the cosine of x in radians
Tensor tanh(const Tensor& x);        ///< the hyperbolic tangent
Tensor sigmoid(const Tensor& x);     ///< 1 / (1 + e^-x)
/// The error function: 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x.
Tensor erf(const Tensor& x);
Tensor relu(const Tensor& x);       ///< max(x, 0), with the gradient 0 at 0; of integers too
Tensor gelu(const Tensor& x);       ///< x * Phi(x), exact (Hendrycks and Gimpel 2016)
Tensor gelu_tanh(const Tensor& x);  ///< the tanh approximation, as GPT-2 has it
Tensor silu(const Tensor& x);       ///< x * sigmoid(x)
Tensor huber(const Tensor& x);      ///< x^2 / 2 where |x| < 1, |x| - 1/2 beyond (Huber 1964)
/// x, but `low` where it is less, and `high` where it is more, which wins where high < low; there without gradient. A bound that is
/// not given is none: `clamp(x, 0)`, `clamp(x, {}, 1)`; all is NaN where one is. Error where both are missing.
Tensor clamp(const Tensor& x, std::optional<double> low, std::optional<double> high = {});
/// The function that `activation` names; x itself for `Activation::none`.
Tensor activate(const Tensor& x, Activation activation);

// Reductions; an empty list of dims means all. Error on a dimension listed twice.
/// The sum over `dims` (empty: all), which stay with size 1 if `keep_dims`. Of integers and bool it is i64.
Tensor sum(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);
/// The mean over `dims` (empty: all), of a floating dtype.
Tensor mean(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);
Tensor variance(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);  ///< the biased one: / n
/// @{
/// The largest, or the smallest, over `dims` (empty: all); NaN if one is there. Equal extremes share the gradient.
/// Error where there are no elements.
Tensor max(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);
Tensor min(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);
/// @}
/// sqrt(sum x^2), with the gradient 0 where it is 0.
Tensor norm(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);
/// sqrt(sum (x - mean)^2 / (n - correction)); correction 1 is PyTorch's default.
Tensor stddev(const Tensor& x, const Dims& dims = {}, int64_t correction = 1, bool keep_dims = false);
Tensor logsumexp(const Tensor& x, const Dims& dims = {},
                 bool keep_dims = false);            ///< log sum e^x, without overflow
Tensor sum_to(const Tensor& x, const Shape& shape);  ///< sums what broadcasting to x.shape() repeated

// Shapes. Views share data where strides allow.
Tensor reshape(const Tensor& x, const Shape& shape);            ///< one size may be -1
Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1);  ///< a view with the two dimensions exchanged
/// A view whose dimension i is dimension order[i] of x. Error unless `order` lists each dimension once.
Tensor permute(const Tensor& x, const Dims& order);
/// Elements begin, begin + step, ... before end. Negative bounds count from the end; Error where one lies
/// outside: nothing is clamped.
Tensor slice(const Tensor& x, int64_t dim, int64_t begin, int64_t end, int64_t step = 1);
/// Place `index` of `dim`, which goes: a view. Negative indices count from the end; Error where it lies outside.
Tensor select(const Tensor& x, int64_t dim, int64_t index);
/// x broadcast to `shape`, all sizes of which are given (no -1): a view with stride 0 where x is repeated. Error if x
/// does not broadcast to it.
Tensor expand(const Tensor& x, const Shape& shape);
Tensor unsqueeze(const Tensor& x, int64_t dim);  ///< a new dimension of size 1 at `dim`; -1: behind the last
Tensor squeeze(const Tensor& x, int64_t dim);    ///< without that dimension. Error unless its size is 1
Tensor flatten(const Tensor& x, int64_t first = 0, int64_t last = -1);  ///< dimensions first ... last as one
/// A view with dimension `from` at place `to`, and the others in their order.
Tensor movedim(const Tensor& x, int64_t from, int64_t to);
TensorList chunk(const Tensor& x, int64_t chunks,
                 int64_t dim);              ///< pieces of one size, the last may be smaller
Tensor clone(const Tensor& x);              ///< always a copy, contiguous
Tensor cast(const Tensor& x, DType dtype);  ///< x itself if it has the dtype; the gradient is cast back
/// Joined along `dim`. Error on an empty list, where other sizes differ, and, outside of autocast, where dtypes do.
Tensor concat(const TensorList& parts, int64_t dim);
/// Joined along a new dimension, at `dim`, of tensors of one shape and, outside of autocast, one dtype.
Tensor stack(const TensorList& parts, int64_t dim);
TensorList split(const Tensor& x, int64_t size, int64_t dim);  ///< pieces of `size`, the last may be smaller
/// y[..., i] = x[..., index[..., i]], along the last dimension; the index is i64 or i32. Error on one out of range.
Tensor gather(const Tensor& x, const Tensor& index);

/// What an operation gives.
struct ResultOptions {
  /// Its dtype. Where it is not the input's: with the bits of the operation in f32 and a cast. f64 for f64 alone. None: as
  /// docs/ops.md has it, which is the dtype of the input outside of autocast. Of a product it is the dtype that its sums
  /// are rounded to: in f32 the product of 16-bit numbers is not rounded at all, where a cast behind it finds 16 bits.
  std::optional<DType> out{};
};

// Linear algebra.
/// (..., M, K) x (..., K, N) -> (..., M, N); batch dimensions broadcast. A vector (K) counts as one row, or as one column
/// where it stands second, and that dimension goes again.
Tensor matmul(const Tensor& a, const Tensor& b, const ResultOptions& result = {});
Tensor outer(const Tensor& a, const Tensor& b);  ///< (M), (N) -> (M, N)

/// What follows the product of `linear`, and the last one of `mlp`, in the same pass.
struct LinearEpilogue {
  Activation activation = Activation::none;  ///< of x W^T + bias; none for `mlp`
  Tensor residual{};                         ///< added to the result, of its shape; optional
  Tensor scale{};                            ///< (out), optional: a factor for each channel (LayerScale)
  Tensor
      row_scale{};  ///< optional: a factor for each sample, of x's first dimension, without gradient (DropPath)
  /// The dtype of the result, all of the epilogue included, as ResultOptions has it. None: the wider of those of the
  /// product and the residual.
  std::optional<DType> out{};
};
/// residual + row_scale * scale * activation(x W^T + bias): x (..., in), weight (out, in), bias (out) or undefined
/// -> (..., out).
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const LinearEpilogue& options = {});

/// linear(linear(x, weight1, bias1, activation), weight2, bias2, end), keeping only x and the pre-activation. Error if
/// `end` has an activation.
Tensor mlp(const Tensor& x, const Tensor& weight1, const Tensor& bias1, const Tensor& weight2,
           const Tensor& bias2, Activation activation = Activation::gelu_tanh,
           const LinearEpilogue& end = {});

// Layers.
/// Over the last dimension (Ba et al. 2016); gamma and beta of its size, or undefined.
Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps = 1e-5,
                  const ResultOptions& result = {});
/// Over the last dimension (Zhang and Sennrich 2019).
Tensor rms_norm(const Tensor& x, const Tensor& gamma, double eps = 1e-6, const ResultOptions& result = {});

/// What `add_layer_norm` and `add_rms_norm` give.
struct SumAndNorm {
  Tensor sum;   ///< x + residual
  Tensor norm;  ///< the norm of that sum
};
/// @{
/// x + residual, of one shape, and its norm, in one pass; the bits of the two operations. Under autocast their dtypes may
/// differ: the sum has the wider. `result` is the norm's.
SumAndNorm add_layer_norm(const Tensor& x, const Tensor& residual, const Tensor& gamma, const Tensor& beta,
                          double eps = 1e-5, const ResultOptions& result = {});
SumAndNorm add_rms_norm(const Tensor& x, const Tensor& residual, const Tensor& gamma, double eps = 1e-6,
                        const ResultOptions& result = {});
/// @}

/// What follows the norm in the same pass: activation(norm + residual).
struct BatchNormEpilogue {
  Activation activation = Activation::none;  ///< none or relu
  Tensor residual{};                         ///< of x's shape; optional
};
/// Which statistics `batch_norm` normalises by, and how it updates the running ones.
struct BatchNormOptions {
  bool training = false;                 ///< normalise by the batch, and update the running statistics
  std::optional<double> momentum = 0.1;  ///< share of a batch in them; none: of n batches 1 / n each
  double eps = 1e-5;                     ///< added to the variance
  /// Counts the batches: one i64; needed without momentum, else optional.
  Tensor batches{};
  BatchNormEpilogue epilogue{};  ///< default: the norm alone
};
/// Batch normalisation of x (N, C, ...) over all dimensions but C (Ioffe and Szegedy 2015). gamma, beta: (C),
/// or undefined. running_mean, running_variance: (C) of any floating dtype; undefined to normalise by the
/// batch always. In training they get the mean and the unbiased variance of the batch, unless a checkpoint
/// plays its region again. Error in training on one value per channel; an empty batch changes nothing. Keeps x and,
/// with relu, the result: not what relu took, nor the residual.
Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& running_mean,
                  const Tensor& running_variance, const BatchNormOptions& options = {});

/// Group normalisation of x (N, C, ...) over the places and channels of each of `groups` groups of channels,
/// sample by sample (Wu and He 2018). gamma, beta: (C), or undefined. Error unless `groups` divides C.
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& gamma, const Tensor& beta,
                  double eps = 1e-5);

Tensor softmax(const Tensor& x, const ResultOptions& result = {});      ///< over the last dimension
Tensor log_softmax(const Tensor& x, const ResultOptions& result = {});  ///< over the last dimension
Tensor swiglu(const Tensor& gate, const Tensor& up);                    ///< silu(gate) * up (Shazeer 2020)
/// Rows of `weight` (V, C): indices i64 or i32 (...) -> (..., C). Error on an index out of range.
Tensor embedding(const Tensor& weight, const Tensor& indices, const ResultOptions& result = {});
/// Tokens of each sample: x (B, N, D), index i64 or i32 (B, K) -> (B, K, D); an index may come more than once. Error on one
/// outside [0, N).
Tensor take_tokens(const Tensor& x, const Tensor& index);

/// Convolution of images x (N, C, H, W) with weight (O, C / groups, P, Q), and bias (O) or undefined
/// -> (N, O, I, J): `conv2d(x, weight, bias, {.stride = 2, .padding = 1})`. The options are stride, padding,
/// dilation (each a number or {height, width}) and groups.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv2dOptions& options = {});

/// Options of `conv_transpose2d`; a Size2 is a number or {height, width}.
struct ConvTranspose2dOptions {
  Size2 stride = 1;          ///< pixels of the result from one pixel of x to the next
  Size2 padding = 0;         ///< rows and columns that each side of the result loses
  Size2 output_padding = 0;  ///< rows and columns more, below and to the right; less than the stride
  Size2 dilation = 1;        ///< pixels of the result from one place of the weight to the next
  int64_t groups = 1;        ///< groups of channels, each with weights of its own; divides C
};
/// What a checkpoint compares of a call: see autograd/attributes.h.
void for_each_attribute(const ConvTranspose2dOptions& options, const auto& visit) {
  visit(options.stride), visit(options.padding), visit(options.output_padding), visit(options.dilation);
  visit(options.groups);
}
/// The transpose of conv2d: images x (N, C, H, W) with weight (C, O / groups, P, Q), and bias (O) or undefined
/// -> (N, O, (H - 1) stride - 2 padding + dilation (P - 1) + output_padding + 1, ...).
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dOptions& options = {});

/// Options of `max_pool2d`, with PyTorch's rules; a Size2 is a number or {height, width}.
struct MaxPool2dOptions {
  std::optional<Size2> stride{};  ///< none: the kernel's size
  Size2 padding = 0;              ///< on each side, never the maximum; at most half the kernel
  Size2 dilation = 1;             ///< from one pixel of a window to the next
  /// A last window counts that is not whole, but begins in the image or its padding to the left.
  bool ceil_mode = false;
};
/// The largest pixel of each window of `kernel` pixels: images (N, C, H, W) -> (N, C, I, J). NaN wins; the gradient
/// goes to the first of equal maxima in row order. Error if padding is more than half the kernel, or no window fits.
Tensor max_pool2d(const Tensor& x, Size2 kernel, const MaxPool2dOptions& options = {});
/// Options of `avg_pool2d`, with PyTorch's rules; a Size2 is a number or {height, width}.
struct AvgPool2dOptions {
  std::optional<Size2> stride{};  ///< none: the kernel's size
  Size2 padding = 0;              ///< on each side; at most half the kernel
  bool ceil_mode = false;         ///< as in MaxPool2dOptions
  bool count_include_pad = true;  ///< whether pixels of the padding are counted, as zeros
};
/// The mean of each window of `kernel` pixels: images (N, C, H, W) -> (N, C, I, J). Errors as max_pool2d's.
Tensor avg_pool2d(const Tensor& x, Size2 kernel, const AvgPool2dOptions& options = {});

/// Of which pixels of the image one of the result is made.
enum class Interpolation : uint8_t {
  nearest,   ///< one: of H rows for I, row i is floor(i H / I)
  bilinear,  ///< 2 x 2, by distance
  bicubic    ///< 4 x 4, by Keys's cubic
};
/// Options of `interpolate`. Error on a flag beside `nearest`.
struct InterpolateOptions {
  Interpolation mode = Interpolation::nearest;  ///< bilinear or bicubic for the flags below
  bool align_corners = false;  ///< centres of the corners' pixels stay in place, not the image's edges
  bool antialias = false;      ///< weighs each pixel where the image gets smaller
};
/// Images (N, C, H, W) of another size. Bicubic by Keys (1981) with a = -0.75, with antialias a = -0.5, as PyTorch.
Tensor interpolate(const Tensor& x, Size2 size, const InterpolateOptions& options = {});

/// What a border is made of.
enum class PadMode : uint8_t {
  constant,  ///< one value
  reflect    ///< the image mirrored at its edge, which is not repeated: borders are less than its sides
};
/// The border that `pad` puts around images.
struct PadOptions {
  /// @{
  /// Rows above and below, columns to the left and right; Error if one is negative.
  int64_t top = 0, bottom = 0, left = 0, right = 0;
  /// @}
  PadMode mode = PadMode::constant;  ///< `reflect` needs a floating dtype
  double value = 0;                  ///< of a constant border
};
/// A border around the last two dimensions: of one value, or mirrored without repeating the edge (floating dtypes).
Tensor pad(const Tensor& x, const PadOptions& options);

/// Images x (N, C, H, W), cut into patches of P x Q from the left and from above, as tokens (N, T, W): patch x weight
/// (W, C, P, Q) + bias (W) or undefined (Dosovitskiy et al. 2021). Error unless the patches tile the images.
Tensor patch_embed(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                   const ResultOptions& result = {});

/// Zeroes each element with probability p, in [0, 1), and scales the rest by 1 / (1 - p). One offset of `generator`
/// (default: the thread's) per call; none, and x itself, for p = 0.
Tensor dropout(const Tensor& x, double p, Generator* generator = nullptr);

/// Options of `attention` and `packed_attention`.
struct AttentionOptions {
  bool causal = false;             ///< query t of T sees the keys up to t + S - T, of S
  double scale = 0;                ///< 0: 1 / sqrt(head_dim)
  double dropout = 0;              ///< of the probabilities, in [0, 1)
  Generator* generator = nullptr;  ///< of the dropout: one offset per call; null: the thread's
};
/// What a checkpoint compares of a call: see autograd/attributes.h.
void for_each_attribute(const AttentionOptions& options, const auto& visit) {
  visit(options.causal), visit(options.scale), visit(options.dropout);
}
/// Scaled dot-product attention: q (B, H, T, D), k and v (B, H_kv, S, D) -> (B, H, T, D). Grouped-query heads
/// where H_kv < H. No T x S matrix is kept (Dao 2023).
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});
/// Self-attention on one packed projection: qkv (B, T, 3 C) -> (B, T, C), heads of width C / heads.
Tensor packed_attention(const Tensor& qkv, int64_t heads, const AttentionOptions& options = {});

/// What a loss gives of its values, one per element or row: their mean, their sum, or all of them.
enum class Reduction : uint8_t { mean, sum, none };
/// Options of `cross_entropy`.
struct CrossEntropyOptions {
  int64_t ignore_index = -100;            ///< rows with this target count nothing
  double label_smoothing = 0;             ///< share of each target that all classes get alike, in [0, 1]
  Reduction reduction = Reduction::mean;  ///< mean: over the rows that count; if none does, the loss is 0
  /// The dtype of the loss, which is computed in f32: as ResultOptions has it. None: f32 under autocast, else the logits'.
  /// Of 16-bit logits outside of autocast `DType::f32` gives a loss that is not rounded to 16 bits.
  std::optional<DType> out{};
  /// (V), optional: a factor of each class, without gradient. `mean` divides by the factors of the targets that count.
  Tensor weight{};
};
/// What a checkpoint compares of a call: see autograd/attributes.h.
void for_each_attribute(const CrossEntropyOptions& options, const auto& visit) {
  visit(options.ignore_index), visit(options.label_smoothing), visit(options.reduction), visit(options.out);
}
/// Softmax cross-entropy of logits (..., V) against class indices i64 or i32 (...), or against probabilities (..., V) of a
/// floating dtype, which get no gradient and know no ignore_index. Logits of 16 bits (against probabilities those of
/// f16) are kept, for their gradient to be made and rounded once when the loss's is known; else the gradient, made with the loss.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {});
/// Logits that the caller gives away, as `cross_entropy(model(x), targets)` does: if nothing else holds them,
/// their gradient takes their memory.
Tensor cross_entropy(Tensor&& logits, const Tensor& targets, const CrossEntropyOptions& options = {});

/// -t log sigmoid(x) - (1 - t) log(1 - sigmoid(x)) of logits x and targets t in [0, 1] of one shape.
Tensor bce_with_logits(const Tensor& logits, const Tensor& targets, Reduction reduction = Reduction::mean);
/// Options of `smooth_l1`.
struct SmoothL1Options {
  double beta = 1;                        ///< 0: |x - y|
  Reduction reduction = Reduction::mean;  ///< over all elements
};
/// beta huber((x - y) / beta), of x and y of one shape (Girshick 2015).
Tensor smooth_l1(const Tensor& x, const Tensor& y, const SmoothL1Options& options = {});

/// @{
/// (x - y)^2 (`mse_loss`) and |x - y| (`l1_loss`), of x and y of one shape; `mean` is over all elements.
Tensor mse_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
Tensor l1_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
/// @}

/// Options of `nll_loss`.
struct NllLossOptions {
  int64_t ignore_index = -100;            ///< rows with this target count nothing
  Reduction reduction = Reduction::mean;  ///< mean: over the rows that count; if none does, the loss is 0
  /// (V), optional: a factor of each class, without gradient. `mean` divides by the factors of the targets that count.
  Tensor weight{};
};
/// -x[target] of log-probabilities (..., V) and class indices i64 or i32 (...). Error on an index outside [0, V).
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets, const NllLossOptions& options = {});

/// The fused operations built from simpler ones: slower, differentiable to any order, and the tests'
/// reference.
namespace composite {
/// @{
/// The function of the same name, made of simpler ones: the reference that it is tested against; most backward passes
/// under create_graph differentiate it. Of 16 bits it computes in f32 and rounds once, to the dtype of the first
/// argument, whatever `out` says.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const LinearEpilogue& options);
Tensor mlp(const Tensor& x, const Tensor& weight1, const Tensor& bias1, const Tensor& weight2,
           const Tensor& bias2, Activation activation, const LinearEpilogue& end);
Tensor activate(const Tensor& x, Activation activation);
Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps);
Tensor rms_norm(const Tensor& x, const Tensor& gamma, double eps);
/// By given statistics, or those of the batch where they are undefined; it updates nothing.
Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& mean,
                  const Tensor& variance, double eps);
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& gamma, const Tensor& beta, double eps);
Tensor softmax(const Tensor& x);
Tensor log_softmax(const Tensor& x);
Tensor swiglu(const Tensor& gate, const Tensor& up);
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options);
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& options);
Tensor patch_embed(const Tensor& x, const Tensor& weight, const Tensor& bias);
/// `keep`: the mask that dropout multiplies by, undefined for none.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                 const Tensor& keep = {});
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options);
/// @}
}  // namespace composite

}  // namespace reprise
