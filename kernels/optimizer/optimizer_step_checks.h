// What optimizer steps check, on any device.
#pragma once

#include "reprise/kernels/optimizer/gradient_norm_checks.h"
#include "reprise/kernels/optimizer/optimizer_step.h"

namespace reprise::kernels {

/// A state tensor is laid out exactly like its parameter.
inline void check_state(const char* op, size_t t, const char* name, const TensorView& state,
                        const TensorView& parameter) {
  check(state.shape == parameter.shape, op, ": ", name, " ", t, " has shape ", state.shape,
        ", its parameter ", parameter.shape);
  check(state.is_contiguous(), op, ": ", name, " ", t, " is not contiguous: shape ", state.shape,
        ", strides ", state.strides);
}

inline void check_tensor(const char* op, size_t t, const TensorView& parameter, const TensorView& gradient) {
  check(parameter.dtype == DType::f32 || parameter.dtype == DType::f64, op, ": parameter ", t,
        " needs f32 or f64, is ", parameter.dtype);
  check_state(op, t, "parameter", parameter, parameter);
  check_state(op, t, "gradient", gradient, parameter);
  bool fits = parameter.dtype == DType::f64 ? gradient.dtype == DType::f64
                                            : is_floating(gradient.dtype) && gradient.dtype != DType::f64;
  check(fits, op, ": gradient ", t, " is ", gradient.dtype, ", its parameter ", parameter.dtype);
}

inline void check_moment(const char* op, size_t t, const char* name, const TensorView& state,
                         const TensorView& parameter) {
  check_state(op, t, name, state, parameter);
  check(state.dtype == parameter.dtype, op, ": ", name, " ", t, " is ", state.dtype, ", its parameter ",
        parameter.dtype);
}

inline void check_numbers(const char* op, const StepNumbers& numbers) {
  check_scalar(op, "lr_factor", numbers.lr_factor, DType::f64);
  check_scalar(op, "gradient_scale", numbers.gradient_scale, DType::f64);
  check_scalar(op, "step", numbers.step, DType::i64);
  check_scalar(op, "skip", numbers.skip, DType::i32);
}

inline void check_adamw(std::span<const AdamWTensor> tensors, const AdamWOptions& options) {
  constexpr auto op = "adamw";
  check(options.step >= 1, op, ": step is ", options.step, ", should be at least 1");
  check_numbers(op, options.in_memory);
  for (size_t t = 0; t < tensors.size(); ++t) {
    check_tensor(op, t, tensors[t].parameter, tensors[t].gradient);
    check_moment(op, t, "first moment", tensors[t].first_moment, tensors[t].parameter);
    check_moment(op, t, "second moment", tensors[t].second_moment, tensors[t].parameter);
    check_scalar(op, "updates", tensors[t].updates, DType::i64);
    const TensorView &rounded = tensors[t].rounded, &gradient = tensors[t].gradient;
    if (!rounded) continue;
    check_state(op, t, "rounded parameter", rounded, tensors[t].parameter);
    check(rounded.dtype == gradient.dtype && size_of(rounded.dtype) == 2, op, ": rounded parameter ", t,
          " is ", rounded.dtype, ", needs bf16 or f16, as its gradient; that is ", gradient.dtype);
  }
}

inline void check_sgd(std::span<const SgdTensor> tensors, const SgdOptions& options) {
  constexpr auto op = "sgd";
  check_numbers(op, options.in_memory);
  for (size_t t = 0; t < tensors.size(); ++t) {
    check_tensor(op, t, tensors[t].parameter, tensors[t].gradient);
    if (tensors[t].velocity) check_moment(op, t, "velocity", tensors[t].velocity, tensors[t].parameter);
    check(options.momentum == 0 || tensors[t].velocity || tensors[t].parameter.numel() == 0, op,
          ": momentum is ", options.momentum, ", but tensor ", t, " has no velocity");
  }
}

}  // namespace reprise::kernels
