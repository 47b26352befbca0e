// Captures: the tensors that a region reads but was not given: parameters and buffers that `fn` reaches by
// itself. A replay reads them again, so they must not change in between.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "reprise/autograd/meta.h"
#include "reprise/autograd/op_observer.h"

namespace reprise::recompute {

class Captures {
 public:
  /// Before the first run: what is made from now on was not captured.
  explicit Captures(const TensorList& region_inputs);
  /// The arguments of an operation of the first run, of the reader with this name.
  void note(const TensorList& arguments, const char* reader);
  /// Code outside of operations read x in the first run, or may have.
  void note_read(const Tensor& x) { note_capture(x, "code outside of operations"); }
  /// The first run detached x: what it reads of the result has the data of x.
  void note_detached(const Tensor& x);
  /// Before the first run changes a tensor in place that is part of a graph, if `is_in_graph`: Error if it was there before the
  /// region.
  void check_write(const autograd::OpCall& call, bool is_in_graph) const;
  /// The first run is about to change a tensor in place. Error as in check_write.
  void note_write(const autograd::OpCall& call);

  /// Error if a captured tensor was changed in place, or got other data, since the first run read it.
  void check_versions() const;
  /// The inputs whose handles have other data since the first run, by a recorded operation in place: a replay is given what they
  /// were, and must not reach them by itself.
  TensorList changed_inputs() const;
  /// Whether the region reached this memory by itself.
  bool has(const Storage& storage) const { return captures_.contains(storage.id()); }
  /// Whether the first run changed x, or what shares its storage, in place.
  bool wrote(const Tensor& x) const;
  /// Whether `leaf` was among the arguments of the first run's operations.
  bool has_leaf(const autograd::AutogradMeta& leaf) const;

 private:
  struct Capture {
    std::weak_ptr<Storage> storage;
    uint64_t version = 0;
    Shape shape;
    const char* reader = "";
  };
  /// Tensors of one storage, by what is theirs alone. Those that are gone are swept out now and then.
  struct Handles {
    std::unordered_map<const void*, WeakTensor> known;
    size_t sweep_at = 16;
  };
  bool is_captured(const Tensor& x) const;
  void note_capture(const Tensor& x, const char* reader);
  void check_version(uint64_t id, const Capture& capture) const;

  uint64_t last_before_ = Storage::last_id();
  std::unordered_multimap<uint64_t, WeakTensor> inputs_;  // of the region, by storage
  std::unordered_map<uint64_t, Capture> captures_;        // by storage
  std::unordered_map<uint64_t, Handles> handles_;         // that the first run had of them
  std::vector<std::weak_ptr<autograd::AutogradMeta>> leaves_;
  std::unordered_set<uint64_t> written_;  // storages
};

}  // namespace reprise::recompute
