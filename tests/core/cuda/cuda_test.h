// What tests of the device `cuda` share: they are skipped where it does not answer.
#pragma once

#include <gtest/gtest.h>

#include "reprise/core/cuda/runtime.h"
#include "reprise/core/memory.h"
#include "reprise/core/tensor.h"

namespace reprise {

class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    if (Device::cuda_count() == 0) GTEST_SKIP() << cuda::unavailable_reason();
  }

  const Device device = Device::cuda();
  Allocator& memory() { return allocator(device); }
};

/// The message of the Error that `body` throws; "" if it throws none.
template <class Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) { return error.what(); }
  return "";
}

}  // namespace reprise
