#include "reprise/distributed/data_parallel/shards.h"

#include <algorithm>

namespace reprise::distributed {

Shards::Shards(const std::vector<Bucket>& buckets, const std::vector<int64_t>& numel, int ranks)
    : ranks_(ranks), by_parameter_(numel.size(), std::vector<Shard>(size_t(ranks))) {
  for (const Bucket& bucket : buckets) cut(bucket, numel);
}

// A piece is of the part that its middle lies in: parts differ from equal ones by half a piece.
void Shards::cut(const Bucket& bucket, const std::vector<int64_t>& numel) {
  std::vector<std::vector<Shard>> parts;
  parts.resize(size_t(ranks_));
  std::vector<int64_t> filled(size_t(ranks_), 0);
  int64_t before = 0;  // elements of the parameters before this one
  for (size_t parameter : bucket.parameters) {
    for (int64_t begin = 0; begin < numel[parameter]; begin += kernels::kSquaresPiece) {
      const int64_t end = std::min(numel[parameter], begin + kernels::kSquaresPiece);
      const auto rank = size_t((before + (begin + end) / 2) * ranks_ / bucket.numel);
      std::vector<Shard>& part = parts[rank];
      if (part.empty() || part.back().parameter != parameter)
        part.push_back({parameter, {begin, begin}, filled[rank]});
      part.back().range.end = end;
      filled[rank] += end - begin;
    }
    before += numel[parameter];
  }
  for (size_t rank = 0; rank < parts.size(); ++rank)
    for (const Shard& shard : parts[rank]) by_parameter_[shard.parameter][rank] = shard;
  part_numel_.push_back(*std::ranges::max_element(filled));
  parts_.push_back(std::move(parts));
}

}  // namespace reprise::distributed
