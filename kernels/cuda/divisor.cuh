// Division by a number that is known at the launch: a multiplication and a shift instead of some twenty
// instructions (Granlund and Montgomery, "Division by invariant integers using multiplication", 1994).
#pragma once

#include <cstdint>

#include "reprise/simt/simt.h"

namespace reprise::kernels::device {

class Divisor {
 public:
  Divisor() = default;
  /// 0 < divisor.
  explicit Divisor(int64_t divisor) : divisor_(divisor) {
    if (divisor > narrow_limit) return;  // wide quotients only
    while ((int64_t(1) << shift_) < divisor) ++shift_;
    magic_ =
        uint32_t((uint64_t(1) << 32) * ((uint64_t(1) << shift_) - uint64_t(divisor)) / uint64_t(divisor)) + 1;
  }

  static constexpr int64_t narrow_limit = 0x7fffffff;

  /// n / divisor for 0 <= n <= narrow_limit, where the divisor is not larger either.
  __device__ int64_t narrow_quotient(int64_t n) const {
    const uint32_t low = uint32_t(n), high_product = uint32_t((uint64_t(low) * magic_) >> 32);
    return int64_t((high_product + low) >> shift_);
  }
  /// n / divisor for any n >= 0.
  __device__ int64_t wide_quotient(int64_t n) const { return n / divisor_; }

  __host__ __device__ int64_t value() const { return divisor_; }

 private:
  int64_t divisor_ = 1;
  uint32_t magic_ = 1;
  uint32_t shift_ = 0;
};

}  // namespace reprise::kernels::device
