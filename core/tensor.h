// Tensor: the one array type. A cheap handle to storage, shape, strides and dtype, with a slot that autograd
// fills.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <vector>

#include "reprise/core/storage.h"
#include "reprise/core/view.h"

namespace reprise {

class Tensor;
class Index;
class IndexedTensor;
class Generator;
struct AutogradSlot;
struct TemporaryView;
/// Is given a gradient; a defined result takes its place. See Tensor::register_hook.
using TensorHook = std::function<Tensor(const Tensor& gradient)>;

/// A tensor was used that was never given a value.
class UndefinedTensor : public Error {
 public:
  using Error::Error;
};

/// A multi-dimensional array. Copies share the data; `clone` copies it. A default-constructed tensor is
/// undefined: it has no shape and no data, and stands for "no tensor".
class Tensor {
 public:
  Tensor() = default;

  /// Not initialised. Error on a negative size, OutOfMemory if there is no room.
  static Tensor empty(const Shape& shape, DType dtype = DType::f32, Device device = {});
  /// 0 in each place. Errors as `empty`.
  static Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = {});
  /// A copy of `values` in row-major order, with their dtype. Error if the count does not match the shape.
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape, Device device = {});

  /// Whether there is a tensor: false if it was never given a value. What needs one throws UndefinedTensor, an Error.
  bool defined() const { return impl_ != nullptr; }
  /// The value of a one-element tensor: `if (less(a, b))`. Error for more elements, for none, and for an
  /// undefined tensor: `defined()` asks whether there is one.
  explicit operator bool() const;
  const Shape& shape() const { return layout().shape; }        ///< its sizes; of a number, none
  const Strides& strides() const { return layout().strides; }  ///< in elements; 0 where broadcast
  int rank() const { return layout().rank(); }        ///< how many dimensions: 0 of a number, at most 8
  int64_t size(int64_t dim) const;                    ///< dim may be negative
  int64_t numel() const { return layout().numel(); }  ///< how many elements
  DType dtype() const { return layout().dtype; }      ///< the type of its elements
  Device device() const { return layout().device; }   ///< where its data is
  bool is_contiguous() const { return layout().is_contiguous(); }  ///< row-major; an empty tensor always is
  /// Two handles of one tensor.
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }

  /// The first element, for the host to read and write. Error if T is not the dtype, or if the tensor is not
  /// on the CPU.
  template <class T>
  T* data() const {
    check(device().is_cpu(), "data: the tensor is on ", device(),
          ", where the host cannot reach it; use to_vector() or to(Device::cpu())");
    return view().as<T>();
  }

  double item() const;  ///< the value of a one-element tensor, whatever its device; Error otherwise
  /// All elements in row-major order, cast to T (double, float, int64_t, int32_t, uint8_t). From a CUDA
  /// device this waits for the current stream.
  template <class T>
  std::vector<T> to_vector() const;

  /// What is on `stream` now uses this tensor too: its memory is handed out again only after that.
  void record_stream(const Stream& stream) const { storage()->record_stream(stream); }

  // Differentiable methods; each is the function of the same name in autograd/ops.h.
  Tensor reshape(const Shape& shape) const;  ///< one size may be -1
  /// @{
  /// The function of the same name in autograd/ops.h, of this tensor.
  Tensor transpose(int64_t dim0, int64_t dim1) const;
  Tensor permute(const Dims& order) const;
  Tensor slice(int64_t dim, int64_t begin, int64_t end, int64_t step = 1) const;
  Tensor select(int64_t dim, int64_t index) const;
  Tensor expand(const Shape& shape) const;
  Tensor unsqueeze(int64_t dim) const;
  Tensor squeeze(int64_t dim) const;
  /// @}
  Tensor contiguous() const;       ///< itself if contiguous already
  Tensor clone() const;            ///< always a copy
  Tensor to(DType dtype) const;    ///< `cast`: itself if it has the dtype already
  Tensor to(Device device) const;  ///< itself if it is there already; the gradient is copied back
  /// @{
  /// The function of the same name in autograd/ops.h, of this tensor; without dims, over all elements.
  Tensor sum() const;
  Tensor sum(const Dims& dims, bool keep_dims = false) const;
  Tensor mean() const;
  Tensor mean(const Dims& dims, bool keep_dims = false) const;
  /// @}
  Tensor matmul(const Tensor& other) const;  ///< (..., M, K) x (..., K, N)
  /// @{
  /// `x[i]`, `x[{0, Slice(1, 3), mask}]`: the function `index` of autograd/ops/index/indexing.h, which says what an Index is.
  /// To assign to it, `x[0] = y`, `x[mask] += 1`, is `index_put_`: see IndexedTensor there.
  IndexedTensor operator[](const Index& place) const;
  IndexedTensor operator[](std::initializer_list<Index> places) const;
  Tensor index(const std::vector<Index>& places) const;
  /// @}

  // Autograd.
  bool requires_grad() const;  ///< a leaf that was marked, or the result of a recorded operation
  /// Marks a leaf as one that gradients are wanted for; returns itself. Error on a non-leaf or integer
  /// tensor.
  const Tensor& set_requires_grad(bool value = true) const;
  bool is_leaf() const;  ///< whether no recorded operation made it
  Tensor grad() const;   ///< the accumulated gradient, undefined if there is none
  /// Puts `gradient` in the place of `grad`; `set_grad({})` drops it. Error unless it has the shape, the device and the
  /// `grad_dtype` of this tensor, and if it shares its memory.
  void set_grad(const Tensor& gradient) const;
  /// The dtype that the gradient of this leaf is kept, added up and given to hooks in; at first the leaf's own. With f32 for
  /// a leaf of 16 bits, micro-batches and uses of a weight are summed in f32 ("main gradients"; PyTorch: `grad_dtype`).
  /// Error on a non-leaf, on a dtype beside these two, or if there is a gradient of another dtype.
  const Tensor& set_grad_dtype(DType dtype) const;
  DType grad_dtype() const;  ///< the dtype that `grad` has, or will have
  void retain_grad() const;  ///< keeps the gradient of a non-leaf
  Tensor detach() const;     ///< shares data and version, outside the graph
  /// Gradients of this scalar for all leaves, added to their `grad`. See autograd/engine.h for the options.
  void backward(const Tensor& gradient = {}, std::optional<bool> retain_graph = {},
                bool create_graph = false) const;
  /// Calls `hook` with this tensor's gradient; a defined result replaces it. The handle removes it.
  std::function<void()> register_hook(TensorHook hook) const;

  // In place. Where a graph is recorded, and this tensor or what it is given requires grad, the result of the operation out of
  // place takes the tensor's place in all its handles: docs/decisions/0018. That is an Error on what shares memory with a leaf that
  // requires grad or a module's parameter. Other views do not follow: to use one is an Error from then on. Else the memory is written,
  // and its version counts that. The dtype stays.
  const Tensor& fill_(double value) const;          ///< Error if the dtype does not have the value
  const Tensor& zero_() const { return fill_(0); }  ///< writes 0 into each element
  const Tensor& copy_(const Tensor& source) const;  ///< broadcasts, casts, crosses devices
  /// @{
  /// Adds alpha * other, which broadcasts, or subtracts it. Error if the result does not fit in the dtype, or the device is another.
  const Tensor& add_(const Tensor& other, double alpha = 1) const;
  const Tensor& sub_(const Tensor& other, double alpha = 1) const;
  /// @}
  /// @{
  /// The operation with this tensor and a number or a tensor, which broadcasts. A number is a whole one for integers; a floating
  /// tensor is an Error for them.
  const Tensor& add_(double value) const;
  const Tensor& sub_(double value) const;
  const Tensor& mul_(double value) const;
  const Tensor& mul_(const Tensor& other) const;
  const Tensor& div_(double value) const;
  const Tensor& div_(const Tensor& other) const;
  const Tensor& clamp_(std::optional<double> low, std::optional<double> high = {}) const;
  const Tensor& relu_() const;
  const Tensor& masked_fill_(const Tensor& mask, double value) const;
  const Tensor& masked_fill_(const Tensor& mask, const Tensor& value) const;
  const Tensor& fill_(const Tensor& value) const;
  const Tensor& pow_(double exponent) const;
  const Tensor& pow_(const Tensor& exponent) const;
  const Tensor& remainder_(double divisor) const;
  const Tensor& remainder_(const Tensor& divisor) const;
  const Tensor& fmod_(double divisor) const;
  const Tensor& fmod_(const Tensor& divisor) const;
  const Tensor& abs_() const;
  const Tensor& floor_() const;
  const Tensor& ceil_() const;
  const Tensor& round_() const;
  const Tensor& trunc_() const;
  const Tensor& sign_() const;
  const Tensor& sin_() const;
  const Tensor& cos_() const;
  const Tensor& erf_() const;
  const Tensor& log1p_() const;
  const Tensor& expm1_() const;
  const Tensor& reciprocal_() const;
  const Tensor& rsqrt_() const;
  const Tensor& elu_(double alpha = 1) const;
  const Tensor& leaky_relu_(double slope = 0.01) const;
  const Tensor& cumsum_(int64_t dim) const;
  const Tensor& exp_() const;
  const Tensor& log_() const;
  const Tensor& neg_() const;
  const Tensor& sigmoid_() const;
  const Tensor& sqrt_() const;
  const Tensor& square_() const;
  const Tensor& tanh_() const;
  const Tensor& tril_(int64_t diagonal = 0) const;
  const Tensor& triu_(int64_t diagonal = 0) const;
  /// @}
  /// @{
  /// x + weight (end - x)
  const Tensor& lerp_(const Tensor& end, double weight) const;
  const Tensor& lerp_(const Tensor& end, const Tensor& weight) const;
  /// @}
  /// @{
  /// Adds value * a * b, or value * a / b; a and b broadcast.
  const Tensor& addcmul_(const Tensor& a, const Tensor& b, double value = 1) const;
  const Tensor& addcdiv_(const Tensor& a, const Tensor& b, double value = 1) const;
  /// @}
  /// @{
  /// The function of the same name in autograd/ops/index/along_dim.h, of this tensor.
  const Tensor& scatter_(int64_t dim, const Tensor& index, const Tensor& source) const;
  const Tensor& scatter_(int64_t dim, const Tensor& index, double value) const;
  const Tensor& scatter_add_(int64_t dim, const Tensor& index, const Tensor& source) const;
  const Tensor& index_add_(int64_t dim, const Tensor& index, const Tensor& source) const;
  const Tensor& index_copy_(int64_t dim, const Tensor& index, const Tensor& source) const;
  const Tensor& index_fill_(int64_t dim, const Tensor& index, double value) const;
  /// @}
  /// @{
  /// Draws all elements anew, uniform in [low, high) or normal, from `generator` (default: the thread's): one offset of it per call.
  /// Error unless the dtype is floating, but for `bernoulli_` (1 with that probability, else 0); no gradient flows to what was there.
  const Tensor& uniform_(double low = 0, double high = 1, Generator* generator = nullptr) const;
  const Tensor& normal_(double mean = 0, double stddev = 1, Generator* generator = nullptr) const;
  const Tensor& bernoulli_(double probability = 0.5, Generator* generator = nullptr) const;
  /// @}
  /// @{
  /// Puts `values`, which broadcast and are cast, into these places, or adds them there: `x[places] = values` of NumPy, by the
  /// rules of `index_put` in autograd/ops/index/indexing.h. In a graph it writes into the old memory if nothing else holds that.
  const Tensor& index_put_(const std::vector<Index>& places, const Tensor& values,
                           bool accumulate = false) const;
  const Tensor& index_put_(const std::vector<Index>& places, double value, bool accumulate = false) const;
  /// @}
  /// Puts the data of `source`, of any shape, dtype and device, in the place of this leaf's, in all its
  /// handles; they remain one tensor with its hooks. Error if there is a gradient that does not fit. What
  /// saved this tensor for backward finds it changed.
  void set_data(const Tensor& source) const;

  // What follows is for operations and the engine, and may change.

  /// What kernels take. Valid while this tensor lives. Error if undefined.
  const TensorView& view() const&;
  TemporaryView view() const&&;  ///< of a temporary: for the call that it is an argument of
  operator const TensorView&() const& { return view(); }  ///< for calls of kernels
  operator const TensorView&() const&& =
      delete;  // it would outlive its memory; write `.view()` inside a call

  /// Another view of this tensor's storage, unknown to autograd, and not shown.
  Tensor alias(const TensorView& view) const;
  Tensor alias() const;  ///< the same view; reads no data
  /// Counts this tensor among those of its memory that the program sees, as an operation's result is, and not what operations
  /// and graphs keep. Returns itself.
  const Tensor& show() const;
  /// Whether the program sees another tensor of this memory.
  bool has_other_views() const;
  /// A leaf that all graphs know as one and the same, as gradients are wanted of it or it is a module's parameter: no recorded
  /// operation in place puts another value there.
  void set_fixed(bool value) const;
  bool is_fixed() const;  ///< whether set_fixed said so
  /// `value`, which has no other handle, in the place of this tensor in all its handles.
  void become(Tensor&& value) const;
  /// A view of a storage whose tensors are gone.
  static Tensor over(std::shared_ptr<Storage> storage, const TensorView& view);
  const std::shared_ptr<Storage>& storage() const;           ///< the memory that it shares with its views
  uint64_t version() const { return storage()->version(); }  ///< of the storage: counts in-place writes
  /// Nothing else holds this tensor's storage: its memory may be reused in place.
  bool is_sole_owner() const;

  /// With the form of `layout` and no data: stands for a value that nothing will read. What asks for
  /// its data gets a HollowRead or an Error.
  static Tensor hollow(TensorView layout);
  bool is_hollow() const { return !layout().data && numel() > 0; }  ///< an empty tensor is not

  std::shared_ptr<AutogradSlot>& autograd_slot() const;  ///< null where autograd knows nothing of the tensor

 private:
  friend class WeakTensor;
  struct Impl {
    std::shared_ptr<Storage> storage;
    TensorView view;
    std::shared_ptr<AutogradSlot> autograd;
    bool is_shown = false, is_fixed = false;  // and the storage counts it
    uint32_t current_until = UINT32_MAX;      // of a shown one: Storage::times_superseded when it was shown
    Impl() = default;
    Impl(const Impl&) = delete;
    ~Impl();
    void hold(const std::shared_ptr<Storage>& other);
  };
  explicit Tensor(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  const TensorView& layout() const;
  [[noreturn, gnu::cold]] static void throw_undefined();
  [[noreturn, gnu::cold]] void throw_superseded() const;
  void check_current() const {
    if (impl_->current_until < impl_->storage->times_superseded()) [[unlikely]]
      throw_superseded();
  }
  std::shared_ptr<Impl> impl_;
};

