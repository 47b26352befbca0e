// ModuleList: modules of one class, or of classes below it, by number, for models that call them in an order of their own.
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <vector>

#include "reprise/nn/module.h"

namespace reprise::nn {

/// Owns its modules; their names are 0, 1, ...
///
///   ModuleList<Linear> heads;
///   for (int64_t classes : {10, 100}) heads.add(64, classes);
///
/// With several classes that share a base:
///
///   ModuleList<Layer> mixed;
///   mixed.add<Linear>(64, 10);
///   mixed.add<LayerNorm>(10);
template <class M>
class ModuleList : public Module {
 public:
  /// Adds a module of the class L made from `args` and returns it.
  template <std::derived_from<M> L, class... Args>
  L& add(Args&&... args) {
    auto module = std::make_unique<L>(std::forward<Args>(args)...);
    L& added = *module;
    modules_.push_back(std::move(module));
    register_module(std::to_string(modules_.size() - 1), added);
    return added;
  }
  /// The same of the class M.
  template <class... Args>
  M& add(Args&&... args) {
    return add<M>(std::forward<Args>(args)...);
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
