// The device that tests run on. The same tests run on each: ctest sets REPRISE_TEST_DEVICE.
#pragma once

#include "reprise/core/device.h"

namespace reprise::testing {

/// REPRISE_TEST_DEVICE (cpu, cuda), else the CPU.
Device test_device();

}  // namespace reprise::testing
