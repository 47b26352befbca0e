// Tests on streams of the emulator that run as late as a GPU may run them.
#pragma once

#include "reprise/core/cuda/emulated_queue.h"
#include "reprise/tests/core/cuda/cuda_test.h"

namespace reprise {

class DeferredStreamsTest : public CudaTest {
 protected:
  void SetUp() override { cuda::emulated::set_streams(cuda::emulated::Streams::deferred); }
  void TearDown() override { cuda::emulated::set_streams(before_); }

 private:
  cuda::emulated::Streams before_ = cuda::emulated::streams();
};

}  // namespace reprise
