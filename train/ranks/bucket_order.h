// The order of arrival of buckets, which a checkpoint keeps: a run that goes on sends gradients as before.
#pragma once

#include <string>

#include "reprise/distributed/data_parallel/data_parallel.h"

namespace reprise::train {

/// What a checkpoint keeps of it: "order", the places of parameters, i64 (parameters), and "bytes", of a bucket and of the first one,
/// i64 (2). Empty where there is none.
nn::NamedTensors bucket_order(const distributed::DataParallel& parallel);

/// Gives `parallel` the order that a checkpoint has, if it wants one (BucketOrder::arrival). All ranks call it. Where that is none or
/// does not fit, of other parameters or sizes of buckets, it is measured again: returns what to say of that, else nothing.
std::string restore_bucket_order(distributed::DataParallel& parallel, const nn::NamedTensors& saved);

}  // namespace reprise::train
