// Substitution: tensors that are others for a while, in all their handles: the parameters of a module during a functional call.
//
// Note [Substituted tensors]
// The storage, the view and the place in the graph of a tensor lie behind its handles (Tensor::become). While it is substituted, the
// given tensor's are there: operations read the given values, and gradients flow to where the given tensor is in the graph. What it had
// itself, its gradient, hooks, version and shadows with it, is kept aside, untouched, and is put back.
//
// Graphs outlive that. One that is recorded meanwhile keeps what was given, apart from the handle (SavedTensor). One that was recorded
// before may hold the handle itself, as of a parameter: so a backward pass finds all tensors as they are without substitution
// (GraphTask::run), and a region of recompute, which plays its forward again, finds them as its first run did (ThreadState).
#pragma once

#include <utility>
#include <vector>

#include "reprise/core/tensor.h"

namespace reprise::autograd {

/// Tensors, each once, and what stands for them.
using Substitutes = std::vector<std::pair<Tensor, Tensor>>;

/// While it lives, each tensor is what stands for it. On one thread, and no other one uses these tensors meanwhile.
class Substitution {
 public:
  /// What a recorded operation in place makes of a tensor meanwhile is a value of what was given, and becomes that at the end, as a
  /// write into its memory would.
  enum class InPlace : uint8_t { reaches_given, ends_here };

  /// From now on, on this thread.
  Substitution(const Substitutes& substitutes, InPlace in_place);
  ~Substitution();
  Substitution(const Substitution&) = delete;
  Substitution& operator=(const Substitution&) = delete;

 private:
  friend class SubstitutionsAside;
  friend const Tensor* find_substitute(const Tensor& x);
  friend Substitutes current_substitutes();
  struct Entry {
    Tensor target, given;
    Tensor other;                        // what is not there: the target's own, or, aside, what stands for it
    std::shared_ptr<AutogradSlot> slot;  // of what was given at first
  };
  void exchange() noexcept;

  InPlace in_place_;
  std::vector<Entry> entries_;
  Substitution* outer_ = nullptr;
};

/// While it lives, no tensor is substituted on this thread.
class SubstitutionsAside {
 public:
  SubstitutionsAside();
  ~SubstitutionsAside();
  SubstitutionsAside(const SubstitutionsAside&) = delete;
  SubstitutionsAside& operator=(const SubstitutionsAside&) = delete;

 private:
  std::vector<Substitution*> aside_;  // the innermost first
};

/// What was given for x, if it is substituted now; else null.
const Tensor* find_substitute(const Tensor& x);

/// What is substituted now, each tensor with what it is at the moment: outside of handles that the program has.
Substitutes current_substitutes();

}  // namespace reprise::autograd
