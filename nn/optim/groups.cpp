// Groups of a module's parameters.
#include "reprise/nn/optim/groups.h"

#include <cmath>
#include <map>
#include <unordered_set>

namespace reprise::optim {
namespace {

enum class Decays : uint8_t { yes, no };

// Calls visit(name, parameter, whether it decays) for each parameter that is trained.
void for_each_trained(const nn::Module& module, const auto& visit) {
  std::vector<std::string> names = module.no_weight_decay();
  std::unordered_set<std::string> kept(names.begin(), names.end());
  for (const auto& [name, parameter] : module.named_parameters())
    if (parameter.requires_grad())
      visit(name, parameter, parameter.rank() >= 2 && !kept.contains(name) ? Decays::yes : Decays::no);
}

}  // namespace

std::vector<ParameterGroup> decay_matrices(const nn::Module& module, double lr, double weight_decay) {
  ParameterGroup matrices{.lr = lr, .weight_decay = weight_decay}, vectors{.lr = lr};
  for_each_trained(module, [&](const std::string&, const Tensor& parameter, Decays decays) {
    (decays == Decays::yes ? matrices : vectors).parameters.push_back(parameter);
  });
  return {matrices, vectors};
}

std::vector<ParameterGroup> layer_decay(const nn::Module& module,
                                        const std::function<int64_t(const std::string& name)>& layer_of,
                                        const LayerDecayOptions& options) {
  check(options.decay > 0 && options.decay <= 1, "layer_decay: decay must be in (0, 1], got ", options.decay);
  int64_t last = 0;  // frozen layers count
  for (const auto& [name, parameter] : module.named_parameters()) last = std::max(last, layer_of(name));
  std::map<std::pair<int64_t, Decays>, ParameterGroup> groups;
  for_each_trained(module, [&](const std::string& name, const Tensor& parameter, Decays decays) {
    const int64_t layer = layer_of(name);
    ParameterGroup& group = groups[{layer, decays}];
    group.lr = options.lr;
    group.weight_decay = decays == Decays::yes ? options.weight_decay : 0;
    group.lr_scale = std::pow(options.decay, double(last - layer));
    group.parameters.push_back(parameter);
  });
  std::vector<ParameterGroup> listed;
  for (auto& [place, group] : groups) listed.push_back(std::move(group));
  return listed;
}

}  // namespace reprise::optim