/// Several tensors; some may be undefined.
using TensorList = std::vector<Tensor>;

// What follows is for operations and the engine, and may change.

/// The view of a temporary tensor: for the call that it is an argument of, and not to be kept.
struct TemporaryView : TensorView {};

/// The data of a hollow tensor was asked for, where whoever made it hollow waits for that. It is no
/// std::exception: what catches errors in between lets it through.
class HollowRead {
 public:
  /// Throws one while an Awaited lives in the process, and an Error with this message otherwise.
  [[noreturn]] static void raise(const std::string& message);
  static uint64_t count();  ///< of those thrown on this thread: tells whether a `catch (...)` took one

  /// Lives around what is caught.
  class Awaited {
   public:
    Awaited();
    ~Awaited();
    Awaited(const Awaited&) = delete;
  };

 private:
  HollowRead() = default;
};

/// What autograd keeps with a tensor; opaque below autograd.
struct AutogradSlot {
  virtual ~AutogradSlot() = default;
};

/// Refers to a tensor without keeping it.
class WeakTensor {
 public:
  explicit WeakTensor(const Tensor& x) : impl_(x.impl_) {}  ///< x may be undefined
  Tensor lock() const { return Tensor(impl_.lock()); }      ///< undefined if it is gone

 private:
  std::weak_ptr<Tensor::Impl> impl_;
};

}  // namespace reprise
