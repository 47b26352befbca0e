// Where a tensor lives: the CPU or a CUDA device.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

namespace reprise {

/// The host, or a GPU that CUDA reaches; the device of the emulator is `cuda` too.
enum class DeviceType : uint8_t { cpu, cuda };

/// Where a tensor lives, by name: there may be no such device (see check_device). By default the CPU.
struct Device {
  DeviceType type = DeviceType::cpu;  ///< the CPU, unless said otherwise
  int index = 0;                      ///< of a CUDA device, from 0; 0 for the CPU

  static Device cpu() { return {}; }                                       ///< the one CPU
  static Device cuda(int index = 0) { return {DeviceType::cuda, index}; }  ///< whether it is there or not
  /// @{
  /// Whether it is of that kind.
  bool is_cpu() const { return type == DeviceType::cpu; }
  bool is_cuda() const { return type == DeviceType::cuda; }
  /// @}

  /// CUDA devices that answer: 0 in a build without CUDA, or on a machine without a GPU.
  static int cuda_count();

  /// A GPU if this build has CUDA and one answers, else the CPU. The emulator is no GPU.
  static Device best();

  /// "cpu", "cuda", "cuda:1" or "best". Throws Error on anything else, or if the device is not there, saying
  /// why.
  static Device parse(std::string_view text);

  /// Kind and index are the same.
  friend bool operator==(const Device&, const Device&) = default;
};

/// Throws Error, saying why, if there is no such device.
void check_device(Device device);

/// @{
/// "cpu" or "cuda:0"; `Device::parse` reads it.
std::string to_string(Device device);
std::ostream& operator<<(std::ostream& out, Device device);
/// @}

}  // namespace reprise
