#include "reprise/distributed/data_parallel/buckets.h"

#include <map>

namespace reprise::distributed {

std::vector<Bucket> plan_buckets(const TensorList& parameters, const BucketOptions& options,
                                 const std::optional<std::vector<size_t>>& places) {
  check(options.bytes > 0 && options.first_bytes > 0, "buckets: sizes are ", options.first_bytes, " and ",
        options.bytes, " bytes; both are positive");
  struct Filling {
    Bucket bucket;
    int64_t limit;
  };
  std::vector<Bucket> full;
  std::map<DType, Filling> filling;
  const size_t count = places ? places->size() : parameters.size();
  for (size_t k = count; k-- > 0;) {
    const size_t i = places ? (*places)[k] : k;
    const DType dtype = parameters[i].grad_dtype();
    Filling& f = filling.try_emplace(dtype, Filling{{dtype, {}, 0}, options.first_bytes}).first->second;
    f.bucket.parameters.push_back(i);
    f.bucket.numel += parameters[i].numel();
    if (f.bucket.numel * int64_t(size_of(dtype)) < f.limit) continue;
    full.push_back(std::move(f.bucket));
    f = {{dtype, {}, 0}, options.bytes};
  }
  for (auto& [dtype, f] : filling)
    if (!f.bucket.parameters.empty()) full.push_back(std::move(f.bucket));
  return full;
}

}  // namespace reprise::distributed
