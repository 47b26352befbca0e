#include "reprise/nn/dialects/pretrained.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "reprise/autograd/grad_mode.h"
#include "reprise/nn/transformers/positions.h"

namespace reprise::nn {
namespace {

auto entry_of(NamedTensors& tensors, const std::string& name) {
  return std::find_if(tensors.begin(), tensors.end(), [&](const auto& entry) { return entry.first == name; });
}

// The weights' own shape is an Error of `load_state_dict` where it cannot be that of positions.
void fit_positions(const Vit& model, NamedTensors& weights, std::vector<std::string>& changes) {
  auto given = entry_of(weights, "pos_embed");
  const int64_t tokens = model.pos_embed.size(1), side = model.options().image / model.options().patch;
  if (given == weights.end() || given->second.rank() != 3 || given->second.size(1) == tokens) return;
  const int64_t prefix = tokens - side * side, patches = given->second.size(1) - prefix;
  const auto before = int64_t(std::llround(std::sqrt(double(std::max<int64_t>(patches, 0)))));
  if (patches < 1 || before * before != patches) return;
  given->second = resample_positions(given->second, {side, side}, prefix);
  changes.push_back(reprise::detail::join("positions of ", before, " x ", before,
                                          " patches are resampled to ", side, " x ", side));
}

// A model that norms the mean of the tokens, and weights of an encoder that norms the tokens.
void fit_norm(const Vit& model, NamedTensors& weights, std::vector<std::string>& changes) {
  if (!model.fc_norm || entry_of(weights, "fc_norm.weight") != weights.end()) return;
  const std::string theirs = "norm.";
  bool found = false;
  for (auto& [name, tensor] : weights) {
    if (!name.starts_with(theirs)) continue;
    name = "fc_norm." + name.substr(theirs.size());
    found = true;
  }
  if (found) changes.push_back("the norm of the tokens becomes that of their mean, fc_norm");
}

// `head`: "head.", what the names of its tensors begin with.
void fit_head(const std::string& head, int64_t classes, const NamedTensors& own, NamedTensors& weights,
              std::vector<std::string>& changes) {
  auto given = entry_of(weights, head + "weight");
  if (given != weights.end() && given->second.rank() == 2 && given->second.size(0) == classes) return;
  changes.push_back(given == weights.end()
                        ? reprise::detail::join("there is no head: it is made anew for ", classes, " classes")
                        : reprise::detail::join("the head is for ",
                                                given->second.shape().empty() ? 0 : given->second.size(0),
                                                " classes: it is made anew for ", classes));
  std::erase_if(weights, [&](const auto& entry) { return entry.first.starts_with(head); });
  for (const auto& entry : own)
    if (entry.first.starts_with(head)) weights.push_back(entry);
}

}  // namespace

NamedTensors with_dtypes_of(const Module& model, NamedTensors tensors) {
  NoGrad guard;
  std::map<std::string, DType> dtypes;
  for (const auto& [name, tensor] : model.state_dict()) dtypes.emplace(name, tensor.dtype());
  for (auto& [name, tensor] : tensors) {
    auto found = dtypes.find(name);
    if (found != dtypes.end() && is_floating(tensor.dtype()) && is_floating(found->second))
      tensor = tensor.to(found->second);
  }
  return tensors;
}

std::vector<std::string> load_pretrained(Vit& model, NamedTensors weights) {
  NoGrad guard;
  const NamedTensors own = model.state_dict();
  std::vector<std::string> changes;
  fit_positions(model, weights, changes);
  fit_norm(model, weights, changes);
  if (model.head) fit_head("head.", model.options().classes, own, weights, changes);
  model.load_state_dict(with_dtypes_of(model, std::move(weights)));
  return changes;
}

std::vector<std::string> load_pretrained(ResNet& model, NamedTensors weights) {
  NoGrad guard;
  std::vector<std::string> changes;
  fit_head("fc.", model.options().classes, model.state_dict(), weights, changes);
  model.load_state_dict(with_dtypes_of(model, std::move(weights)));
  return changes;
}

}  // namespace reprise::nn
