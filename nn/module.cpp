// Names, modes and state of modules.
#include "reprise/nn/module.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <typeinfo>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/shadow.h"
#include "reprise/core/listing.h"
#include "reprise/core/tensor_set.h"
#include "reprise/nn/registration.h"

namespace reprise::nn {

void Module::check_free(const std::string& name) const {
  check(!names_.contains(name), "Module: the name \"", name, "\" is taken");
}

const NamedTensors& Module::own(Kind kind) const {
  return kind == Kind::parameter ? parameters_ : kind == Kind::buffer ? buffers_ : constants_;
}

void Module::collect(NamedTensors& into, TensorSet& known, const std::string& prefix, Kind kind) const {
  for (const auto& [name, tensor] : own(kind))
    if (known.insert(tensor)) into.emplace_back(prefix + name, tensor);
  for (const auto& [name, child] : children_) child->collect(into, known, prefix + name + ".", kind);
}

NamedTensors Module::collect(Kind kind) const {
  NamedTensors found;
  TensorSet known;
  collect(found, known, "", kind);
  return found;
}

// Under each name that it has, where `collect` knows its first one alone.
void Module::collect_all(NamedTensors& into, const std::string& prefix, Kind kind) const {
  for (const auto& [name, tensor] : own(kind)) into.emplace_back(prefix + name, tensor);
  for (const auto& [name, child] : children_) child->collect_all(into, prefix + name + ".", kind);
}

NamedTensors Module::named_parameters() const {
  NamedTensors found = collect(Kind::parameter);
  TensorList tensors;
  for (const auto& [name, tensor] : found) tensors.push_back(tensor);
  detail::note_known(tensors);
  return found;
}

NamedTensors Module::named_buffers() const { return collect(Kind::buffer); }

TensorList Module::parameters() const {
  TensorList tensors;
  for (auto& [name, tensor] : named_parameters()) tensors.push_back(tensor);
  return tensors;
}

NamedModules Module::named_modules() {
  NamedModules found{{"", this}};
  std::unordered_set<const Module*> known{this};
  for (size_t i = 0; i < found.size(); ++i) {
    const auto [prefix, module] = found[i];
    NamedModules below;
    for (const auto& [name, child] : module->children_)
      if (known.insert(child).second) below.emplace_back(prefix.empty() ? name : prefix + "." + name, child);
    found.insert(found.begin() + int64_t(i) + 1, below.begin(), below.end());
  }
  return found;
}

void Module::apply(const std::function<void(Module&)>& f) {
  for (auto& [name, child] : children_) child->apply(f);
  f(*this);
}

Module& Module::find(const std::string& name) const {
  auto* module = const_cast<Module*>(this);
  std::string_view left = name;
  while (!left.empty()) {
    // The longest of the children's names that it begins with: names may have dots of their own.
    const std::pair<std::string, Module*>* child = nullptr;
    Listing known;
    for (const auto& entry : module->children_) {
      const std::string& own = entry.first;
      known.add(own);
      const bool leads = left.starts_with(own) && (left.size() == own.size() || left[own.size()] == '.');
      if (leads && (!child || own.size() > child->first.size())) child = &entry;
    }
    if (!child)
      fail("Module: there is no module \"", name, "\": ", module->class_name(), " has no child \"", left, '"',
           known.empty() ? ", nor any other" : ", but", known.str());
    left.remove_prefix(std::min(left.size(), child->first.size() + 1));
    module = child->second;
  }
  return *module;
}

void Module::refuse_class(const std::string& name, const Module& found) {
  fail("Module: \"", name, "\" is a ", found.class_name(), ", and another class was asked for");
}

std::string Module::class_name() const {
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, nullptr), std::free);
  const std::string name = text ? text.get() : typeid(*this).name(), ours = "reprise::nn::";
  return name.starts_with(ours) ? name.substr(ours.size()) : name;
}

void Module::replace(const std::string& name, std::shared_ptr<Layer> layer) {
  check(layer != nullptr, "Module: nothing to put in the place of \"", name, "\"");
  check(!name.empty(), "Module: replace needs the name of a layer below it");
  Layer& old = at<Layer>(name);
  old.replace_by(layer, name);
  for (auto& [path, parent] : named_modules())  // it may be shared
    for (auto& [own, child] : parent->children_)
      if (child == &old) child = layer.get();
}

int64_t Module::parameter_count() const {
  int64_t count = 0;
  for (const Tensor& parameter : parameters()) count += parameter.numel();
  return count;
}

void Module::train(bool on) {
  training_ = on && !frozen_;
  for (auto& [name, child] : children_) child->train(on);
}

void Module::freeze() {
  frozen_ = true;
  training_ = false;
  for (const auto& [name, parameter] : parameters_) {
    parameter.set_grad({});
    parameter.set_requires_grad(false);
  }
  for (auto& [name, child] : children_) child->freeze();
}

void Module::collect_undecayed(std::vector<std::string>& into, const std::string& prefix) const {
  for (const std::string& name : undecayed_) into.push_back(prefix + name);
  for (const auto& [name, child] : children_) child->collect_undecayed(into, prefix + name + ".");
}

std::vector<std::string> Module::no_weight_decay() const {
  std::vector<std::string> names;
  collect_undecayed(names, "");
  return names;
}

// convert(tensor, value) gives the value, or gradient, of a tensor as it is to be: itself where nothing is to change.
template <class Convert>
void Module::replace_tensors(const NamedTensors& all, const Convert& convert) {
  MemoryScope scope(MemoryCategory::parameters);
  NoGrad guard;
  for (const auto& [name, tensor] : all) {
    Tensor before = tensor.detach(), after = convert(tensor, before), gradient = tensor.grad();
    if (after.is_same(before)) continue;
    tensor.set_grad({});
    tensor.set_data(after);
    if (!gradient.defined()) continue;
    MemoryScope of_gradients(MemoryCategory::gradients);
    const Tensor converted = convert(tensor, gradient);
    tensor.set_grad(converted.dtype() == tensor.grad_dtype() ? converted : converted.to(tensor.grad_dtype()));
  }
}

