// The names of precisions, and models in them.
#include "reprise/train/precision.h"

#include "reprise/core/error.h"

namespace reprise::train {

Precision parse_precision(std::string_view text) {
  if (text == "f32") return Precision::f32;
  if (text == "bf16") return Precision::bf16;
  if (text == "f16") return Precision::f16;
  if (text == "bf16-pure") return Precision::bf16_pure;
  if (text == "f16-pure") return Precision::f16_pure;
  fail("a precision is f32, bf16, f16, bf16-pure or f16-pure, not ", text);
}

bool is_pure(Precision precision) {
  return precision == Precision::bf16_pure || precision == Precision::f16_pure;
}

bool is_f16(Precision precision) { return precision == Precision::f16 || precision == Precision::f16_pure; }

void to_precision(nn::Module& model, Precision precision) {
  if (is_pure(precision)) nn::to_precision(model, is_f16(precision) ? DType::f16 : DType::bf16);
}

void use_main_gradients(nn::Module& model) {
  for (const Tensor& parameter : model.parameters())
    if (size_of(parameter.dtype()) == 2) parameter.set_grad_dtype(DType::f32);
}

}  // namespace reprise::train
