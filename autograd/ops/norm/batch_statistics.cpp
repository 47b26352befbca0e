#include "reprise/autograd/ops/norm/batch_statistics.h"

#include <utility>

#include "reprise/autograd/ops/raw.h"
#include "reprise/kernels/norm/batch_norm.h"

namespace reprise::autograd {
namespace {

// A collector may end on another thread, so those that are gone are found by their pointers.
thread_local std::vector<std::weak_ptr<std::vector<BatchStatistics>>> collectors;

}  // namespace

void BatchStatistics::update() const {
  for (const Tensor& x : {running_mean, running_variance, batches})
    if (x.defined()) x.storage()->bump_version();
  kernels::update_running_statistics(current_stream(running_mean.device()),
                                     {.mean = mean,
                                      .variance = variance,
                                      .running_mean = running_mean,
                                      .running_variance = running_variance,
                                      .batches = optional_view(batches)},
                                     count, momentum);
}

StatisticsCollector::StatisticsCollector() : collected_(std::make_shared<std::vector<BatchStatistics>>()) {
  collectors.push_back(collected_);
}

std::vector<BatchStatistics> StatisticsCollector::take() { return std::exchange(*collected_, {}); }

bool StatisticsCollector::add(const BatchStatistics& statistics) {
  while (!collectors.empty() && collectors.back().expired()) collectors.pop_back();
  if (collectors.empty()) return false;
  const auto newest = collectors.back().lock();
  if (newest) newest->push_back(statistics);
  return newest != nullptr;
}

}  // namespace reprise::autograd
