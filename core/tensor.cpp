// Tensor: creation, raw access and host copies. The differentiable methods are in
// autograd/tensor_methods.cpp.
#include "reprise/core/tensor.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "reprise/core/cuda/runtime.h"
#include "reprise/core/data_observer.h"
#include "reprise/core/no_compute.h"
#include "reprise/core/transfer.h"

namespace reprise {
namespace {

thread_local uint64_t hollow_reads = 0;
std::atomic<int> awaited_hollow_reads{0};  // of all threads: a parallel loop may read on another one
thread_local DataObserver* data_observer = nullptr;

// Calls body(element) over a view in row-major order.
template <class T, class Body>
void for_each(const TensorView& x, Body&& body) {
  int64_t count = x.numel();
  Dims index = Dims::filled(x.rank(), 0);
  const T* element = static_cast<const T*>(x.data);
  for (int64_t n = 0; n < count; ++n) {
    body(*element);
    for (int d = x.rank() - 1; d >= 0; --d) {
      element += x.strides[d];
      if (++index[d] < x.shape[d]) break;
      element -= x.strides[d] * x.shape[d];
      index[d] = 0;
    }
  }
}

}  // namespace

DataObserver* DataObserver::exchange(DataObserver* observer) {
  return std::exchange(data_observer, observer);
}

void HollowRead::raise(const std::string& message) {
  if (awaited_hollow_reads.load() == 0) fail(message);
  ++hollow_reads;
  throw HollowRead();
}

HollowRead::Awaited::Awaited() { ++awaited_hollow_reads; }
HollowRead::Awaited::~Awaited() { --awaited_hollow_reads; }
uint64_t HollowRead::count() { return hollow_reads; }

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  int64_t bytes = 0;
  check(!__builtin_mul_overflow(numel_of(shape), int64_t(size_of(dtype)), &bytes),
        "tensor: too large: ", shape);
  auto impl = std::make_shared<Impl>();
  impl->storage = std::make_shared<Storage>(size_t(bytes), device);
  impl->view = {impl->storage->data(), shape, contiguous_strides(shape), dtype, device};
  Tensor x(std::move(impl));
  x.show();
  return x;
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) {
  Tensor out = empty(shape, dtype, device);
  size_t bytes = out.storage()->bytes();
  if (bytes == 0) return out;
  if (device.is_cpu() && NoCompute::is_on()) return out;  // it is
  if (device.is_cpu())
    std::memset(out.layout().data, 0, bytes);
  else
    cuda::set_bytes_async(out.layout().data, 0, bytes, current_stream(device).handle());
  return out;
}

template <class T>
Tensor Tensor::from(const std::vector<T>& values, const Shape& shape, Device device) {
  check(int64_t(values.size()) == numel_of(shape), "tensor: ", values.size(), " values for shape ", shape);
  Tensor out = empty(shape, dtype_of<T>, device);
  TensorView source = out.view();
  source.data = const_cast<T*>(values.data());  // read only
  source.device = Device::cpu();
  copy_bytes(source, out.view());
  return out;
}

template Tensor Tensor::from(const std::vector<double>&, const Shape&, Device);
template Tensor Tensor::from(const std::vector<float>&, const Shape&, Device);
template Tensor Tensor::from(const std::vector<int64_t>&, const Shape&, Device);
template Tensor Tensor::from(const std::vector<int32_t>&, const Shape&, Device);
template Tensor Tensor::from(const std::vector<uint8_t>&, const Shape&, Device);

int64_t Tensor::size(int64_t dim) const { return shape()[normalize_dim(dim, rank(), "size")]; }

Tensor Tensor::hollow(TensorView layout) {
  layout.data = nullptr;
  auto impl = std::make_shared<Impl>();
  impl->storage = std::make_shared<Storage>(0, layout.device);
  impl->view = layout;
  return Tensor(std::move(impl));
}

void Tensor::throw_undefined() { throw UndefinedTensor("tensor: used before it was given a value"); }

const TensorView& Tensor::layout() const {
  if (!defined()) [[unlikely]]
    throw_undefined();
  return impl_->view;
}

const TensorView& Tensor::view() const& {
  if (is_hollow())
    HollowRead::raise(
        detail::join("tensor: the data of a hollow tensor of shape ", shape(),
                     " was read: it has a form and no data, as what ranks share has where it is not"));
  if (data_observer) data_observer->data_asked(*this);
  const TensorView& view = layout();
  check_current();
  return view;
}

