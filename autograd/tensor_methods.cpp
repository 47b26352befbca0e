// Tensor's differentiable methods and its autograd state. What it does in place: autograd/ops/in_place/methods.cpp.
#include <utility>

#include "reprise/autograd/accumulate_grad.h"
#include "reprise/autograd/engine.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/index/indexing.h"
#include "reprise/autograd/ops/tensor/transfer.h"
#include "reprise/core/overlap.h"

namespace reprise {

using namespace autograd;

namespace {

// Graphs recorded so far end at an accumulator that knows the leaf's form of then. Its mutex is held.
void forget_accumulator(AutogradMeta& leaf, bool same_form) {
  NodePtr accumulator = leaf.accumulator.lock();
  if (accumulator && !same_form) static_cast<AccumulateGrad&>(*accumulator).retire();
  leaf.accumulator.reset();
}

}  // namespace

Tensor Tensor::reshape(const Shape& shape) const { return reprise::reshape(*this, shape); }
Tensor Tensor::transpose(int64_t dim0, int64_t dim1) const { return reprise::transpose(*this, dim0, dim1); }
Tensor Tensor::permute(const Dims& order) const { return reprise::permute(*this, order); }
Tensor Tensor::slice(int64_t dim, int64_t begin, int64_t end, int64_t step) const {
  return reprise::slice(*this, dim, begin, end, step);
}
Tensor Tensor::select(int64_t dim, int64_t index) const { return reprise::select(*this, dim, index); }
Tensor Tensor::expand(const Shape& shape) const { return reprise::expand(*this, shape); }
Tensor Tensor::unsqueeze(int64_t dim) const { return reprise::unsqueeze(*this, dim); }
Tensor Tensor::squeeze(int64_t dim) const { return reprise::squeeze(*this, dim); }
Tensor Tensor::contiguous() const {
  check_self(*this, "contiguous");
  return is_contiguous() ? *this : clone();
}
Tensor Tensor::clone() const { return reprise::clone(*this); }
Tensor Tensor::to(DType dtype) const { return cast(*this, dtype); }
Tensor Tensor::to(Device device) const {
  check_self(*this, "to");
  return device == this->device() ? *this : copy_to(*this, device);
}
Tensor Tensor::sum() const { return reprise::sum(*this); }
Tensor Tensor::sum(const Dims& dims, bool keep_dims) const { return reprise::sum(*this, dims, keep_dims); }
Tensor Tensor::mean() const { return reprise::mean(*this); }
Tensor Tensor::mean(const Dims& dims, bool keep_dims) const { return reprise::mean(*this, dims, keep_dims); }
Tensor Tensor::matmul(const Tensor& other) const { return reprise::matmul(*this, other); }

IndexedTensor Tensor::operator[](const Index& place) const { return {this, {{place}}, index({place})}; }
IndexedTensor Tensor::operator[](std::initializer_list<Index> places) const {
  return {this, {places}, index(places)};
}
Tensor Tensor::index(const std::vector<Index>& places) const { return reprise::index(*this, places); }

bool Tensor::requires_grad() const {
  check_self(*this, "requires_grad");
  auto meta = find_meta(*this);
  return meta && (meta->requires_grad || meta->grad_fn);
}

const Tensor& Tensor::set_requires_grad(bool value) const {
  check_self(*this, "set_requires_grad");
  check(is_leaf(),
        "set_requires_grad: only a leaf can be set, and this tensor came out of an operation; use detach()");
  check(!value || is_floating(dtype()), "set_requires_grad: needs a floating dtype, got ", dtype());
  check(!value || !storage()->is_for_inference() || inference_mode_enabled(),
        "set_requires_grad: the tensor was made in InferenceMode");
  require_meta(*this)->requires_grad = value;
  if (value) set_fixed(true);  // for good: a graph may hold this handle
  return *this;
}

bool Tensor::is_leaf() const {
  check_self(*this, "is_leaf");
  auto meta = find_meta(*this);
  return !meta || !meta->grad_fn;
}

Tensor Tensor::grad() const {
  check_self(*this, "grad");
  auto meta = find_meta(*this);
  return meta ? meta->grad : Tensor();
}

DType Tensor::grad_dtype() const {
  check_self(*this, "grad_dtype");
  auto meta = find_meta(*this);
  return meta ? meta->grad_dtype.value_or(dtype()) : dtype();
}

const Tensor& Tensor::set_grad_dtype(DType dtype) const {
  check_self(*this, "set_grad_dtype");
  check(is_leaf(), "set_grad_dtype: only a leaf keeps a gradient, and this tensor came out of an operation");
  check(is_floating(dtype) && is_floating(this->dtype()), "set_grad_dtype: a tensor ", this->dtype(), shape(),
        " cannot have gradients in ", dtype);
  check(dtype == this->dtype() || (size_of(this->dtype()) == 2 && dtype == DType::f32),
        "set_grad_dtype: gradients are in the tensor's own dtype, or in f32 where it has 16 bits; got ",
        dtype, " for a tensor ", this->dtype(), shape());
  const Tensor gradient = grad();
  check(!gradient.defined() || gradient.dtype() == dtype, "set_grad_dtype: there is a gradient in ",
        gradient.defined() ? gradient.dtype() : dtype, ", which is not ", dtype,
        "; drop it first: set_grad({})");
  const bool changes = dtype != grad_dtype();
  auto meta = require_meta(*this);
  std::lock_guard lock(meta->mutex);
  meta->grad_dtype = dtype == this->dtype() ? std::nullopt : std::optional(dtype);
  if (changes) forget_accumulator(*meta, /*same_form=*/false);
  return *this;
}

void Tensor::set_grad(const Tensor& gradient) const {
  check_self(*this, "set_grad");
  check(!gradient.defined() || (gradient.shape() == shape() && gradient.dtype() == grad_dtype()),
        "set_grad: a gradient ", gradient.defined() ? gradient.dtype() : dtype(),
        gradient.defined() ? gradient.shape() : shape(), " does not fit a tensor ", dtype(), shape(),
        " whose gradient is ", grad_dtype());
  check(!gradient.defined() || gradient.device() == device(), "set_grad: the gradient is on ",
        gradient.defined() ? gradient.device() : Device(), ", the tensor on ", device());
  bool shares =
      gradient.defined() &&
      (gradient.is_same(*this) || (gradient.storage() == storage() && ranges_meet(gradient.view(), view())));
  check(!shares, "set_grad: the gradient shares the memory of the tensor ", dtype(), shape(),
        ", which backward would then change; clone it");
  require_meta(*this)->grad = gradient;
}

void Tensor::retain_grad() const {
  check_self(*this, "retain_grad");
  auto meta = find_meta(*this);
  check(meta && requires_grad(), "retain_grad: the tensor does not require grad");
  if (!meta->grad_fn || std::exchange(meta->retains_grad, true)) return;
  auto keep = [weak = std::weak_ptr(meta)](const Tensor& gradient) {
    if (auto alive = weak.lock()) {
      std::lock_guard lock(alive->grad_mutex);
      alive->grad = alive->grad.defined() ? alive->grad + gradient : gradient.clone();
    }
    return Tensor();
  };
  meta->grad_fn->hooks().push_back(
      {.id = next_hook_id(), .index = meta->output_index, .call = keep, .retains = true});
}

Tensor Tensor::detach() const {
  check_self(*this, "detach");
  OpObserver::notify_detached(*this);
  return alias().show();
}

void Tensor::backward(const Tensor& gradient, std::optional<bool> retain_graph, bool create_graph) const {
  autograd::backward({*this}, {gradient}, {.retain_graph = retain_graph, .create_graph = create_graph});
}

std::function<void()> Tensor::register_hook(TensorHook hook) const {
  check_self(*this, "register_hook");
  check(bool(hook), "register_hook: the hook is empty");
  check(requires_grad(), "register_hook: the tensor does not require grad");
  auto meta = find_meta(*this);
  uint64_t id = next_hook_id();
  Node::GradHook entry{.id = id, .index = meta->output_index, .call = std::move(hook)};
  if (!meta->grad_fn) {
    meta->hooks.push_back(std::move(entry));
    return [weak = std::weak_ptr(meta), id] {
      if (auto alive = weak.lock()) std::erase_if(alive->hooks, [id](auto& h) { return h.id == id; });
    };
  }
  meta->grad_fn->hooks().push_back(std::move(entry));
  return [weak = std::weak_ptr(meta->grad_fn), id] {
    if (auto node = weak.lock()) std::erase_if(node->hooks(), [id](auto& h) { return h.id == id; });
  };
}

void Tensor::set_data(const Tensor& source) const {
  check_self(*this, "set_data");
  check(source.defined(), "set_data: the source is undefined: a tensor that was never given a value");
  source.alias();  // an Error if it is a view that did not follow a change
  check(is_leaf(), "set_data: only a leaf's data can be set, and this tensor came out of an operation");
  check(!requires_grad() || is_floating(source.dtype()), "set_data: a tensor that requires grad needs a ",
        "floating dtype, got ", source.dtype());
  Tensor gradient = grad();
  auto own = find_meta(*this);
  const DType of_gradients = own ? own->grad_dtype.value_or(source.dtype()) : source.dtype();
  check(!gradient.defined() || (gradient.shape() == source.shape() && gradient.dtype() == of_gradients &&
                                gradient.device() == source.device()),
        "set_data: the gradient does not fit a tensor ", source.dtype(), source.shape());
  bool same_form = source.shape() == shape() && source.dtype() == dtype() && source.device() == device();
  // What is lent to a leaf, or taken back, changes no value: see LentMemory.
  const bool is_loan = same_form && source.storage() == storage() && (is_hollow() || source.is_hollow());
  if (!is_loan) source.storage()->bump_version_past(version());
  impl_->hold(source.storage());
  impl_->view = source.layout();
  if (own) {
    std::lock_guard lock(own->mutex);
    forget_accumulator(*own, same_form);
  }
}

}  // namespace reprise
