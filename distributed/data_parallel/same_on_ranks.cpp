#include "reprise/distributed/data_parallel/same_on_ranks.h"

#include <algorithm>
#include <iomanip>
#include <map>

#include "reprise/autograd/grad_mode.h"
#include "reprise/distributed/call.h"
#include "reprise/io/crc32c.h"

namespace reprise::distributed {
namespace {

constexpr int64_t hollow = -1;  // no checksum

using Holders = std::map<int64_t, std::vector<int>>;  // the ranks that have a checksum

// Most ranks are right, as far as that can be told.
[[noreturn]] void fail_by(ProcessGroup& group, const std::string& name, const Holders& holders,
                          const std::string& when) {
  TextStream text;
  text << "ranks have other bits in " << name << ' ' << when << ": CRC-32C ";
  const char* between = "";
  for (const auto& [crc, ranks] : holders) {
    text << between << std::hex << std::setw(8) << std::setfill('0') << crc << std::dec << " on "
         << ranks_in_words(ranks);
    between = ", ";
  }
  const auto fewest = std::ranges::min_element(holders, {}, [](const auto& holder) {
    return std::pair(holder.second.size(), -holder.second.front());
  });
  throw DistributedError({FailureKind::mismatch, fewest->second.front(), text.str()},
                         {.operation = "agreement",
                          .group = group.name(),
                          .tensor = name,
                          .record = group.write_calls(text.str())},
                         0);
}

}  // namespace

uint32_t checksum_of(const Tensor& x, uint32_t previous) {
  NoGrad guard;
  const Tensor host = x.contiguous().to(Device::cpu());
  return io::crc32c({static_cast<const char*>(host.view().data), size_t(x.numel()) * size_of(x.dtype())},
                    previous);
}

void check_same_on_ranks(ProcessGroup& group, const nn::NamedTensors& tensors, const std::string& when) {
  if (group.size() == 1) return;
  std::vector<int64_t> own;
  for (const auto& [name, x] : tensors) own.push_back(x.is_hollow() ? hollow : int64_t(checksum_of(x)));
  const auto count = int64_t(own.size());
  const Tensor all = Tensor::zeros({group.size(), count}, DType::i64);
  group.all_gather(all, Tensor::from(own, {count}), "checksums").wait();
  for (size_t i = 0; i < tensors.size(); ++i) {
    Holders holders;
    for (int rank = 0; rank < group.size(); ++rank)
      if (const int64_t crc = all.data<int64_t>()[size_t(rank) * tensors.size() + i]; crc != hollow)
        holders[crc].push_back(rank);
    if (holders.size() > 1) fail_by(group, tensors[i].first, holders, when);
  }
}

}  // namespace reprise::distributed
