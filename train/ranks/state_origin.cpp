#include "reprise/train/ranks/state_origin.h"

#include <fmt/core.h>

namespace reprise::train {

std::map<std::string, std::string> state_origin(const distributed::DataParallel& parallel,
                                                int64_t micro_batches) {
  const int stage = parallel.scattered_weights() ? 3 : parallel.scatters_gradients() ? 2 : 1;
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
