#include "reprise/nn/functional_call.h"

#include <map>

#include "reprise/core/listing.h"

namespace reprise::nn {
namespace {

// Its memory comes and goes behind this handle alone.
bool is_lent(const Tensor& x) { return x.is_fixed() && x.numel() > 0 && x.storage()->bytes() == 0; }

void check_fit(Listing& wrong, const std::string& name, const Tensor& own, const Tensor& given) {
  if (!given.defined())
    wrong.add(name, ": given no tensor");
  else if (given.shape() != own.shape())
    wrong.add("shape of ", name, ": given ", given.shape(), ", the module has ", own.shape());
  else if (given.dtype() != own.dtype())
    wrong.add("dtype of ", name, ": given ", given.dtype(), ", the module has ", own.dtype());
  else if (given.device() != own.device())
    wrong.add("device of ", name, ": given ", given.device(), ", the module has ", own.device());
  else if (is_lent(own) || is_lent(given))
    wrong.add("ranks share the memory of ", name);
}

autograd::Substitutes matched(const NamedTensors& all, const NamedTensors& tensors) {
  const std::map<std::string, Tensor> known(all.begin(), all.end());
  std::map<std::string, int> times;
  Listing wrong;
  std::vector<std::pair<std::string, Tensor>> taken;  // by their first names
  autograd::Substitutes substitutes;
  for (const auto& [name, given] : tensors) {
    if (++times[name] > 1) {
      if (times[name] == 2) wrong.add("given twice: ", name);
      continue;
    }
    const auto found = known.find(name);
    if (found == known.end()) {
      wrong.add("unknown: ", name);
      continue;
    }
    const Tensor& own = found->second;
    check_fit(wrong, name, own, given);
    bool is_tied = false;
    for (size_t i = 0; i < taken.size(); ++i) {
      if (!substitutes[i].first.is_same(own)) continue;
      is_tied = true;
      if (!substitutes[i].second.is_same(given))
        wrong.add(taken[i].first, " and ", name, " are one tensor: given two");
    }
    if (is_tied) continue;
    taken.emplace_back(name, given);
    substitutes.emplace_back(own, given);
  }
  check(wrong.empty(), "functional_call: the tensors do not fit the module:", wrong.str());
  return substitutes;
}

}  // namespace

FunctionalCall::FunctionalCall(const Module& module, const NamedTensors& tensors)
    : substitution_(
          [&] {
            NamedTensors all;
            module.collect_all(all, "", Module::Kind::parameter);
            module.collect_all(all, "", Module::Kind::buffer);
            return matched(all, tensors);
          }(),
          autograd::Substitution::InPlace::reaches_given) {}

Tensor FunctionalCall::lasting(const Tensor& x) {
  const Tensor* given = x.defined() ? autograd::find_substitute(x) : nullptr;
  if (!given) return x;
  const bool is_whole = given->storage() == x.storage() && given->autograd_slot() == x.autograd_slot();
  if (is_whole && !autograd::find_substitute(*given)) return *given;
  Tensor own = x.alias();
  own.autograd_slot() = x.autograd_slot();
  return own.show();
}

TensorList FunctionalCall::lasting(const TensorList& list) {
  TensorList own;
  for (const Tensor& x : list) own.push_back(lasting(x));
  return own;
}

}  // namespace reprise::nn
