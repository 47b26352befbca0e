#include "reprise/autograd/leaf/substitution.h"

#include <algorithm>

namespace reprise::autograd {
namespace {

thread_local Substitution* innermost = nullptr;

// The same value at the same place in the graph, in a handle of its own.
Tensor twin(const Tensor& x) {
  Tensor own = x.alias();
  own.autograd_slot() = x.autograd_slot();
  return own;
}

}  // namespace

Substitution::Substitution(const Substitutes& substitutes, InPlace in_place) : in_place_(in_place) {
  entries_.reserve(substitutes.size());
  for (const auto& [target, given] :
       substitutes) {  // all before the first exchange: they may be targets themselves
    Tensor other = twin(given);
    other.show();
    std::shared_ptr<AutogradSlot> slot = other.autograd_slot();
    entries_.push_back({target, given, std::move(other), std::move(slot)});
  }
  exchange();
  outer_ = std::exchange(innermost, this);
}

Substitution::~Substitution() {
  innermost = outer_;
  exchange();
  if (in_place_ == InPlace::ends_here) return;
  for (Entry& entry : entries_) {
    const bool has_changed = entry.other.autograd_slot() != entry.slot;
    if (has_changed && entry.given.autograd_slot() == entry.slot) entry.given.become(std::move(entry.other));
  }
}

void Substitution::exchange() noexcept {
  for (Entry& entry : entries_) entry.target.become(std::move(entry.other));
}

SubstitutionsAside::SubstitutionsAside() {
  for (Substitution* each = innermost; each; each = each->outer_) aside_.push_back(each);
  for (Substitution* each : aside_) each->exchange();
  innermost = nullptr;
}

SubstitutionsAside::~SubstitutionsAside() {
  for (auto each = aside_.rbegin(); each != aside_.rend(); ++each) (*each)->exchange();
  if (!aside_.empty()) innermost = aside_.front();
}

const Tensor* find_substitute(const Tensor& x) {
  for (const Substitution* each = innermost; each; each = each->outer_)
    for (const Substitution::Entry& entry : each->entries_)
      if (entry.target.is_same(x)) return &entry.given;
  return nullptr;
}

Substitutes current_substitutes() {
  Substitutes current;
  for (const Substitution* each = innermost; each; each = each->outer_)
    for (const Substitution::Entry& entry : each->entries_) {
      const auto is_known = [&](const auto& known) { return known.first.is_same(entry.target); };
      if (std::none_of(current.begin(), current.end(), is_known))
        current.emplace_back(entry.target, twin(entry.target));
    }
  return current;
}

}  // namespace reprise::autograd
