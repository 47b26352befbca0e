// ModuleList: modules of one class by number, for models that call them in an order of their own.
#pragma once

#include "reprise/nn/module.h"

namespace reprise::nn {

/// Owns its modules; their names are 0, 1, ...
///
///   ModuleList<Linear> heads;
///   for (int64_t classes : {10, 100}) heads.add(64, classes);
template <class M>
class ModuleList : public Module {
 public:
  /// Adds a module made from `args` and returns it.
  template <class... Args>
  M& add(Args&&... args) {
    modules_.push_back(std::make_unique<M>(std::forward<Args>(args)...));
    register_module(std::to_string(modules_.size() - 1), *modules_.back());
    return *modules_.back();
  }
  int64_t size() const { return int64_t(modules_.size()); }  ///< how many modules it has
  /// Module i, from 0, as it was added: where `replace` has put another in its place, calling it calls that one. Error if there
  /// is none.
  M& operator[](int64_t i) const {
    check(i >= 0 && i < size(), "ModuleList: there is no module ", i, " of ", size());
    return *modules_[size_t(i)];
  }

 private:
  std::vector<std::unique_ptr<M>> modules_;
};

}  // namespace reprise::nn