TemporaryView Tensor::view() const&& { return {static_cast<const Tensor&>(*this).view()}; }

double Tensor::item() const {
  if (!defined()) throw UndefinedTensor("item: the tensor was never given a value");
  check(numel() == 1, "item: needs one element, got shape ", shape());
  return to_vector<double>()[0];
}

Tensor::operator bool() const {
  check(defined(), "bool: the tensor was never given a value; defined() tells whether there is one");
  check(numel() == 1, "bool: the truth value of ", numel(), " elements, of shape ", shape(),
        ", is ambiguous; it needs one element");
  return item() != 0;
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  if (!defined()) throw UndefinedTensor("to_vector: the tensor was never given a value");
  std::vector<T> out;
  out.reserve(size_t(numel()));
  HostCopy host(view());
  dispatch_all(dtype(), [&]<class S>() {
    for_each<S>(host.view(), [&](const S& element) {
      if constexpr (std::is_same_v<S, BFloat16> || std::is_same_v<S, Float16>) {
        out.push_back(T(float(element)));
      } else {
        out.push_back(T(element));
      }
    });
  });
  return out;
}

template std::vector<double> Tensor::to_vector() const;
template std::vector<float> Tensor::to_vector() const;
template std::vector<int64_t> Tensor::to_vector() const;
template std::vector<int32_t> Tensor::to_vector() const;
template std::vector<uint8_t> Tensor::to_vector() const;

Tensor Tensor::alias(const TensorView& view) const { return over(storage(), view); }
Tensor Tensor::alias() const {
  const TensorView& view = layout();
  check_current();
  return alias(view);
}

Tensor::Impl::~Impl() {
  if (is_shown) storage->count_shown(-1);
  if (is_fixed) storage->count_fixed(-1);
}

void Tensor::Impl::hold(const std::shared_ptr<Storage>& other) {
  other->count_shown(is_shown);
  other->count_fixed(is_fixed);
  if (storage) storage->count_shown(-int(is_shown));
  if (storage) storage->count_fixed(-int(is_fixed));
  storage = other;
  if (is_shown) current_until = storage->times_superseded();
}

const Tensor& Tensor::show() const {
  storage()->count_shown(!impl_->is_shown);
  impl_->is_shown = true;
  impl_->current_until = storage()->times_superseded();
  return *this;
}

bool Tensor::has_other_views() const { return storage()->shown() > int(impl_->is_shown); }

void Tensor::set_fixed(bool value) const {
  storage()->count_fixed(int(value) - int(impl_->is_fixed));
  impl_->is_fixed = value;
}

bool Tensor::is_fixed() const { return defined() && impl_->is_fixed; }

void Tensor::become(Tensor&& value) const {
  invariant(value.impl_.use_count() == 1 && defined(), "become: the value has other handles");
  std::swap(impl_->storage, value.impl_->storage);
  std::swap(impl_->view, value.impl_->view);
  std::swap(impl_->autograd, value.impl_->autograd);
  std::swap(impl_->is_shown, value.impl_->is_shown);
  std::swap(impl_->is_fixed, value.impl_->is_fixed);
  std::swap(impl_->current_until, value.impl_->current_until);
}

void Tensor::throw_superseded() const {
  fail(
      "tensor: a view of shape ", layout().shape, " was used after ", storage()->superseded_by(),
      ", recorded in a graph, gave another value to a tensor that it shares memory with: views do not follow "
      "that. Make the view after the operation, or clone() it before");
}

Tensor Tensor::over(std::shared_ptr<Storage> storage, const TensorView& view) {
  auto impl = std::make_shared<Impl>();
  impl->storage = std::move(storage);
  impl->view = view;
  return Tensor(std::move(impl));
}

const std::shared_ptr<Storage>& Tensor::storage() const {
  if (!defined()) [[unlikely]]
    throw_undefined();
  return impl_->storage;
}

bool Tensor::is_sole_owner() const { return impl_.use_count() == 1 && impl_->storage.use_count() == 1; }

std::shared_ptr<AutogradSlot>& Tensor::autograd_slot() const {
  if (!defined()) [[unlikely]]
    throw_undefined();
  return impl_->autograd;
}

}  // namespace reprise
