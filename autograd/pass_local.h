// PassLocal: a value of its own for each backward pass, which goes when the pass ends.
#pragma once

#include "reprise/autograd/graph_task.h"

namespace reprise::autograd {

template <class T>
class PassLocal {
 public:
  PassLocal() = default;
  PassLocal(const PassLocal&) = delete;

  /// That of this thread's running pass, made when it is first asked for; null outside of any.
  T* get() const {
    GraphTask* pass = GraphTask::running();
    if (!pass) return nullptr;
    std::shared_ptr<void>& value = pass->locals_[id_];
    if (!value) value = std::make_shared<T>();
    return static_cast<T*>(value.get());
  }

 private:
  uint64_t id_ = GraphTask::next_local_id();  // no address: another one may have it before the pass ends
};

}  // namespace reprise::autograd
