// What modules make and who asks for it.
#include "reprise/nn/registration.h"

#include <algorithm>
#include <atomic>
#include <iostream>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "reprise/autograd/accumulate_grad.h"
#include "reprise/core/listing.h"

namespace reprise::nn {
namespace {

using autograd::AccumulateGrad;
using autograd::AutogradMeta;
using autograd::Node;

struct Made {
  std::weak_ptr<AutogradMeta> parameter;
  std::string description;  // "weight (3, 5) of Linear"
  bool is_known = false;
};

// All parameters that modules have made, while they live.
class Registry {
 public:
  void note_made(const Tensor& parameter, std::string description) {
    std::lock_guard lock(mutex_);
    if (made_.size() >= next_sweep_) {
      std::erase_if(made_, [](const auto& entry) { return entry.second.parameter.expired(); });
      next_sweep_ = 2 * made_.size() + 64;
    }
    auto meta = autograd::require_meta(parameter);
    Made& entry = made_[meta.get()];
    if (entry.parameter.lock() != meta) entry = {meta, std::move(description)};  // else a shared one
  }

  void note_known(const TensorList& parameters) {
    std::lock_guard lock(mutex_);
    for (const Tensor& parameter : parameters)
      if (auto found = made_.find(autograd::find_meta(parameter).get()); found != made_.end())
        found->second.is_known = true;
  }

  // Of a parameter that a module has made; else empty.
  std::string description_of(const AutogradMeta& meta) {
    std::lock_guard lock(mutex_);
    auto found = made_.find(&meta);
    return found == made_.end() || found->second.parameter.expired() ? "" : found->second.description;
  }

  // Descriptions of those that have a gradient and that are not known; from now on they are.
  std::vector<std::string> take_strays() {
    std::lock_guard lock(mutex_);
    std::vector<std::string> strays;
    for (auto& [key, made] : made_) {
      auto meta = made.parameter.lock();
      if (made.is_known || !meta || !meta->requires_grad || !meta->grad.defined()) continue;
      made.is_known = true;
      strays.push_back(made.description);
    }
    std::sort(strays.begin(), strays.end());
    return strays;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const AutogradMeta*, Made> made_;
  size_t next_sweep_ = 64;
};

Registry& registry() {
  static Registry* registry = new Registry;  // never destroyed: modules may be, after it would have been
  return *registry;
}

std::atomic<bool>& strays_refused() {
  static std::atomic<bool> refused{false};
  return refused;
}

}  // namespace

void check_registered(const Module& model, const Tensor& loss) {
  check(loss.defined() && loss.requires_grad(), "check_registered: the loss is not part of a graph");
  std::unordered_set<const AutogradMeta*> known;
  for (const Tensor& parameter : model.parameters()) known.insert(autograd::find_meta(parameter).get());
  Listing strays;
  std::vector<Node*> stack{autograd::gradient_edge(loss).node.get()};
  std::unordered_set<Node*> seen(stack.begin(), stack.end());
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    if (auto* leaf = dynamic_cast<AccumulateGrad*>(node); leaf && !known.contains(&leaf->leaf()))
      if (std::string made = registry().description_of(leaf->leaf()); !made.empty()) strays.add(made);
    for (const autograd::Edge& edge : node->edges())
      if (edge && seen.insert(edge.node.get()).second) stack.push_back(edge.node.get());
  }
  check(strays.empty(),
        "check_registered: the loss depends on parameters that the model does not know, so that they are "
        "neither trained nor saved; register_module() is missing for",
        strays.str());
}

void detail::note_made(const Module& owner, const std::string& name, const Tensor& parameter) {
  registry().note_made(parameter,
                       reprise::detail::join(name, ' ', parameter.shape(), " of ", owner.class_name()));
}

void detail::note_known(const TensorList& parameters) { registry().note_known(parameters); }

void detail::report_strays() {
  Listing strays;
  for (const std::string& stray : registry().take_strays()) strays.add(stray);
  if (strays.empty()) return;
  const std::string what =
      "parameters of layers got gradients, but no model was asked for them and no optimizer has them; is a "
      "register_module() missing? (set_requires_grad(false), if they are to stay as they are)" +
      strays.str();
  check(!strays_refused(), "optimizer: ", what);
  std::cerr << "optimizer: warning: " << what << std::endl;
}

bool detail::refuse_strays(bool value) { return strays_refused().exchange(value); }

}  // namespace reprise::nn
