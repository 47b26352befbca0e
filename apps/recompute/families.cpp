// The models that there are, and which options they have.
#include "reprise/apps/recompute/families.h"

#include <algorithm>

namespace reprise::apps::recompute {
namespace {

std::vector<ModelFamily> families() {
  return {gpt_family(), llama_family(), vit_family(), resnet_family(), unet_family(), jepa_family()};
}

template <class T>
bool contains(const std::vector<T>& list, const T& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 < words.size() ? ", " : " and ") + words[i];
  return text;
}

// An option that the model has not would be ignored.
void check_options(const ModelFamily& family, const WorkloadOptions& o) {
  const std::pair<const char*, bool> given[] = {{"--layers", o.layers > 0},
                                                {"--width", o.width > 0},
                                                {"--heads", o.heads > 0},
                                                {"--context", o.context > 0},
                                                {"--length", o.length > 0},
                                                {"--vocab-size", o.vocab_size > 0},
                                                {"--data", !o.data.empty()},
                                                {"--image", o.image > 0},
                                                {"--patch", o.patch > 0},
                                                {"--classes", o.classes > 0},
                                                {"--dropout", o.dropout > 0},
                                                {"--drop-path", o.drop_path > 0},
                                                {"--recompute-predictor", !o.recompute_predictor.empty()}};
  for (const auto& [option, is_given] : given)
    check(!is_given || contains<std::string>(family.options, option), option, " is not an option of --model ",
          o.model, ", which has ", listed(family.options));
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ModelFamily& family : families())
    names.insert(names.end(), family.names.begin(), family.names.end());
  return names;
}

std::unique_ptr<Workload> make_workload(const WorkloadOptions& options) {
  for (const ModelFamily& family : families()) {
    if (!contains(family.names, options.model)) continue;
    check_options(family, options);
    return family.make(options);
  }
  fail("--model '", options.model, "' is not one of ", listed(model_names()));
}

}  // namespace reprise::apps::recompute
