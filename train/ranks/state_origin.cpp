#include "reprise/train/ranks/state_origin.h"

#include <fmt/core.h>

#include <algorithm>

#include "reprise/distributed/sharded/sharded.h"

namespace reprise::train {

std::map<std::string, std::string> state_origin(optim::Optimizer& optimizer,
                                                const distributed::DataParallel& parallel,
                                                int64_t micro_batches) {
  int stage = 0;
  for (const auto& [name, part] : optimizer.parts())
    if (const auto* shared = dynamic_cast<const distributed::SharedOptimizer*>(part))
      stage = std::max(stage, shared->stage());
  const bool is_tree = parallel.sum_order() == distributed::SumOrder::tree;
  return {{"zero", std::to_string(stage)},
          {"micro_batches", std::to_string(micro_batches)},
          {"reduce", is_tree ? "tree" : "fast"}};
}

std::string in_words(const std::map<std::string, std::string>& origin) {
  auto value = [&](const char* key) {
    const auto found = origin.find(key);
    return found == origin.end() ? std::string("?") : found->second;
  };
  if (origin.empty()) return "";
  return fmt::format("{} ranks at ZeRO stage {}, {} micro-batches per step, reduce {}", value("ranks"),
                     value("zero"), value("micro_batches"), value("reduce"));
}

}  // namespace reprise::train
