// Counts the casts that run as operations.
#pragma once

#include <string_view>

#include "reprise/autograd/op_observer.h"

namespace reprise::testing {

class CountCasts final : public autograd::OpObserver {
 public:
  int casts = 0, operations = 0;

 private:
  void op_ran(const char* op_name, const TensorList&, const TensorList&) override {
    ++operations;
    casts += std::string_view(op_name) == "cast";
  }
};

}  // namespace reprise::testing
