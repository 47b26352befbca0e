// Device names, which devices there are, and the choice of the best.
#include "reprise/core/device.h"

#include <cstdio>
#include <mutex>
#include <ostream>

#include "reprise/core/cuda/kernel_image.h"
#include "reprise/core/cuda/runtime.h"
#include "reprise/core/error.h"
#include "reprise/core/number_in.h"

namespace reprise {
namespace {

/// Why no kernel runs on a device that is there; empty if they do.
std::string unusable_reason(int index) {
  const cuda::DeviceProperties& gpu = cuda::properties(index);
  const int least = cuda::least_capability();
  const std::string has = detail::join(gpu.name, " has compute capability ", gpu.major, '.', gpu.minor),
                    built = detail::join("; it was built for ", cuda::built_architectures());
  if (10 * gpu.major + gpu.minor < least)
    return detail::join(has, ", the kernels of this build need ", least / 10, '.', least % 10, built);
  if (!cuda::has_kernel_image(index))
    return detail::join(has, ", and this build holds no kernels that run on it", built);
  return "";
}

}  // namespace

int Device::cuda_count() { return cuda::device_count(); }

Device Device::best() {
  if (cuda::is_emulated()) return cpu();
  std::string reason;
  for (int index = 0; index < cuda_count(); ++index)
    if (reason = unusable_reason(index); reason.empty()) return cuda(index);
  static std::once_flag told;
  if (!reason.empty())
    std::call_once(told, [&] { std::fprintf(stderr, "device: %s; the CPU is taken\n", reason.c_str()); });
  return cpu();
}

Device Device::parse(std::string_view text) {
  if (text == "cpu") return cpu();
  if (text == "best") return best();
  Device device = cuda();
  bool known = text == "cuda";
  if (text.starts_with("cuda:")) {
    device.index = number_in<int>(text.substr(5)).value_or(-1);
    known = device.index >= 0;
  }
  check(known, "device: unknown name '", text, "'; use cpu, cuda, cuda:N or best");
  check_device(device);
  return device;
}

void check_device(Device device) {
  if (device.is_cpu()) return;
  int count = Device::cuda_count();
  check(count > 0, "device: ", device,
        " asked for, but there is no CUDA device: ", cuda::unavailable_reason());
  check(device.index >= 0 && device.index < count, "device: ", device,
        " asked for, but the last one is cuda:", count - 1);
  const std::string reason = unusable_reason(device.index);
  check(reason.empty(), "device: ", device, " asked for, but ", reason);
}

std::string to_string(Device device) {
  return device.is_cpu() ? "cpu" : "cuda:" + std::to_string(device.index);
}

std::ostream& operator<<(std::ostream& out, Device device) { return out << to_string(device); }

}  // namespace reprise
