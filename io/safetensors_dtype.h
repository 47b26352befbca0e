// What safetensors calls the element types.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "reprise/core/dtype.h"

namespace reprise::io {

inline constexpr std::array<std::pair<DType, std::string_view>, 8> safetensors_dtypes = {
    {{DType::f64, "F64"},
     {DType::f32, "F32"},
     {DType::bf16, "BF16"},
     {DType::f16, "F16"},
     {DType::i64, "I64"},
     {DType::i32, "I32"},
     {DType::u8, "U8"},
     {DType::boolean, "BOOL"}}};

constexpr std::optional<DType> safetensors_dtype(std::string_view name) {
  for (auto [dtype, known] : safetensors_dtypes) {
    if (known == name) return dtype;
  }
  return {};
}

constexpr std::string_view safetensors_name(DType dtype) {
  for (auto [known, name] : safetensors_dtypes) {
    if (known == dtype) return name;
  }
  return "";
}

}  // namespace reprise::io
