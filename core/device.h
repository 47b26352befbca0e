// Where a tensor lives: the CPU or a CUDA device.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

namespace reprise {

enum class DeviceType : uint8_t { cpu, cuda };

struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;

  static Device cpu() { return {}; }
  static Device cuda(int index = 0) { return {DeviceType::cuda, index}; }
  bool is_cpu() const { return type == DeviceType::cpu; }
  bool is_cuda() const { return type == DeviceType::cuda; }

  /// CUDA devices that answer: 0 in a build without CUDA, or on a machine without a GPU.
  static int cuda_count();

  /// A GPU if this build has CUDA and one answers, else the CPU. The emulator is no GPU.
  static Device best();

  /// "cpu", "cuda", "cuda:1" or "best". Throws Error on anything else, or if the device is not there, saying
  /// why.
  static Device parse(std::string_view text);

  friend bool operator==(const Device&, const Device&) = default;
};

/// Throws Error, saying why, if there is no such device.
void check_device(Device device);

std::string to_string(Device device);
std::ostream& operator<<(std::ostream& out, Device device);

}  // namespace reprise
