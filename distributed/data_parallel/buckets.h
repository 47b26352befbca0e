// Buckets: which gradients are sent together. Few large messages take less time than many small ones, and the first ones can
// go while backward still runs.
#pragma once

#include <optional>

#include "reprise/core/tensor.h"

namespace reprise::distributed {

/// In which order a DataParallel fills buckets with gradients.
enum class BucketOrder : uint8_t {
  registration,  ///< of the parameters, from the last one on: about that of backward
  arrival  ///< in which they became ready on rank 0 in its first step, which has the order of registration itself
};

/// When a bucket is full: both sizes are positive.
struct BucketOptions {
  int64_t bytes = int64_t(25) << 20;       ///< of gradients, in their dtype
  int64_t first_bytes = int64_t(1) << 20;  ///< of the first one of each dtype: communication begins early
  /// On GPUs, where NCCL has windows: whether each bucket has a buffer of its own, which is one, and stays between steps
  /// (data_parallel/bucket_windows.h).
  bool windows = true;
  BucketOrder order = BucketOrder::registration;  ///< with `arrival` what ranks share (ZeRO) is an Error
};

/// Gradients of one dtype, as places in the list of parameters; the one that is ready first comes first.
struct Bucket {
  DType dtype = DType::f32;        ///< of the gradients
  std::vector<size_t> parameters;  ///< places in the list
  int64_t numel = 0;               ///< elements of all of them
};

/// Each parameter is in one bucket, in reverse order of registration, which is about the order of backward (Li et al. 2020).
/// A bucket is full once it has as many bytes as it should; buckets stand in the order in which they become full.
/// Of the parameters at `places` alone, if these are given.
std::vector<Bucket> plan_buckets(const TensorList& parameters, const BucketOptions& options,
                                 const std::optional<std::vector<size_t>>& places = {});

}  // namespace reprise::distributed
