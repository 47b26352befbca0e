// Operations that count how often they run.
#pragma once

#include <map>
#include <string>

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"

namespace reprise::testing {

// How often forward ran, by name.
inline std::map<std::string, int>& runs() {
  static std::map<std::string, int> counts;
  return counts;
}

// x * w, under a name of its own, counted; saves both.
template <char letter>
struct Times : autograd::Function<Times<letter>> {
  static constexpr char text[] = {letter, 0};
  static constexpr const char* name = text;
  Tensor forward(const Tensor& x, const Tensor& w) {
    ++runs()[name];
    this->save(x, w);
    return x * w;
  }
  TensorList backward(const TensorList& dy) { return {dy[0] * this->saved(1), dy[0] * this->saved(0)}; }
};

// x * x, which saves a number of its own beside x.
struct Square : autograd::Function<Square> {
  static constexpr const char* name = "own_square";
  Tensor forward(const Tensor& x) {
    ++runs()[results_wanted() ? "for its results" : "for what it saves"];
    save(x, x * 2.0);
    return results_wanted() ? x * x : Tensor::hollow(x.view());
  }
  TensorList backward(const TensorList& dy) { return {dy[0] * saved(1)}; }
};

}  // namespace reprise::testing
