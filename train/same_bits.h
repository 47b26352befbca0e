// Comparing tensors bit by bit, to say which differ and where.
#pragma once

#include <string>
#include <vector>

#include "reprise/nn/module.h"

namespace reprise::train {

/// Two tensors of one name that are not the same, bit for bit.
struct Difference {
  std::string name;
  std::string what;  ///< "3 of 128 elements, the first at 17: 0.5 instead of 0.25", or what else differs
};

/// What differs between two lists of named tensors, in order; -0 differs from 0, a NaN equals the same NaN.
/// An undefined tensor equals an undefined one.
std::vector<Difference> differences(const nn::NamedTensors& got, const nn::NamedTensors& want);

}  // namespace reprise::train
