// Calls of layers: hooks, and the layer that stands in another one's place.
#include <algorithm>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/pass_local.h"
#include "reprise/nn/module.h"

namespace reprise::nn {

struct Layer::Changed {
  template <class Hook>
  using Hooks = std::vector<std::pair<uint64_t, Hook>>;  // by the numbers that remove them

  Hooks<ForwardPreHook> before;
  Hooks<ForwardHook> behind;
  Hooks<BackwardHook> backward;
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

// One call whose gradients hooks are to see. Each pass has a dy of its own, which comes before dx.
struct Layer::BackwardCall {
  Changed::Hooks<BackwardHook> hooks;
  bool has_dx = false;
  autograd::PassLocal<Tensor> dy;

  Tensor take_dy(const Tensor& gradient) {
    if (has_dx) {
      *dy.get() = gradient;
      return {};
    }
    for (const auto& [number, hook] : hooks)
      check(!hook({}, gradient).defined(),
            "register_full_backward_hook: a hook returned a gradient for an input that requires none");
    return {};
  }
  Tensor take_dx(const Tensor& gradient) {
    const Tensor of_result = std::exchange(*dy.get(), Tensor());
    Tensor dx = gradient;
    for (const auto& [number, hook] : hooks)
      if (Tensor other = hook(dx, of_result); other.defined()) dx = other;
    return dx;
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

std::function<void()> Layer::register_full_backward_hook(BackwardHook hook) {
  check(bool(hook), "register_full_backward_hook: the hook is empty");
  return Changed::add(change(), &Changed::backward, std::move(hook));
}

void Layer::check_unchanged(const char* method) const {
  check(!is_changed(), class_name(), ": it has hooks or was replaced, which ", method,
        " would pass over: call the module, and generate without a cache");
}

void Layer::replace_by(std::shared_ptr<Layer> layer, const std::string& name) {
  for (const Layer* next = layer.get(); next;
       next = next->changed_ ? next->changed_->replacement.get() : nullptr)
    check(next != this, "Module: \"", name, "\" cannot be replaced by itself");
  change()->replacement = std::move(layer);
}

Tensor Layer::forward_with(const Tensor& x, const TensorList& beside) {
  for (const Tensor& other : beside)
    check(!other.defined(), class_name(), ": takes x alone, and was given ", other.dtype(), ' ',
          other.shape(), " beside it (Layer::forward_with)");
  return forward(x);
}

Tensor Layer::call_changed(const Tensor& x, const TensorList* beside) const {
  const std::shared_ptr<Changed> changed = changed_;
  if (changed->replacement) {
    thread_local std::vector<const Layer*> replaced;  // whose replacements run
    check(std::find(replaced.begin(), replaced.end(), this) == replaced.end(), class_name(),
          ": its replacement calls it, which is a call of the replacement: forward(x) is the layer's own");
    struct Entry {
      explicit Entry(const Layer* layer) { replaced.push_back(layer); }
      ~Entry() { replaced.pop_back(); }
    } entry(this);
    return beside ? changed->replacement->call_with(x, *beside) : (*changed->replacement)(x);
  }
  return call_hooked(x, beside);
}

Tensor Layer::call_hooked(const Tensor& x, const TensorList* beside) const {
  // What a hook adds or removes counts from the next call.
  const auto before = changed_->before;
  const auto behind = changed_->behind;
  const auto backward = changed_->backward;
  Tensor input = x;
  for (const auto& [number, hook] : before)
    if (Tensor other = hook(input); other.defined()) input = other;
  std::shared_ptr<BackwardCall> call;
  if (!backward.empty() && autograd::grad_mode_enabled()) {
    call = std::make_shared<BackwardCall>(backward, input.requires_grad());
    if (call->has_dx) {
      input = reshape(input, input.shape());  // a node of its own: other uses of x are no part of dx
      input.register_hook([call](const Tensor& dx) { return call->take_dx(dx); });
    }
  }
  auto& own = const_cast<Layer&>(*this);
  Tensor result = beside ? own.forward_with(input, *beside) : own.forward(input);
  for (const auto& [number, hook] : behind)
    if (Tensor other = hook(input, result); other.defined()) result = other;
  if (call && result.requires_grad()) {
    result = reshape(result, result.shape());
    result.register_hook([call](const Tensor& dy) { return call->take_dy(dy); });
  }
  return result;
}

}  // namespace reprise::nn
