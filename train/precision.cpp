// The names of precisions.
#include "reprise/train/precision.h"

#include "reprise/core/error.h"

namespace reprise::train {

Precision parse_precision(std::string_view text) {
  if (text == "f32") return Precision::f32;
  if (text == "bf16") return Precision::bf16;
  check(text != "f16", "f16 needs a loss scale, which there is not yet: bf16 has the range of f32");
  fail("a precision is f32 or bf16, not ", text);
}

}  // namespace reprise::train
