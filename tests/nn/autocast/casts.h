// Counts the casts that run as operations.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::testing {

class CountCasts final : public autograd::OpObserver {
 public:
  /// Of tensors that have so many dimensions at least.
  explicit CountCasts(int least_rank = 0) : least_rank_(least_rank) {}

  int casts = 0, operations = 0;

 private:
  void op_ran(const char* op_name, const TensorList& inputs, const TensorList&) override {
    ++operations;
    casts += std::string_view(op_name) == "cast" && inputs[0].rank() >= least_rank_;
  }

  int least_rank_;
};

/// A step of training by `loss`, under autocast to `dtype`, runs no such cast in either pass.
inline void expect_no_cast(const std::function<Tensor()>& loss, DType dtype, const std::string& what,
                           int least_rank = 0) {
  CountCasts count(least_rank);
  Tensor y;
  {
    amp::Autocast scope(test_device(), dtype);
    y = loss();
  }
  (y * 65536.0).backward();
  EXPECT_EQ(count.casts, 0) << what << ", " << dtype;
  EXPECT_GT(count.operations, 10);
}

}  // namespace reprise::testing
