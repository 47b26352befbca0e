#include "reprise/train/ranks/bucket_order.h"

#include <algorithm>
#include <vector>

namespace reprise::train {
namespace {

std::vector<int64_t> bytes_of(const distributed::DataParallel& parallel) {
  return {parallel.bucket_options().bytes, parallel.bucket_options().first_bytes};
}

Tensor tensor_of(const std::vector<int64_t>& numbers) {
  return Tensor::from(numbers, {int64_t(numbers.size())});
}

std::vector<int64_t> numbers_in(const nn::NamedTensors& saved, const std::string& name) {
  const auto found = std::ranges::find_if(saved, [&](const auto& one) { return one.first == name; });
  const bool is_there = found != saved.end() && found->second.dtype() == DType::i64;
  return is_there ? found->second.to_vector<int64_t>() : std::vector<int64_t>();
}

// Why an order cannot be taken; empty if it can.
std::string misfit(const distributed::DataParallel& parallel, const nn::NamedTensors& saved) {
  if (saved.empty()) return "the checkpoint has none";
  const std::vector<int64_t> bytes = numbers_in(saved, "bytes"), now = bytes_of(parallel);
  if (bytes.size() != 2) return "the checkpoint does not say of which buckets its own is";
  if (bytes != now)
    return detail::join("the checkpoint's is of buckets of ", bytes[1], " and ", bytes[0], " bytes, now ",
                        now[1], " and ", now[0]);
  std::vector<int64_t> order = numbers_in(saved, "order");
  const size_t parameters = parallel.leaves().size();
  if (order.size() != parameters)
    return detail::join("the checkpoint's is of ", order.size(), " parameters, now ", parameters);
  std::ranges::sort(order);
  for (size_t i = 0; i < parameters; ++i)
    if (order[i] != int64_t(i)) return "the checkpoint's does not name each parameter once";
  return "";
}

}  // namespace

nn::NamedTensors bucket_order(const distributed::DataParallel& parallel) {
  const std::vector<size_t>& order = parallel.arrival_order();
  if (order.empty()) return {};
  return {{"order", tensor_of({order.begin(), order.end()})}, {"bytes", tensor_of(bytes_of(parallel))}};
}

std::string restore_bucket_order(distributed::DataParallel& parallel, const nn::NamedTensors& saved) {
  if (parallel.bucket_options().order != distributed::BucketOrder::arrival) return "";
  if (!parallel.arrival_order().empty()) return "";              // it was measured, or told, before
  if (parallel.group().size() == 1 && saved.empty()) return "";  // nothing arrives
  const std::string why = misfit(parallel, saved);
  if (!why.empty()) return "Buckets: their order of arrival is measured again: " + why;
  const std::vector<int64_t> order = numbers_in(saved, "order");
  parallel.set_arrival_order({order.begin(), order.end()});
  return "";
}

}  // namespace reprise::train
