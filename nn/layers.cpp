// Small layers: their parameters, and stochastic depth.
#include "reprise/nn/layers.h"

#include "reprise/autograd/amp/autocast.h"
#include "reprise/nn/init.h"

namespace reprise::nn {

ResultOptions for_product(const Tensor& x) {
  const bool casts = x.defined() && is_floating(x.dtype()) && x.dtype() != DType::f64;
  return {.out = casts ? amp::autocast_dtype(x.device()) : std::nullopt};
}

Embedding::Embedding(int64_t count, int64_t width, const EmbeddingOptions& options, Device device) {
  check(count >= 1 && width >= 1, "Embedding: sizes must be positive, got ", count, " and ", width);
  check(options.init_stddev >= 0, "Embedding: init_stddev must be at least 0, got ", options.init_stddev);
  weight = register_parameter("weight", normal_init({count, width}, options.init_stddev, device));
}

LayerNorm::LayerNorm(int64_t width, const LayerNormOptions& options, Device device) : eps_(options.eps) {
  weight = register_parameter("weight", ones({width}, DType::f32, device));
  if (options.bias) bias = register_parameter("bias", zeros({width}, DType::f32, device));
}

// Of a norm that is called, for what would be fused with it.
namespace {

Tensor in_dtype(const Tensor& y, const ResultOptions& result) {
  return result.out && y.dtype() != *result.out ? cast(y, *result.out) : y;
}

SumAndNorm added_and_normed(const Layer& norm, const Tensor& x, const Tensor& residual,
                            const ResultOptions& result) {
  const Tensor sum = x + residual;
  return {sum, in_dtype(norm(sum), result)};
}

}  // namespace

Tensor LayerNorm::forward(const Tensor& x, const ResultOptions& result) const {
  return is_changed() ? in_dtype((*this)(x), result) : layer_norm(x, weight, bias, eps_, result);
}

SumAndNorm LayerNorm::add(const Tensor& x, const Tensor& residual, const ResultOptions& result) const {
  return is_changed() ? added_and_normed(*this, x, residual, result)
                      : add_layer_norm(x, residual, weight, bias, eps_, result);
}

RmsNorm::RmsNorm(int64_t width, const RmsNormOptions& options, Device device) : eps_(options.eps) {
  weight = register_parameter("weight", ones({width}, DType::f32, device));
}

Tensor RmsNorm::forward(const Tensor& x, const ResultOptions& result) const {
  return is_changed() ? in_dtype((*this)(x), result) : rms_norm(x, weight, eps_, result);
}

SumAndNorm RmsNorm::add(const Tensor& x, const Tensor& residual, const ResultOptions& result) const {
  return is_changed() ? added_and_normed(*this, x, residual, result)
                      : add_rms_norm(x, residual, weight, eps_, result);
}

Norm::Norm(NormKind kind, int64_t width, const LayerNormOptions& options, Device device)
    : kind_(kind), eps_(options.eps) {
  weight = register_parameter("weight", ones({width}, DType::f32, device));
  if (options.bias && kind == NormKind::layer)
    bias = register_parameter("bias", zeros({width}, DType::f32, device));
}

Tensor Norm::forward(const Tensor& x, const ResultOptions& result) const {
  return is_changed() ? in_dtype((*this)(x), result) : normed(x, result);
}

Tensor Norm::normed(const Tensor& x, const ResultOptions& result) const {
  return kind_ == NormKind::rms ? rms_norm(x, weight, eps_, result)
                                : layer_norm(x, weight, bias, eps_, result);
}

SumAndNorm Norm::add(const Tensor& x, const Tensor& residual, const ResultOptions& result) const {
  if (is_changed()) return added_and_normed(*this, x, residual, result);
  return kind_ == NormKind::rms ? add_rms_norm(x, residual, weight, eps_, result)
                                : add_layer_norm(x, residual, weight, bias, eps_, result);
}

std::string Norm::extra_repr() const {
  OptionText text;
  if (kind_ == NormKind::rms) text.add("kind", "rms");
  return text.add_unless(LayerNormOptions().eps, "eps", eps_).str();
}

GroupNorm::GroupNorm(int64_t groups, int64_t channels, const GroupNormOptions& options, Device device)
    : groups_(groups), eps_(options.eps) {
  check(groups >= 1 && channels >= 1 && channels % groups == 0, "GroupNorm: ", channels,
        " channels do not divide into ", groups, " groups");
  if (!options.affine) return;
  weight = register_parameter("weight", ones({channels}, DType::f32, device));
  bias = register_parameter("bias", zeros({channels}, DType::f32, device));
}

std::string GroupNorm::extra_repr() const {
  return OptionText().add("groups", groups_).add_unless(GroupNormOptions().eps, "eps", eps_).str();
}

Dropout::Dropout(double p, const DropoutOptions& options) : p_(p), generator_(options.generator) {
  check(p >= 0 && p < 1, "Dropout: p must be in [0, 1), got ", p);
}

DropPath::DropPath(double p, const DropoutOptions& options) : p_(p), generator_(options.generator) {
  check(p >= 0 && p < 1, "DropPath: p must be in [0, 1), got ", p);
}

Tensor DropPath::keep(const Tensor& x) const {
  if (!training() || p_ == 0) return {};
  check(x.rank() >= 1, "DropPath: needs a batch dimension");
  return dropout(ones({x.size(0)}, x.dtype(), x.device()), p_, generator_);
}

Tensor DropPath::forward(const Tensor& x) {
  Tensor kept = keep(x);
  if (!kept.defined()) return x;
  Shape per_sample = Dims::filled(x.rank(), 1);
  per_sample[0] = x.size(0);
  return x * reshape(kept, per_sample);
}

LayerScale::LayerScale(int64_t width, double init, Device device) {
  check(width >= 1, "LayerScale: width must be positive, got ", width);
  gamma = register_parameter("gamma", full({width}, init, DType::f32, device));
}

Lambda::Lambda(std::function<Tensor(const Tensor& x)> function) : function_(std::move(function)) {
  check(bool(function_), "Lambda: the function is empty");
}

Layer& Sequential::add(std::function<Tensor(const Tensor& x)> function) {
  return add<Lambda>(std::move(function));
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (auto& layer : layers_) y = (*layer)(y);
  return y;
}

}  // namespace reprise::nn
