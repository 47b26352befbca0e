// Masters: what an optimizer updates in the place of parameters of 16 bits, whose last bit is often larger than two updates
// (Micikevicius et al. 2018, 3.1).
#pragma once

#include <vector>

#include "reprise/core/tensor.h"

namespace reprise::optim {

/// What is kept of a parameter of 16 bits beside it. Summation after Kahan (Zamirai et al. 2021) takes as much memory as
/// `split` and is less exact, so there is none.
enum class Master : uint8_t {
  f32,  ///< a copy in f32; the parameter is it rounded to nearest. 4 bytes a parameter
  split,  ///< of bf16: the lower 16 bits of that copy; the parameter is the upper ones, rounded half up. 2 bytes
  stochastic,  ///< of bf16: nothing. The parameter is rounded up or down at random, right on average
};

/// What an optimizer keeps beside its parameters of 16 bits, by place.
class Masters {
 public:
  /// For so many parameters; none has anything yet.
  explicit Masters(size_t parameters, Master of_kind = Master::f32)
      : kind(of_kind), copies(parameters), remainders(parameters), written_(parameters) {}

  /// What is updated: the parameter, or with Master::f32, if it has no more than 16 bits, its master copy, with what others wrote
  /// to the parameter since the last step.
  Tensor copy_of(const Tensor& parameter, size_t place) const;
  /// The parameter is `copy` rounded, from now on.
  void keep(const Tensor& parameter, size_t place, const Tensor& copy);
  /// Whether the parameter is the upper half of an f32.
  bool is_split(const Tensor& parameter) const {
    return kind == Master::split && parameter.dtype() == DType::bf16;
  }
  /// Makes the lower half of one that is, u8 (shape, 2), zeros at first, unless it is there.
  void make_remainder(const Tensor& parameter, size_t place);

  const Master kind;      ///< as given
  TensorList copies;      ///< undefined until the first step, and of wider parameters
  TensorList remainders;  ///< undefined until the first step, and of those that are not split

 private:
  std::vector<uint64_t> written_;  // the version of the parameter after the last step
};

}  // namespace reprise::optim
