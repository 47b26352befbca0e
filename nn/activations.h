// Activations as layers, by PyTorch's names and with its defaults.
#pragma once

#include "reprise/autograd/ops/elementwise/pointwise.h"
#include "reprise/autograd/ops/index/along_dim.h"
#include "reprise/nn/layers.h"

namespace reprise::nn {

/// max(x, 0).
class ReLU : public Activate {
 public:
  ReLU() : Activate(Activation::relu) {}
  std::string extra_repr() const override { return {}; }
};

/// x * Phi(x), exact; the approximation is `Activate(Activation::gelu_tanh)`.
class GELU : public Activate {
 public:
  GELU() : Activate(Activation::gelu) {}
  std::string extra_repr() const override { return {}; }
};

/// x * sigmoid(x).
class SiLU : public Activate {
 public:
  SiLU() : Activate(Activation::silu) {}
  std::string extra_repr() const override { return {}; }
};

/// (e^x - e^-x) / (e^x + e^-x).
class Tanh : public Lambda {
 public:
  Tanh() : Lambda([](const Tensor& x) { return tanh(x); }) {}
};

/// 1 / (1 + e^-x).
class Sigmoid : public Lambda {
 public:
  Sigmoid() : Lambda([](const Tensor& x) { return sigmoid(x); }) {}
};

/// x where x > 0, else alpha (e^x - 1).
class ELU : public Lambda, public Described {
 public:
  /// Far below 0 it goes to -alpha.
  explicit ELU(double alpha = 1)
      : Lambda([alpha](const Tensor& x) { return elu(x, alpha); }), alpha_(alpha) {}
  std::string extra_repr() const override { return OptionText().add("alpha", alpha_).str(); }

 private:
  double alpha_;
};

/// x where x > 0, else slope x.
class LeakyReLU : public Lambda, public Described {
 public:
  /// `slope` is the gradient below 0.
  explicit LeakyReLU(double slope = 0.01)
      : Lambda([slope](const Tensor& x) { return leaky_relu(x, slope); }), slope_(slope) {}
  std::string extra_repr() const override { return OptionText().add("slope", slope_).str(); }

 private:
  double slope_;
};

/// log(1 + e^(beta x)) / beta, but x itself where beta x is above 20, as PyTorch's.
class Softplus : public Lambda, public Described {
 public:
  /// Error unless beta is above 0.
  explicit Softplus(double beta = 1);
  std::string extra_repr() const override { return OptionText().add("beta", beta_).str(); }

 private:
  double beta_;
};

/// `softmax` along a dimension.
class Softmax : public Lambda, public Described {
 public:
  /// From the end, where it is negative.
  explicit Softmax(int64_t dim) : Lambda([dim](const Tensor& x) { return softmax(x, dim); }), dim_(dim) {}
  std::string extra_repr() const override { return OptionText().add("dim", dim_).str(); }

 private:
  int64_t dim_;
};

/// `log_softmax` along a dimension.
class LogSoftmax : public Lambda, public Described {
 public:
  /// From the end, where it is negative.
  explicit LogSoftmax(int64_t dim)
      : Lambda([dim](const Tensor& x) { return log_softmax(x, dim); }), dim_(dim) {}
  std::string extra_repr() const override { return OptionText().add("dim", dim_).str(); }

 private:
  int64_t dim_;
};

}  // namespace reprise::nn
