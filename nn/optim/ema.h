// Exponential moving average of parameters (Polyak and Juditsky 1992).
#pragma once

#include "reprise/nn/module.h"

namespace reprise::optim {

/// Averages follow the parameters: average = decay * average + (1 - decay) * parameter at each `update`.
class Ema {
 public:
  explicit Ema(const nn::Module& module, double decay = 0.999);

  void update();

  /// Puts the averages into the module while it lives, for evaluation.
  class Scope {
   public:
    explicit Scope(Ema& ema) : ema_(ema) { ema_.swap(); }
    ~Scope() { ema_.swap(); }
    Scope(const Scope&) = delete;

   private:
    Ema& ema_;
  };

  const nn::NamedTensors& state_dict() const { return averages_; }
  /// Error, and no change, if names or shapes do not fit.
  void load_state_dict(const nn::NamedTensors& state);

 private:
  void swap();
  double decay_;
  TensorList parameters_;
  nn::NamedTensors averages_;
};

}  // namespace reprise::optim
