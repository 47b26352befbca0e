// The memory of a call follows the stream that the call runs on.
#include "reprise/kernels/cuda/workspace.h"

#include <gtest/gtest.h>

#include "reprise/core/cuda/stream.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::kernels {
namespace {

TEST(Workspace, IsMemoryOfItsStreamWhicheverIsCurrent) {
  const Device device = reprise::testing::test_device();
  if (device == Device::cpu()) GTEST_SKIP() << "one stream";
  constexpr size_t bytes = 123456;  // of this test alone
  auto address_on = [&](const Stream& stream) { return device::Workspace(stream, bytes).as<void>(); };
  const cuda::OwnedStream side(device);
  void* here = address_on(current_stream(device));
  void* there = address_on(side.get());
  EXPECT_NE(there, here) << "work of the current stream may still use it";
  EXPECT_EQ(address_on(current_stream(device)), here);
  EXPECT_EQ(address_on(side.get()), there);
}

}  // namespace
}  // namespace reprise::kernels
