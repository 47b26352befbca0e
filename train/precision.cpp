// The names of precisions.
#include "reprise/train/precision.h"

#include "reprise/core/error.h"

namespace reprise::train {

Precision parse_precision(std::string_view text) {
  if (text == "f32") return Precision::f32;
  if (text == "bf16") return Precision::bf16;
  if (text == "f16") return Precision::f16;
  fail("a precision is f32, bf16 or f16, not ", text);
}

}  // namespace reprise::train
