#include "reprise/autograd/leaf/lent_memory.h"

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "reprise/autograd/meta.h"
#include "reprise/autograd/op_observer.h"

namespace reprise::autograd {
namespace {

// What is lent, or was and had views when it was taken back, by its storage.
class Loans {
 public:
  static Loans& all() {
    static Loans& loans = *new Loans();  // views may live as long as the program
    return loans;
  }

  void begin(const std::shared_ptr<Storage>& storage, const Tensor& place) {
    std::lock_guard lock(mutex_);
    loans_[storage->id()] = {storage, place, true};
    count_ = loans_.size();
  }

  void end(const Storage& storage) {
    std::lock_guard lock(mutex_);
    if (auto loan = loans_.find(storage.id()); loan != loans_.end()) loan->second.is_lent = false;
  }

  /// The place of a storage that has views, if there is one.
  Tensor find(const Storage& storage) const {
    if (count_ == 0) return {};
    std::lock_guard lock(mutex_);
    const auto found = loans_.find(storage.id());
    return found == loans_.end() ? Tensor() : found->second.place;
  }

  /// Of those that have ended, with no tensor left of the storage but the leaf.
  void free_unviewed() {
    TensorList freed;  // after the lock
    std::lock_guard lock(mutex_);
    for (auto loan = loans_.begin(); loan != loans_.end();) {
      const auto& [storage, place, is_lent] = loan->second;
      const bool is_free = storage.expired() || (!is_lent && storage.use_count() == 1);
      if (is_free) freed.push_back(place);
      loan = is_free ? loans_.erase(loan) : std::next(loan);
    }
    count_ = loans_.size();
  }

 private:
  struct Loan {
    std::weak_ptr<Storage> storage;
    Tensor place;
    bool is_lent = false;
  };
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, Loan> loans_;
  std::atomic<size_t> count_{0};  // most programs lend nothing
};

}  // namespace

LentMemory::LentMemory(Tensor leaf) : leaf_(std::move(leaf)) {
  check(leaf_.is_leaf() && leaf_.is_contiguous(), "LentMemory: a tensor of shape ", leaf_.shape(),
        " is no contiguous leaf");
  MemoryScope scope(MemoryCategory::parameters);
  leaf_.set_data(Tensor::hollow({nullptr, leaf_.shape(), leaf_.strides(), leaf_.dtype(), leaf_.device()}));
}

LentMemory::~LentMemory() {
  const bool has_views = leaf_.storage().use_count() > 1;  // these go on sharing its storage
  if (leaf_.is_hollow() || !place_.defined() || has_views) return;
  leaf_.set_data(place_);
  place_ = {};
  free_unviewed();
}

const Tensor& LentMemory::place() {
  if (!place_.defined()) place_ = Loans::all().find(*leaf_.storage());
  MemoryScope scope(MemoryCategory::parameters);
  if (!place_.defined()) place_ = Tensor::empty(leaf_.shape(), leaf_.dtype(), leaf_.device());
  return place_;
}

void LentMemory::set_data(void* data) {
  leaf_.set_data(
      Tensor::over(leaf_.storage(), {data, leaf_.shape(), leaf_.strides(), leaf_.dtype(), leaf_.device()}));
}

void LentMemory::lend() {
  HideOpObservers unseen;
  Loans::all().begin(leaf_.storage(), place());
  set_data(place_.view().data);
}

void LentMemory::take_back() {
  set_data(nullptr);
  place_ = {};
  Loans::all().end(*leaf_.storage());
  free_unviewed();
  const std::shared_ptr<AutogradMeta> meta = find_meta(leaf_);
  if (!meta) return;
  std::lock_guard lock(meta->mutex);
  meta->shadows.clear();
}

void LentMemory::free_unviewed() { Loans::all().free_unviewed(); }

const void* first_byte(const Storage& storage) {
  if (storage.bytes() > 0) return storage.data();
  const Tensor place = Loans::all().find(storage);
  return place.defined() ? place.storage()->data() : nullptr;
}

}  // namespace reprise::autograd
