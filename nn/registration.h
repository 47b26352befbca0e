// Layers that no model registered: their parameters get gradients, and are neither trained nor saved.
#pragma once

#include "reprise/nn/module.h"

namespace reprise::nn {

/// Error if `loss` depends on a parameter of a layer that `model` does not know, naming layer, parameter and
/// shape: a forgotten `register_module`. It walks the graph of `loss`: once, before the first backward, will
/// do. Tensors that no module made are the caller's own business.
void check_registered(const Module& model, const Tensor& loss);

namespace detail {

/// A module has made `parameter`.
void note_made(const Module& owner, const std::string& name, const Tensor& parameter);
/// These are known: to a module that was asked for its parameters, or to an optimizer.
void note_known(const TensorList& parameters);
/// Tells of parameters of modules that got a gradient and that are not known, once of each: no optimizer
/// will ever change them. A warning, or an Error if they are refused.
void report_strays();
/// Whether report_strays is an Error from now on; as it was before.
bool refuse_strays(bool value);
#ifndef NDEBUG
/// A program that keeps its assertions (NDEBUG is not defined where it includes this) has an Error.
inline const bool strays_were_refused = refuse_strays(true);
#endif

}  // namespace detail
}  // namespace reprise::nn
