// What batch norms in training do to running statistics, and a collector that keeps it for later: ranks that train together
// fold the batches of all of them in one order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "reprise/core/tensor.h"

namespace reprise::autograd {

/// What one batch_norm says of its batch, and whom it tells.
struct BatchStatistics {
  Tensor mean, variance;                  ///< of the batch: f64 (C); the variance is the biased one
  int64_t count = 0;                      ///< values per channel
  Tensor running_mean, running_variance;  ///< (C)
  Tensor batches;                         ///< one i64, or undefined
  std::optional<double> momentum;

  /// Blends the batch into the running statistics, as `batch_norm` says.
  void update() const;
};

/// While it lives, batch norms on the thread that has made it leave running statistics alone, and it keeps what they would
/// have done. Of several on a thread the newest that is left takes all.
class StatisticsCollector {
 public:
  StatisticsCollector();

  /// What came since the last call, in the order of the operations.
  std::vector<BatchStatistics> take();

  /// Gives `statistics` to this thread's collector; false if it has none.
  static bool add(const BatchStatistics& statistics);

 private:
  std::shared_ptr<std::vector<BatchStatistics>> collected_;
};

}  // namespace reprise::autograd
