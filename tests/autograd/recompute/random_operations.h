// The operations that random programs are made of.
#pragma once

#include "reprise/tests/autograd/recompute/random_programs.h"

namespace reprise::testing {

constexpr int64_t kSide = 5;  ///< values are square, so that any fits any operation

/// What an operation is given.
struct Arguments {
  ProgramMachine& machine;
  const Tensor &a, &b;
  double number;
  const Tensor& own;  ///< the region's: operations change it in place
  const Tensor& parameter() const { return machine.parameter(size_t(number * 3)); }
  const Tensor& buffer() const { return machine.buffer(size_t(number * 2)); }
  double outside() const { return machine.number(size_t(number * 2)); }
};
using Operation = std::pair<const char*, Tensor (*)(const Arguments&)>;

constexpr size_t kDraws = 5;  ///< the first operations draw random numbers
size_t operation_count(const ProgramSize& size);
/// Its name, and what it does. An index is below operation_count.
const Operation& operation(size_t i);

}  // namespace reprise::testing
