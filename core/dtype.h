// Element types: their names, sizes and conversions, and the dispatch from a run-time DType to a C++ type.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string_view>

#include "reprise/core/error.h"

namespace reprise {

/// Element types of tensors; `boolean` is a byte of 0 or 1.
enum class DType : uint8_t { f64, f32, bf16, f16, i64, i32, u8, boolean };

size_t size_of(DType dtype);            ///< bytes of one element
std::string_view name_of(DType dtype);  ///< "f32", "bool", ...
bool is_floating(DType dtype);          ///< f64, f32, bf16 or f16
DType promote(DType a, DType b);        ///< the type of `a + b`: floating beats integer, wide beats narrow
std::ostream& operator<<(std::ostream& out, DType dtype);  ///< writes its name

/// bfloat16: the upper half of an f32. Storage only; arithmetic is done in f32.
struct BFloat16 {
  uint16_t bits = 0;     ///< sign, 8 of the exponent, 7 of the fraction
  BFloat16() = default;  ///< 0
  /// Rounds to nearest even; a NaN becomes a quiet one.
  BFloat16(float value) {
    uint32_t u = std::bit_cast<uint32_t>(value);
    bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = nan ? uint16_t((u >> 16) | 0x40) : uint16_t((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
  }
  /// Exact.
  operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
};

/// IEEE 754 binary16. Storage only; arithmetic is done in f32.
struct Float16 {
  uint16_t bits = 0;       ///< sign, 5 of the exponent, 10 of the fraction
  Float16() = default;     ///< 0
  Float16(float value);    ///< rounds to nearest even; inf from 65520 on
  operator float() const;  ///< exact
};

namespace detail {
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<Float16> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};

template <class T>
struct AccumulatorOf {
  using type = float;
};
template <>
struct AccumulatorOf<double> {
  using type = double;
};
}  // namespace detail

/// The DType of a C++ type: dtype_of<float> is DType::f32.
template <class T>
inline constexpr DType dtype_of = detail::DTypeOf<T>::value;

// What follows is for operations and the engine, and may change.

/// The type sums are kept in: f64 for f64, else f32.
template <class T>
using Accumulator = typename detail::AccumulatorOf<T>::type;

/// Calls `body.operator()<T>()` with the C++ type of `dtype`, which must be floating.
template <class Body>
decltype(auto) dispatch_floating(DType dtype, std::string_view op, Body&& body) {
  switch (dtype) {
    case DType::f64:
      return body.template operator()<double>();
    case DType::f32:
      return body.template operator()<float>();
    case DType::bf16:
      return body.template operator()<BFloat16>();
    case DType::f16:
      return body.template operator()<Float16>();
    default:
      fail(op, ": needs a floating dtype, got ", name_of(dtype));
  }
}

/// Calls `body.operator()<T>()` with the C++ type of `dtype`.
template <class Body>
decltype(auto) dispatch_all(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::f64:
      return body.template operator()<double>();
    case DType::f32:
      return body.template operator()<float>();
    case DType::bf16:
      return body.template operator()<BFloat16>();
    case DType::f16:
      return body.template operator()<Float16>();
    case DType::i64:
      return body.template operator()<int64_t>();
    case DType::i32:
      return body.template operator()<int32_t>();
    case DType::u8:
      return body.template operator()<uint8_t>();
    case DType::boolean:
      return body.template operator()<bool>();
  }
  throw Bug("dispatch_all: unknown dtype");
}

}  // namespace reprise
