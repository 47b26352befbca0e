#include "reprise/distributed/data_parallel/statistics.h"

#include <algorithm>

#include "reprise/core/no_compute.h"

namespace reprise::distributed {
namespace {

using autograd::BatchStatistics;

// Numbers of one batch: places of its three buffers (-1: none), count, momentum (-1: none), C, means, variances.
constexpr size_t header = 6;

double place_of(const Tensor& statistic, const nn::NamedTensors& buffers) {
  if (!statistic.defined()) return -1;
  const auto found =
      std::ranges::find_if(buffers, [&](const auto& b) { return b.second.is_same(statistic); });
  check(found != buffers.end(),
        "DataParallel: batch_norm updates running statistics that are no buffers of the model, so that ranks "
        "cannot be told of them; register_buffer them");
  return double(found - buffers.begin());
}

std::vector<double> to_numbers(const std::vector<BatchStatistics>& batches, const nn::NamedTensors& buffers) {
  std::vector<double> numbers;
  for (const BatchStatistics& batch : batches) {
    for (const Tensor& x : {batch.running_mean, batch.running_variance, batch.batches})
      numbers.push_back(place_of(x, buffers));
    numbers.insert(numbers.end(),
                   {double(batch.count), batch.momentum.value_or(-1), double(batch.mean.numel())});
    for (const Tensor& x : {batch.mean, batch.variance}) {
      const std::vector<double> values = x.to_vector<double>();
      numbers.insert(numbers.end(), values.begin(), values.end());
    }
  }
  return numbers;
}

// `numbers` begins with those of one batch; the number that it takes.
size_t update_by(const double* numbers, const nn::NamedTensors& buffers) {
  auto buffer = [&](double place) { return place < 0 ? Tensor() : buffers.at(size_t(place)).second; };
  const auto channels = size_t(numbers[5]);
  const Device device = buffer(numbers[0]).device();
  auto values = [&](const double* begin) {
    return Tensor::from(std::vector<double>(begin, begin + channels), {int64_t(channels)}).to(device);
  };
  const BatchStatistics batch{.mean = values(numbers + header),
                              .variance = values(numbers + header + channels),
                              .count = int64_t(numbers[3]),
                              .running_mean = buffer(numbers[0]),
                              .running_variance = buffer(numbers[1]),
                              .batches = buffer(numbers[2]),
                              .momentum = numbers[4] < 0 ? std::nullopt : std::optional<double>(numbers[4])};
  batch.update();
  return header + 2 * channels;
}

}  // namespace

void fold_statistics(ProcessGroup& group, const nn::NamedTensors& buffers,
                     const std::vector<BatchStatistics>& mine) {
  std::vector<double> numbers = to_numbers(mine, buffers);
  const Tensor counts = Tensor::zeros({group.size()}, DType::i64);
  group.all_gather(counts, Tensor::from(std::vector<int64_t>{int64_t(numbers.size())}, {1}), "batches")
      .wait();
  const std::vector<int64_t> count = counts.to_vector<int64_t>();
  const int64_t most = *std::ranges::max_element(count);
  numbers.resize(size_t(most));  // ranks send equally much
  const Tensor all = Tensor::zeros({most * group.size()}, DType::f64);
  group.all_gather(all, Tensor::from(numbers, {most}), "running statistics").wait();
  if (NoCompute::is_on()) return;  // what others would have sent is not there
  for (int rank = 0; rank < group.size(); ++rank) {
    const double* own = all.data<double>() + rank * most;
    for (size_t at = 0; at < size_t(count[size_t(rank)]);) at += update_by(own + at, buffers);
  }
}

}  // namespace reprise::distributed
