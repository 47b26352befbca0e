// The norm of gradients, and whether they are finite, where each rank has its shards of them alone: with the bits of one
// process, since squares are added within pieces, which lie on one rank each, and the pieces' sums in one order everywhere.
#pragma once

#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/kernels/optimizer/gradient_norm.h"

namespace reprise::distributed {

/// optim::grad_norm of all gradients of the model, whole or scattered. All ranks call it.
double grad_norm(DataParallel& parallel);

/// kernels::norm_and_check of the scattered gradients of `parameters`, in their order. All ranks call it. Error if one of
/// them is not among those that `parallel` trains.
void check_gradients(DataParallel& parallel, const TensorList& parameters,
                     const kernels::GradientCheck& check);

}  // namespace reprise::distributed
