// Small layers: embedding, normalisation, dropout and containers.
#pragma once

#include <functional>

#include "reprise/autograd/ops.h"
#include "reprise/nn/described.h"
#include "reprise/nn/module.h"

namespace reprise::nn {

/// What a module asks of the producer of x where a product follows: under autocast the dtype that products compute in, so
/// that nothing is cast between the two.
ResultOptions for_product(const Tensor& x);

/// What an Embedding's table starts with.
struct EmbeddingOptions {
  double init_stddev = 1;  ///< of the normal values that the table starts with
};

/// A table of vectors: indices i64 (...) -> (..., width). Error if a size is not positive, or init_stddev
/// negative.
class Embedding : public Layer {
 public:
  /// `count` vectors of `width` numbers, in f32.
  Embedding(int64_t count, int64_t width, const EmbeddingOptions& options = {}, Device device = {});
  Tensor forward(const Tensor& indices) override { return embedding(weight, indices); }

  Tensor weight;  ///< (count, width)
};

/// What a LayerNorm, or a Norm of either kind, is made with.
struct LayerNormOptions {
  double eps = 1e-5;  ///< added to the variance; of Norm with NormKind::rms, to the mean square
  bool bias = true;   ///< adds a number per channel; NormKind::rms has none
};

/// Layer normalisation over the last dimension (Ba et al. 2016): (..., width) -> (..., width).
class LayerNorm : public Layer, public Described {
 public:
  /// Weights 1 and biases 0, in f32.
  explicit LayerNorm(int64_t width, const LayerNormOptions& options = {}, Device device = {});
  Tensor forward(const Tensor& x) override { return layer_norm(x, weight, bias, eps_); }
  /// The same, hooks included, in the dtype that `result` asks for.
  Tensor forward(const Tensor& x, const ResultOptions& result) const;
  /// x + residual and its norm.
  SumAndNorm add(const Tensor& x, const Tensor& residual, const ResultOptions& result = {}) const;
  std::string extra_repr() const override {
    return OptionText().add_unless(LayerNormOptions().eps, "eps", eps_).str();
  }

  Tensor weight;  ///< (width)
  Tensor bias;    ///< (width); undefined without it

 protected:
  bool is_norm() const override { return true; }

 private:
  double eps_;
};

/// What an RmsNorm is made with.
struct RmsNormOptions {
  double eps = 1e-6;  ///< added to the mean square
};

/// Root-mean-square normalisation over the last dimension (Zhang and Sennrich 2019): (..., width) ->
/// (..., width).
class RmsNorm : public Layer, public Described {
 public:
  /// Weights 1, in f32.
  explicit RmsNorm(int64_t width, const RmsNormOptions& options = {}, Device device = {});
  Tensor forward(const Tensor& x) override { return rms_norm(x, weight, eps_); }
  /// The same, hooks included, in the dtype that `result` asks for.
  Tensor forward(const Tensor& x, const ResultOptions& result) const;
  /// x + residual and its norm.
  SumAndNorm add(const Tensor& x, const Tensor& residual, const ResultOptions& result = {}) const;
  std::string extra_repr() const override {
    return OptionText().add_unless(RmsNormOptions().eps, "eps", eps_).str();
  }

  Tensor weight;  ///< (width)

 protected:
  bool is_norm() const override { return true; }

 private:
  double eps_;
};

/// How a Norm normalises.
enum class NormKind : uint8_t {
  layer,  ///< by mean and variance, as LayerNorm
  rms,    ///< by the root mean square, as RmsNorm
};

/// LayerNorm or RmsNorm, as `kind` says: (..., width) -> (..., width).
class Norm : public Layer, public Described {
 public:
  /// Weights 1 and biases 0, in f32. Of NormKind::rms there is no bias, whatever the options say, and eps is theirs.
  Norm(NormKind kind, int64_t width, const LayerNormOptions& options = {}, Device device = {});
  Tensor forward(const Tensor& x) override { return normed(x, {}); }
  /// The same, hooks included, in the dtype that `result` asks for.
  Tensor forward(const Tensor& x, const ResultOptions& result) const;
  /// x + residual and its norm.
  SumAndNorm add(const Tensor& x, const Tensor& residual, const ResultOptions& result = {}) const;
  std::string extra_repr() const override;

  Tensor weight;  ///< (width)
  Tensor bias;    ///< (width); undefined without it, and of RmsNorm

 protected:
  bool is_norm() const override { return true; }

 private:
  Tensor normed(const Tensor& x, const ResultOptions& result) const;

