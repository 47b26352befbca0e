// What averages check, on any device, and how they tell what a value is stored as.
#pragma once

#include "reprise/kernels/optimizer/gradient_norm_checks.h"
#include "reprise/kernels/optimizer/lerp.h"

namespace reprise::kernels {

inline void check_lerp(std::span<const LerpTensor> tensors, const LerpOptions& options) {
  constexpr auto op = "lerp";
  check(options.decay >= 0 && options.decay <= 1, op, ": decay is ", options.decay, ", should be in [0, 1]");
  check_scalar(op, "skip", options.skip, DType::i32);
  for (size_t t = 0; t < tensors.size(); ++t) {
    const auto& [average, value, remainder] = tensors[t];
    const bool widened =
        average.dtype == DType::f32 && (value.dtype == DType::bf16 || value.dtype == DType::f16);
    check(average.shape == value.shape && (average.dtype == value.dtype || widened), op, ": average ", t,
          " is ", average.dtype, average.shape, ", its value ", value.dtype, value.shape);
    check(average.is_contiguous() && value.is_contiguous(), op, ": average ", t, " ", average.shape,
          " is not contiguous: strides ", average.strides, ", those of its value ", value.strides);
    if (!remainder) continue;
    Shape bytes = value.shape;
    bytes.push_back(2);
    check(widened && value.dtype == DType::bf16 && remainder.dtype == DType::u8 && remainder.shape == bytes &&
              remainder.is_contiguous() && reinterpret_cast<uintptr_t>(remainder.data) % 2 == 0,
          op, ": remainder ", t, " is ", remainder.dtype, remainder.shape, ", needs u8", bytes,
          " at an even address; its value is ", value.dtype);
  }
}

/// A bf16 value with its lower half beside it.
struct SplitValue {};

/// Calls body.operator()<A, V>() with the types of the average and the value: for what is not floating, an unsigned
/// integer of its size, twice.
template <class Body>
void dispatch_lerp(const LerpTensor& t, Body&& body) {
  auto of_bits = [&]<class T>() { body.template operator()<T, T>(); };
  if (!is_floating(t.average.dtype)) {
    switch (size_of(t.average.dtype)) {
      case 1:
        return of_bits.template operator()<uint8_t>();
      case 4:
        return of_bits.template operator()<uint32_t>();
      default:
        return of_bits.template operator()<uint64_t>();
    }
  }
  if (t.remainder) return body.template operator()<float, SplitValue>();
  if (t.value.dtype == t.average.dtype) return dispatch_floating(t.average.dtype, "lerp", of_bits);
  t.value.dtype == DType::bf16 ? body.template operator()<float, BFloat16>()
                               : body.template operator()<float, Float16>();
}

}  // namespace reprise::kernels
