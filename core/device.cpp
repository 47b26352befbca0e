// Device names and the choice of the best device.
#include "reprise/core/device.h"

#include <ostream>

#include "reprise/core/error.h"

namespace reprise {

Device Device::best() { return cpu(); }

Device Device::parse(std::string_view text) {
  if (text == "cpu") return cpu();
  if (text == "best") return best();
  check(!text.starts_with("cuda"), "device: ", text,
        " asked for, but this build of Reprise has no CUDA device");
  fail("device: unknown name '", text, "'; use cpu, cuda, cuda:N or best");
}

std::string to_string(Device device) {
  return device.type == DeviceType::cpu ? "cpu" : "cuda:" + std::to_string(device.index);
}

std::ostream& operator<<(std::ostream& out, Device device) { return out << to_string(device); }

}  // namespace reprise
