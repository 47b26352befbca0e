// Operations in place beside the same ones out of place.
#pragma once

#include <functional>
#include <vector>

#include "reprise/core/tensor.h"

namespace reprise::testing {

/// Of a value x and another tensor v, (2, 3) both: what changes x, and what gives the changed value.
struct Twin {
  const char* name;  ///< of the operation in place
  std::function<void(const Tensor& x, const Tensor& v)> in_place;
  std::function<Tensor(const Tensor& x, const Tensor& v)> out_of_place;
};

/// Of the functions of each number and of those with an operand; arithmetic, places and the first of the functions are in
/// in_place_test.cpp.
std::vector<Twin> twins_of_functions();

}  // namespace reprise::testing
