// Optimizers that ranks share update bucket by bucket: the weights of one are sent while the next one is updated.
// labels: concurrency
#include <gtest/gtest.h>

#include "reprise/distributed/sharded/sharded.h"
#include "reprise/io/file.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/distributed/sharded/wide_net.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::distributed {
namespace {

using testing::checksum;
using testing::Ranks;
using testing::WideNet;

constexpr BucketOptions kSmall{.bytes = 300000, .first_bytes = 1000};
constexpr int64_t micro_batches = 2;

// What a rank has called so far to gather weights.
int64_t gathers_of(ProcessGroup& group) {
  const std::string calls = io::read_file(group.write_calls("asked"));
  const std::string gather = "weights of bucket";
  int64_t gathers = 0;
  for (size_t at = calls.find(gather); at != std::string::npos; at = calls.find(gather, at + 1)) ++gathers;
  return gathers;
}

// Tells when a bucket is updated.
template <class Base>
class Observed final : public Sharded<Base> {
 public:
  template <class Options>
  Observed(DataParallel& parallel, const Options& options)
      : Sharded<Base>("Observed", parallel, optim::decay_matrices(parallel.model(), 1e-2, 0.1), options,
                      {.stage = 1}, true) {}
  std::function<void(size_t part)> told{};

 protected:
  void updated(size_t part) override {
    Sharded<Base>::updated(part);
    told(part);
  }
};

// Whether this rank has changed a bucket's weights since they had these checksums.
bool is_updated(const DataParallel& parallel, size_t bucket, const std::vector<std::string>& before) {
  for (const size_t i : parallel.buckets()[bucket].parameters)
    if (checksum(parallel.leaves()[i]) != before[i]) return true;
  return false;
}

template <class Base, class Options>
std::string train(ProcessGroup& group, const Options& options, bool if_finite) {
  const testing::TempFolder folder;
  group.record_to(folder.path());
  manual_seed(3);
  WideNet net;
  DataParallel parallel(net, group, kSmall);
  Observed<Base> optimizer(parallel, options);
  for (const int64_t g : parallel.share(micro_batches)) parallel.backward(net.loss(0, g), g);
  std::vector<std::string> before;
  for (const Tensor& leaf : parallel.leaves()) before.push_back(checksum(leaf));
  size_t parts = 0;
  std::string wrong;
  optimizer.told = [&](size_t part) {
    if (part != parts++) wrong += detail::join("bucket ", part, " out of order; ");
    if (gathers_of(group) != int64_t(parts)) wrong += detail::join("no gather behind bucket ", part, "; ");
    for (size_t later = part + 1; later < before.size() && later < parallel.buckets().size(); ++later)
      if (is_updated(parallel, later, before)) wrong += detail::join("bucket ", later, " is updated; ");
  };
  if (if_finite)
    optimizer.step_if_finite(Tensor::from<double>({1}, {}), Tensor::from<int32_t>({0}, {}));
  else
    optimizer.step();
  if (parts != parallel.buckets().size() || parts < 2) wrong += detail::join(parts, " buckets; ");
  for (size_t bucket = 0; bucket < parallel.buckets().size(); ++bucket)
    if (parallel.leaves()[parallel.buckets()[bucket].parameters.front()].grad().defined() &&
        !is_updated(parallel, bucket, before))
      wrong += detail::join("bucket ", bucket, " is not updated; ");
  return wrong;
}

TEST(UpdateOrder, ABucketsWeightsAreSentBeforeTheNextOneIsUpdated) {
  for (const bool if_finite : {false, true}) {
    testing::expect_ranks_well(Ranks::threads, 2, [&](ProcessGroup& group) {
      return train<optim::AdamW>(group, optim::AdamWOptions{}, if_finite);
    });
    testing::expect_ranks_well(Ranks::threads, 2, [&](ProcessGroup& group) {
      return train<optim::Sgd>(group, optim::SgdOptions{.momentum = 0.9}, if_finite);
    });
  }
}

}  // namespace
}  // namespace reprise::distributed