NamedTensors Module::state_and_constants() const {
  NamedTensors all = state_dict();
  const NamedTensors constants = collect(Kind::constant);
  all.insert(all.end(), constants.begin(), constants.end());
  return all;
}

namespace {
Tensor in_dtype(const Tensor& x, DType dtype) {
  return is_floating(x.dtype()) && x.dtype() != dtype ? x.to(dtype) : x;
}
}  // namespace

void Module::to(DType dtype) {
  check(is_floating(dtype), "Module: cannot compute in ", dtype);
  replace_tensors(state_and_constants(),
                  [&](const Tensor&, const Tensor& value) { return in_dtype(value, dtype); });
}

void Module::to(Device device) {
  replace_tensors(state_and_constants(), [&](const Tensor&, const Tensor& value) {
    return value.device() == device ? value : value.to(device);
  });
}

void Module::collect_if(bool (Module::*holds)() const, TensorSet& into) const {
  if ((this->*holds)())
    for (const NamedTensors* list : {&parameters_, &buffers_})
      for (const auto& [name, tensor] : *list) into.insert(tensor);
  for (const auto& [name, child] : children_) child->collect_if(holds, into);
}

void to_precision(Module& module, DType dtype) {
  check(dtype == DType::f32 || size_of(dtype) == 2, "to_precision: needs bf16, f16 or f32, got ", dtype);
  TensorSet of_norms, frozen;
  module.collect_if(&Module::is_norm, of_norms);
  module.collect_if(&Module::frozen, frozen);
  Module::replace_tensors(module.state_dict(), [&](const Tensor& tensor, const Tensor& value) {
    if (frozen.contains(tensor)) return value;
    return in_dtype(value, of_norms.contains(tensor) ? DType::f32 : dtype);
  });
}

void Module::zero_grad() {
  for (const Tensor& parameter : parameters()) parameter.set_grad({});
}

NamedTensors Module::state_dict() const {
  NamedTensors state = named_parameters();
  TensorSet known;
  for (const auto& [name, tensor] : state) known.insert(tensor);
  collect(state, known, "", Kind::buffer);
  return state;
}

UnmatchedNames Module::load_state_dict(const NamedTensors& state, bool strict) {
  NamedTensors own = state_dict();
  std::map<std::string, Tensor> known(own.begin(), own.end()), given(state.begin(), state.end());
  Listing wrong;
  UnmatchedNames unmatched;
  for (const auto& [name, tensor] : own) {
    auto found = given.find(name);
    if (found == given.end()) {
      unmatched.missing.push_back(name);
      if (strict) wrong.add("missing: ", name, ' ', tensor.shape());
    } else if (!found->second.defined())
      wrong.add(name, ": given no tensor");
    else if (found->second.shape() != tensor.shape())
      wrong.add("shape of ", name, ": given ", found->second.shape(), ", the module has ", tensor.shape());
    else if (found->second.dtype() != tensor.dtype())
      wrong.add("dtype of ", name, ": given ", found->second.dtype(), ", the module has ", tensor.dtype());
  }
  std::map<std::string, int> times;
  for (const auto& [name, tensor] : state) {
    if (!known.contains(name)) {
      unmatched.unexpected.push_back(name);
      if (strict)
        wrong.add("unknown: ", name, tensor.defined() ? reprise::detail::join(' ', tensor.shape()) : "");
    }
    if (++times[name] == 2) wrong.add("given twice: ", name);
  }
  check(wrong.empty(), "load_state_dict: the state does not fit the module:", wrong.str());
  NoGrad guard;
  for (const auto& [name, tensor] : own)
    if (auto found = given.find(name); found != given.end()) tensor.copy_(found->second);
  return unmatched;
}

Tensor Module::register_parameter(std::string name, const Tensor& value, WeightDecay decay) {
  check_free(name);
  check(value.defined(), "Module: the parameter \"", name, "\" is undefined");
  value.set_requires_grad();
  autograd::mark_parameter(value);  // a frozen one is read by its shadow too
  detail::note_made(*this, name, value);
  if (value.numel() > 0) value.storage()->set_category(MemoryCategory::parameters);
  names_.insert(name);
  if (decay == WeightDecay::never) undecayed_.push_back(name);
  parameters_.emplace_back(std::move(name), value);
  return value;
}

Tensor Module::keep(std::string name, const Tensor& value, Kind kind) {
  check_free(name);
  check(value.defined(), "Module: the ", kind == Kind::buffer ? "buffer" : "constant", " \"", name,
        "\" is undefined");
  if (value.numel() > 0) value.storage()->set_category(MemoryCategory::parameters);
  names_.insert(name);
  (kind == Kind::buffer ? buffers_ : constants_).emplace_back(std::move(name), value);
  return value;
}

Tensor Module::register_buffer(std::string name, const Tensor& value) {
  return keep(std::move(name), value, Kind::buffer);
}

Tensor Module::register_constant(std::string name, const Tensor& value) {
  return keep(std::move(name), value, Kind::constant);
}

void Module::register_module(std::string name, Module& child) {
  check_free(name);
  check(&child != this, "Module: \"", name, "\" is the module itself");
  names_.insert(name);
  children_.emplace_back(std::move(name), &child);
}

void Module::register_fixed(std::string name, Layer& child) {
  register_module(std::move(name), child);
  child.fixed_ = true;
}

}  // namespace reprise::nn
