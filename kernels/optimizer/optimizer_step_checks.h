// What optimizer steps check, on any device, and how they tell what a parameter is stored as.
#pragma once

#include "reprise/kernels/optimizer/gradient_norm_checks.h"
#include "reprise/kernels/optimizer/optimizer_step.h"
#include "reprise/kernels/optimizer/quantized.h"

namespace reprise::kernels {

/// A state tensor is laid out exactly like its parameter.
inline void check_state(const char* op, size_t t, const char* name, const TensorView& state,
                        const TensorView& parameter) {
  check(state.shape == parameter.shape, op, ": ", name, " ", t, " has shape ", state.shape,
        ", its parameter ", parameter.shape);
  check(state.is_contiguous(), op, ": ", name, " ", t, " is not contiguous: shape ", state.shape,
        ", strides ", state.strides);
}

inline bool has_16_bits(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

inline void check_tensor(const char* op, size_t t, const TensorView& parameter, const TensorView& gradient) {
  check_state(op, t, "parameter", parameter, parameter);
  check_state(op, t, "gradient", gradient, parameter);
  bool fits = parameter.dtype == DType::f64 ? gradient.dtype == DType::f64
                                            : is_floating(gradient.dtype) && gradient.dtype != DType::f64;
  check(fits, op, ": gradient ", t, " is ", gradient.dtype, ", its parameter ", parameter.dtype);
}

inline void check_velocity(const char* op, size_t t, const TensorView& state, const TensorView& parameter) {
  check_state(op, t, "velocity", state, parameter);
  check(state.dtype == (parameter.dtype == DType::f64 ? DType::f64 : DType::f32), op, ": velocity ", t,
        " is ", state.dtype, ", its parameter ", parameter.dtype);
}

inline void check_rounded(const char* op, size_t t, const TensorView& rounded, const TensorView& parameter,
                          const TensorView& gradient) {
  if (!rounded) return;
  check_state(op, t, "rounded parameter", rounded, parameter);
  check(parameter.dtype == DType::f32 && has_16_bits(rounded.dtype), op, ": rounded parameter ", t, " is ",
        rounded.dtype, ", needs bf16 or f16, of a parameter in f32; that is ", parameter.dtype);
  check(gradient.dtype == DType::f32 || gradient.dtype == rounded.dtype, op, ": rounded parameter ", t,
        " is ", rounded.dtype, ", its gradient ", gradient.dtype, ", which should be that or f32");
}

/// How the parameter lies in memory.
enum class Stored : uint8_t {
  plain,
  bf16_copy,  ///< f32 or f64, and rounded beside
  f16_copy,
  split,   ///< bf16, and the lower half beside
  random,  ///< bf16, rounded at random
};

/// Of AdamWTensor or SgdTensor.
template <class StepTensor>
Stored stored_as(const StepTensor& t) {
  if (t.parameter.dtype != DType::bf16)
    return !t.rounded ? Stored::plain : t.rounded.dtype == DType::bf16 ? Stored::bf16_copy : Stored::f16_copy;
  return t.remainder ? Stored::split : Stored::random;
}

/// Calls body.operator()<C, S, G>() with the types that a step computes in, stores its parameter as, and has gradients
/// of, for those that the checks let through.
template <class StepTensor, class Body>
void dispatch_stored(const char* op, const StepTensor& t, Body&& body) {
  const DType gradient = t.gradient.dtype;
  auto beside_f32 = [&]<Stored S, class Half>() {
    gradient == DType::f32 ? body.template operator()<float, S, float>()
                           : body.template operator()<float, S, Half>();
  };
  switch (stored_as(t)) {
    case Stored::plain:
      return dispatch_floating(
          gradient, op, [&]<class G>() { body.template operator()<Accumulator<G>, Stored::plain, G>(); });
    case Stored::bf16_copy:
      return beside_f32.template operator()<Stored::bf16_copy, BFloat16>();
    case Stored::f16_copy:
      return beside_f32.template operator()<Stored::f16_copy, Float16>();
    case Stored::split:
      return beside_f32.template operator()<Stored::split, BFloat16>();
    case Stored::random:
      return beside_f32.template operator()<Stored::random, BFloat16>();
  }
}

/// Calls body.operator()<C, S, M, G>(): with the type of the moments too; those in blocks are uint8_t.
template <class Body>
void dispatch_adamw(const AdamWTensor& t, Body&& body) {
  dispatch_stored("adamw", t, [&]<class C, Stored S, class G>() {
    if constexpr (sizeof(C) == 8) {
      body.template operator()<C, S, C, G>();
    } else {
      if (t.first_moment.dtype == DType::f32) return body.template operator()<C, S, float, G>();
      if (t.first_moment.dtype == DType::u8) return body.template operator()<C, S, uint8_t, G>();
      body.template operator()<C, S, BFloat16, G>();
    }
  });
}

inline void check_moments(const char* op, size_t t, const AdamWTensor& tensor) {
  const TensorView &first = tensor.first_moment, &second = tensor.second_moment;
  check_state(op, t, "first moment", first, tensor.parameter);
  check_state(op, t, "second moment", second, tensor.parameter);
  const bool wide = tensor.parameter.dtype == DType::f64;
  check(wide ? first.dtype == DType::f64
             : first.dtype == DType::f32 || first.dtype == DType::bf16 || first.dtype == DType::u8,
        op, ": first moment ", t, " is ", first.dtype, ", its parameter ", tensor.parameter.dtype);
  check(second.dtype == first.dtype, op, ": second moment ", t, " is ", second.dtype, ", the first ",
        first.dtype);
  if (first.dtype != DType::u8) return;
  const Shape blocks = {quantized_blocks(tensor.parameter.numel())};
  for (const TensorView* largest : {&tensor.first_largest, &tensor.second_largest})
    check(largest->dtype == DType::f32 && largest->shape == blocks && largest->is_contiguous(), op,
          ": the largest of the blocks of moments ", t, " are ", largest->dtype, largest->shape, ", need f32",
          blocks);
}

inline void check_numbers(const char* op, const StepNumbers& numbers) {
  check_scalar(op, "lr_factor", numbers.lr_factor, DType::f64);
  check_scalar(op, "gradient_scale", numbers.gradient_scale, DType::f64);
  check_scalar(op, "step", numbers.step, DType::i64);
  check_scalar(op, "skip", numbers.skip, DType::i32);
}

/// A parameter as it is stored, its gradient, and where its draws begin.
template <class StepTensor>
void check_stored(const char* op, size_t t, const StepTensor& tensor, int64_t parameters) {
  const TensorView &parameter = tensor.parameter, &remainder = tensor.remainder;
  const DrawPlace& place = tensor.place;
  check(place.parameter >= 0 && place.parameter < parameters, op, ": place ", t, " is ", place.parameter,
        " of ", parameters, " parameters");
  check(place.element >= 0 && place.element % kQuantizedBlock == 0, op, ": tensor ", t,
        " begins with element ", place.element, " of its parameter, which is no multiple of ",
        kQuantizedBlock);
  check_tensor(op, t, parameter, tensor.gradient);
  check(is_floating(parameter.dtype) && parameter.dtype != DType::f16, op, ": parameter ", t,
        " needs f32, f64 or bf16, is ", parameter.dtype);
  check(parameter.dtype != DType::bf16 || tensor.gradient.dtype != DType::f16, op, ": gradient ", t,
        " is f16, its parameter bf16");
  check_rounded(op, t, tensor.rounded, parameter, tensor.gradient);
  if (!remainder) return;
  Shape bytes = parameter.shape;
  bytes.push_back(2);
  check(parameter.dtype == DType::bf16 && remainder.dtype == DType::u8 && remainder.shape == bytes &&
            remainder.is_contiguous() && reinterpret_cast<uintptr_t>(remainder.data) % 2 == 0,
        op, ": remainder ", t, " is ", remainder.dtype, remainder.shape, ", needs u8", bytes,
        " at an even address; its parameter is ", parameter.dtype);
}

inline void check_adamw(std::span<const AdamWTensor> tensors, const AdamWOptions& options) {
  constexpr auto op = "adamw";
  check(options.step >= 1, op, ": step is ", options.step, ", should be at least 1");
  check_numbers(op, options.in_memory);
  for (size_t t = 0; t < tensors.size(); ++t) {
    check_stored(op, t, tensors[t], options.parameters);
    check_moments(op, t, tensors[t]);
    check_scalar(op, "updates", tensors[t].updates, DType::i64);
  }
}

inline void check_sgd(std::span<const SgdTensor> tensors, const SgdOptions& options) {
  constexpr auto op = "sgd";
  check(options.step >= 1, op, ": step is ", options.step, ", should be at least 1");
  check_numbers(op, options.in_memory);
  for (size_t t = 0; t < tensors.size(); ++t) {
    const SgdTensor& tensor = tensors[t];
    check_stored(op, t, tensor, options.parameters);
    if (tensor.velocity) check_velocity(op, t, tensor.velocity, tensor.parameter);
    check(options.momentum == 0 || tensor.velocity || tensor.parameter.numel() == 0, op, ": momentum is ",
          options.momentum, ", but tensor ", t, " has no velocity");
  }
}

}  // namespace reprise::kernels
