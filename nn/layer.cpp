// Calls of layers: hooks, and the layer that stands in another one's place.
#include <algorithm>

#include "reprise/nn/module.h"

namespace reprise::nn {

struct Layer::Changed {
  template <class Hook>
  using Hooks = std::vector<std::pair<uint64_t, Hook>>;  // by the numbers that remove them

  Hooks<ForwardPreHook> before;
  Hooks<ForwardHook> behind;
  uint64_t next_hook = 0;
  std::shared_ptr<Layer> replacement;

  template <class Hook>
  static std::function<void()> add(const std::shared_ptr<Changed>& changed, Hooks<Hook> Changed::*hooks,
                                   Hook hook) {
    const uint64_t number = changed->next_hook++;
    (changed.get()->*hooks).emplace_back(number, std::move(hook));
    return [weak = std::weak_ptr(changed), hooks, number] {
      if (auto alive = weak.lock())
        std::erase_if(alive.get()->*hooks, [&](const auto& entry) { return entry.first == number; });
    };
  }
};

Layer::Layer() = default;
Layer::~Layer() = default;

const std::shared_ptr<Layer::Changed>& Layer::change() {
  check(!fixed_, class_name(),
        ": its parent reads its tensors without a call: it takes neither hooks nor a replacement");
  if (!changed_) changed_ = std::make_shared<Changed>();
  return changed_;
}

std::function<void()> Layer::register_forward_pre_hook(ForwardPreHook hook) {
  check(bool(hook), "register_forward_pre_hook: the hook is empty");
  return Changed::add(change(), &Changed::before, std::move(hook));
}

std::function<void()> Layer::register_forward_hook(ForwardHook hook) {
  check(bool(hook), "register_forward_hook: the hook is empty");
  return Changed::add(change(), &Changed::behind, std::move(hook));
}

void Layer::replace_by(std::shared_ptr<Layer> layer, const std::string& name) {
  for (const Layer* next = layer.get(); next;
       next = next->changed_ ? next->changed_->replacement.get() : nullptr)
    check(next != this, "Module: \"", name, "\" cannot be replaced by itself");
  change()->replacement = std::move(layer);
}

Tensor Layer::call_changed(const Tensor& x) {
  // What a hook adds or removes counts from the next call.
  const std::shared_ptr<Changed> changed = changed_;
  if (changed->replacement) {
    thread_local std::vector<const Layer*> replaced;  // whose replacements run
    check(std::find(replaced.begin(), replaced.end(), this) == replaced.end(), class_name(),
          ": its replacement calls it, which is a call of the replacement: forward(x) is the layer's own");
    struct Entry {
      explicit Entry(const Layer* layer) { replaced.push_back(layer); }
      ~Entry() { replaced.pop_back(); }
    } entry(this);
    return (*changed->replacement)(x);
  }
  const auto before = changed->before;
  const auto behind = changed->behind;
  Tensor input = x;
  for (const auto& [number, hook] : before)
    if (Tensor other = hook(input); other.defined()) input = other;
  Tensor result = forward(input);
  for (const auto& [number, hook] : behind)
    if (Tensor other = hook(input, result); other.defined()) result = other;
  return result;
}

}  // namespace reprise::nn