  NormKind kind_;
  double eps_;
};

/// What a GroupNorm is made with; the defaults are PyTorch's.
struct GroupNormOptions {
  double eps = 1e-5;   ///< added to the variance
  bool affine = true;  ///< has weight and bias
};

/// Normalisation over groups of channels, sample by sample (Wu and He 2018): (N, channels, ...) to the same
/// shape. Error unless `groups` divides the channels.
class GroupNorm : public Layer, public Described {
 public:
  /// Weights 1 and biases 0, in f32. One group: whole samples are normalised.
  GroupNorm(int64_t groups, int64_t channels, const GroupNormOptions& options = {}, Device device = {});
  Tensor forward(const Tensor& x) override { return group_norm(x, groups_, weight, bias, eps_); }
  std::string extra_repr() const override;

  Tensor weight;  ///< (channels), 1 at first; undefined if not affine
  Tensor bias;    ///< (channels), 0 at first; undefined if not affine

 protected:
  bool is_norm() const override { return true; }

 private:
  int64_t groups_;
  double eps_;
};

/// Where Dropout and DropPath draw from.
struct DropoutOptions {
  Generator* generator = nullptr;  ///< which outlives the layer; null: the default one
};

/// Zeroes elements with probability p while training (Srivastava et al. 2014). Error unless 0 <= p < 1.
class Dropout : public Layer, public Described {
 public:
  /// What is not zeroed is scaled by 1 / (1 - p).
  explicit Dropout(double p, const DropoutOptions& options = {});
  Tensor forward(const Tensor& x) override { return training() ? dropout(x, p_, generator_) : x; }
  std::string extra_repr() const override { return OptionText().add("p", p_).str(); }

 private:
  double p_;
  Generator* generator_;
};

/// Stochastic depth (Huang et al. 2016): zeroes whole samples (the first dimension) of a residual branch with
/// probability p while training. Error unless 0 <= p < 1.
class DropPath : public Layer, public Described {
 public:
  /// The samples that are left are scaled by 1 / (1 - p).
  explicit DropPath(double p, const DropoutOptions& options = {});
  Tensor forward(const Tensor& x) override;
  /// What forward would multiply the samples of x by, 0 or 1 / (1 - p) each, for a product that does so itself;
  /// undefined where nothing is dropped. Draws as forward does.
  Tensor keep(const Tensor& x) const;
  std::string extra_repr() const override { return OptionText().add("p", p_).str(); }

 private:
  double p_;
  Generator* generator_;
};

/// A factor for each channel of a residual branch (Touvron et al. 2021): gamma x, (..., width) -> (..., width).
class LayerScale : public Layer {
 public:
  /// All factors `init`, in f32. Error unless width is positive.
  LayerScale(int64_t width, double init, Device device = {});
  Tensor forward(const Tensor& x) override { return x * gamma; }

  Tensor gamma;  ///< (width), `init` at first
};

/// Layers one after the other; it owns them, as do the graphs of checkpoints that play them again.
class Sequential : public Layer {
 public:
  /// Adds a layer made from `args` and returns it: `net.add<Linear>(784, 128)`.
  template <class L, class... Args>
  L& add(Args&&... args) {
    auto layer = std::make_shared<L>(std::forward<Args>(args)...);
    L& added = *layer;
    register_module(std::to_string(layers_.size()), added);
    layers_.push_back(std::move(layer));
    return added;
  }
  /// A function of one tensor as a layer: `net.add([](const rp::Tensor& x) { return rp::flatten(x, 1); })`. It has no
  /// parameters; what it captures is not trained.
  Layer& add(std::function<Tensor(const Tensor& x)> function);
  /// The last layer's result; x itself if there are no layers.
  Tensor forward(const Tensor& x) override;
  int64_t size() const { return int64_t(layers_.size()); }  ///< how many layers it has
  /// Layer i, from 0: the one that was added, or its replacement. Error if there is none.
  Layer& operator[](int64_t i) const { return at<Layer>(std::to_string(i)); }

 protected:
  /// A layer for those that play it when the chain may be gone.
  std::shared_ptr<Layer> share(int64_t i) const { return layers_[size_t(i)]; }

 private:
  std::vector<std::shared_ptr<Layer>> layers_;
};

/// A function as a layer.
class Lambda : public Layer {
 public:
  /// Error if `function` is empty.
  explicit Lambda(std::function<Tensor(const Tensor& x)> function);
  Tensor forward(const Tensor& x) override { return function_(x); }

 private:
  std::function<Tensor(const Tensor& x)> function_;
};

/// x as it is: what stands where there is nothing to do.
class Identity : public Layer {
 public:
  Tensor forward(const Tensor& x) override { return x; }
};

/// (N, ...) -> (N, all of the rest).
class Flatten : public Layer {
 public:
  Tensor forward(const Tensor& x) override { return flatten(x, 1); }
};

/// An activation as a layer.
class Activate : public Layer, public Described {
 public:
  /// One of relu, gelu, gelu_tanh, silu; none: x as it is.
  explicit Activate(Activation activation) : activation_(activation) {}
  Tensor forward(const Tensor& x) override { return activate(x, activation_); }
  std::string extra_repr() const override { return OptionText().add("activation", activation_).str(); }

 private:
  Activation activation_;
};

}  // namespace reprise::nn
