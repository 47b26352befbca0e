// The device that tests run on.
#include "reprise/tests/support/test_device.h"

#include <cstdlib>

namespace reprise::testing {

Device test_device() {
  const char* name = std::getenv("REPRISE_TEST_DEVICE");
  return name ? Device::parse(name) : Device::cpu();
}

}  // namespace reprise::testing
