// Autocast: inside a scope operations choose the dtype they compute in, by one table (docs/mixed_precision.md), so that
// a model with f32 parameters multiplies 16-bit numbers. (PyTorch: torch.autocast; Micikevicius et al. 2018.)
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "reprise/core/device.h"
#include "reprise/core/dtype.h"

namespace reprise::amp {

/// What an operation does with its floating arguments, f64 apart, under autocast. A Function declares it:
///   static constexpr auto autocast = rp::amp::Policy::f32;
/// One that declares none is transparent: its arguments come as they are, autocast stays on inside its `forward`, and
/// its `backward` runs under the scopes that `forward` had. Inside all others autocast is off.
enum class Policy : uint8_t {
  low,     ///< products: in the scope's dtype
  f32,     ///< where range matters: in f32
  widest,  ///< several arguments meet in the wider dtype, bf16 and f16 in f32
  inputs,  ///< as they are given
};

/// How long the 16-bit value of an f32 weight is kept. The same bits, three amounts of memory.
enum class Shadows : uint8_t {
  step,     ///< until the weight changes: micro-batches share it
  forward,  ///< until the outermost scope ends
  none,     ///< for one operation
};

/// What norms of 16-bit inputs give. They compute in f32 either way.
enum class Norms : uint8_t {
  f32,       ///< f32, as in PyTorch's table
  as_given,  ///< the dtype of their input: for a model of 16-bit weights, whose residual stream has 16 bits too
};

/// What an Autocast does beside choosing the dtype of products.
struct AutocastOptions {
  bool enabled = true;              ///< false: inside, operations run in the dtypes they are given
  Shadows weights = Shadows::step;  ///< how long 16-bit values of f32 weights are kept
  Norms norms = Norms::f32;         ///< what norms of 16-bit inputs give
};

/// What holds on a thread, for each type of device.
struct AutocastState {
  /// What holds on one type of device.
  struct OfDevice {
    std::optional<DType> dtype{};     ///< none: off
    Shadows weights = Shadows::step;  ///< as in AutocastOptions
    Norms norms = Norms::f32;         ///< as in AutocastOptions
  };
  std::array<OfDevice, 2> devices{};  ///< by DeviceType
  bool any = false;                   ///< whether it is on for one of them

  /// What holds on the type of `device`.
  const OfDevice& of(Device device) const { return devices[size_t(device.type)]; }
};

/// Autocast on this thread and this type of device, until it dies; the innermost wins. It wraps the forward pass and the
/// loss: backward runs in the dtypes of forward, inside a scope or not. Error unless `dtype` is bf16 or f16.
class Autocast {
 public:
  /// On all devices of the type of `device`, which must be there. `dtype` is for products, and must fit also where
  /// `options` switches autocast off.
  Autocast(Device device, DType dtype, const AutocastOptions& options = {});
  /// Bug on another thread, or before a scope inside it has died; nothing is restored then.
  ~Autocast() noexcept(false);
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 protected:
  explicit Autocast(const AutocastState& state);  ///< sets all that holds, for RestoreAutocast

 private:
  void enter(const AutocastState& state);
  AutocastState outer_;
  Autocast* outer_scope_;
  const void* thread_;
};

/// The dtype of the innermost scope around, of this type of device; none: autocast is off.
std::optional<DType> autocast_dtype(Device device);

// What follows is for operations and the engine, and may change.

namespace detail {
extern thread_local constinit AutocastState state;
}
/// What holds on this thread now.
inline const AutocastState& autocast_state() { return detail::state; }

/// A state that was noted elsewhere, for as long as this lives.
struct RestoreAutocast : Autocast {
  explicit RestoreAutocast(const AutocastState& state) : Autocast(state) {}  ///< of autocast_state()
};

/// Off for all types of device while it lives: for the inside of operations, and for backward passes.
class AutocastOff {
 public:
  AutocastOff() : outer_(std::exchange(detail::state, {})) {}
  ~AutocastOff() { detail::state = outer_; }
  AutocastOff(const AutocastOff&) = delete;
  AutocastOff& operator=(const AutocastOff&) = delete;

 private:
  AutocastState outer_;
};

/// Calls it when the outermost scope of this thread ends.
void when_autocast_ends(std::function<void()> call);

}  // namespace reprise::amp
