// run_kernel(kernel, args...): a kernel on the device under test, from and to arrays in host memory. On a GPU
// each array is copied to device memory of exactly its size and alignment and back afterwards, so that tests
// read and write plain memory, and a kernel that leaves its arrays is seen by AddressSanitizer (emulated) or
// compute-sanitizer.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "reprise/kernels/kernel.h"
#include "reprise/tests/support/errors.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::kernels::testing {

using reprise::testing::expect_error;

/// Host memory that a kernel's views cover, and its copy on a device.
class Staging {
 public:
  explicit Staging(Device device) : device_(device) {}
  ~Staging();
  Staging(const Staging&) = delete;

  template <class T>
  void collect(const T& arg) {
    for_each_view(arg, [this](const TensorView& view) { collect_view(view); });
  }
  void upload();
  void download();

  /// A copy of `arg` whose views are on the device.
  template <class T>
  T mapped(T arg) {
    for_each_view(arg, [this](TensorView& view) { view = mapped_view(view); });
    return arg;
  }
  template <class T>
  std::span<const T> mapped(std::span<const T> args) {
    std::vector<T> list(args.begin(), args.end());
    for (T& arg : list) arg = mapped(arg);
    return keep(std::move(list));
  }

 private:
  struct Range {
    std::byte *begin, *end;
    std::byte* device = nullptr;  // where `begin` is
    void* block = nullptr;
  };

  template <class T>
  std::span<const T> keep(std::vector<T> list) {
    auto owned = std::make_shared<std::vector<T>>(std::move(list));
    kept_.push_back(owned);
    return *owned;
  }

  void collect_view(const TensorView& view);
  TensorView mapped_view(const TensorView& view) const;

  Device device_;
  std::vector<Range> ranges_;
  std::vector<std::shared_ptr<void>> kept_;
};

template <class... Parameters>
void run_kernel(const Kernel<void(Parameters...)>& kernel, std::type_identity_t<Parameters>... args) {
  Device device = reprise::testing::test_device();
  if (device == Device::cpu()) return kernel(Stream(device), args...);
  Staging staging(device);
  (staging.collect(args), ...);
  staging.upload();
  kernel(current_stream(device), staging.mapped(args)...);
  synchronize(device);
  staging.download();
}

/// Runs a kernel on bad input and returns the Error's message, empty if there is none. On a GPU, where
/// kernels report and go on, what they wrote is copied back before.
template <class... Parameters>
std::string error_of(const Kernel<void(Parameters...)>& kernel, std::type_identity_t<Parameters>... args) {
  Device device = reprise::testing::test_device();
  try {
    if (device == Device::cpu()) {
      kernel(Stream(device), args...);
      return "";
    }
    Staging staging(device);
    (staging.collect(args), ...);
    staging.upload();
    kernel(current_stream(device), staging.mapped(args)...);
    staging.download();
    synchronize(device);
  } catch (const Error& error) { return error.what(); }
  return "";
}

}  // namespace reprise::kernels::testing
