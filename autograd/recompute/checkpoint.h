// checkpoint: runs a part of the forward pass without keeping what backward needs, and plays it again when
// backward arrives (Chen et al. 2016). Outputs, gradients and random draws keep their bits.
//
//   rp::Tensor y = rp::checkpoint([&](const rp::Tensor& x) { return block(x); }, x);
//   auto [y, z] = rp::checkpoint(fn, std::tuple{x, mask}, {.determinism = rp::Determinism::values});
//
// `fn` must do the same when it is called again. It is kept, with what it captures, until backward is done;
// generators that it draws from must live as long.
#pragma once

#include <functional>

#include "reprise/autograd/recompute/for_each_tensor.h"
#include "reprise/autograd/recompute/policy.h"

namespace reprise::recompute {

/// How a region stands in the graph.
enum class CheckpointMode : uint8_t {
  non_reentrant,  ///< the graph is recorded, its saved tensors are rebuilt at the first one that is read
  reentrant,  ///< one node in the graph; it runs a backward pass of its own. Not with grad() or create_graph
};

class Offload;

/// What a replay is compared by with the first run. Error where they differ.
enum class Determinism : uint8_t {
  none,
  metadata,  ///< count, order, shapes, dtypes and devices of saved tensors; and what they were made of: the
             ///< operations that led to them, with all arguments, captured tensors and random draws
  values,    ///< these, and the bits of every operation's result: slow, to find what is not deterministic
};

/// Makes a scope object: `[] { return std::make_shared<NoGrad>(); }`.
using ScopeFactory = std::function<std::shared_ptr<void>()>;
/// Scopes around `fn`, one made for each run; empty: none. (PyTorch: checkpoint's `context_fn`.)
struct CheckpointContext {
  ScopeFactory forward{};  ///< in the first run
  ScopeFactory replay{};   ///< in replays
};

/// How a region is played again, and what of it stays in memory. Reentrant regions have no context, policy or debug,
/// and do not compare values: Error.
struct CheckpointOptions {
  CheckpointMode mode = CheckpointMode::non_reentrant;  ///< reentrant: as PyTorch's `use_reentrant`
  bool preserve_rng = true;  ///< replays draw what the first run drew, from every generator it drew from
  bool early_stop = true;    ///< a replay ends with the last value that is still needed
  Determinism determinism = Determinism::metadata;  ///< how a replay is checked against the first run
  CheckpointContext context{};                      ///< scopes around `fn`
  Policy policy{};                                  ///< which results stay in memory: see policy.h
  bool debug = false;  ///< an Error about a replay shows the operations of both runs side by side
  std::shared_ptr<Offload> offload{};  ///< where inputs are until backward wants them: see offload.h
};

/// Overrides an option of the checkpoints called while it lives; the innermost wins.
template <bool CheckpointOptions::*option>
class OptionOverride {
 public:
  explicit OptionOverride(bool on);  ///< on this thread, whatever the options of the checkpoints say
  ~OptionOverride();
  OptionOverride(const OptionOverride&) = delete;

 private:
  std::optional<bool> previous_;
};
/// Overrides `early_stop`: `EarlyStop scope(false);`. Reentrant regions have none.
using EarlyStop = OptionOverride<&CheckpointOptions::early_stop>;
/// Overrides `debug`: `CheckpointDebug scope(true);`. Reentrant regions have none.
using CheckpointDebug = OptionOverride<&CheckpointOptions::debug>;

/// What is played: from tensors to tensors. Each call must do the same.
class Body {
 public:
  virtual ~Body() = default;
  virtual TensorList play(const TensorList& inputs) = 0;  ///< the first run and each replay
  /// Nothing may be thrown through it: a replay plays to the end, and leaves nothing out.
  virtual bool is_noexcept() const { return false; }
};

/// `checkpoint` for a Body; `paths` name the inputs in messages.
TensorList run_checkpoint(const std::shared_ptr<Body>& body, const TensorList& inputs,
                          const std::vector<std::string>& paths, const CheckpointOptions& options);

namespace detail {

template <class Fn, class In>
decltype(auto) call(Fn& fn, In& in) {
  if constexpr (std::is_invocable_v<Fn&, In&>)
    return fn(in);
  else
    return std::apply(fn, in);
}

template <class Fn, class... Items>
constexpr bool takes_noexcept(const std::tuple<Items...>*) {
  return std::is_nothrow_invocable_v<Fn&, Items&...>;
}
template <class Fn>
constexpr bool takes_noexcept(const void*) {
  return false;
}
template <class Fn, class In>
constexpr bool is_noexcept() {
  return std::is_nothrow_invocable_v<Fn&, In&> || takes_noexcept<Fn>(static_cast<const In*>(nullptr));
}

/// A function of any form as a Body. It holds the forms of input and output, never their tensors.
template <class Fn, class In>
class FormedBody final : public Body {
 public:
  using Out = std::decay_t<decltype(call(std::declval<Fn&>(), std::declval<In&>()))>;

  FormedBody(Fn fn, In form) : fn_(std::move(fn)), form_(std::move(form)) {}
  TensorList play(const TensorList& inputs) override {
    In in = form_;
    put_tensors(in, inputs);
    Out out = call(fn_, in);
    TensorList tensors = take_tensors(out);
    result_.emplace(std::move(out));
    return tensors;
  }
  bool is_noexcept() const override { return detail::is_noexcept<Fn, In>(); }
  /// What the last call returned, with these tensors in it.
  Out result(const TensorList& tensors) const {
    Out out = *result_;
    put_tensors(out, tensors);
    return out;
  }

 private:
  Fn fn_;
  In form_;
  std::optional<Out> result_;
};

}  // namespace detail

/// fn(inputs), to be played again in backward. `fn` takes and returns a tensor, a list (`{a, b}` will do), a
/// tuple (also as separate arguments) or a struct of tensors: see for_each_tensor.h. An input that was
/// changed in place by the time of a replay is an Error naming it.
template <class Fn, class In = TensorList>
auto checkpoint(Fn fn, const In& inputs, const CheckpointOptions& options = {}) {
  In form = inputs;
  std::vector<std::string> paths;
  TensorList tensors = take_tensors(form, &paths);
  auto body = std::make_shared<detail::FormedBody<Fn, In>>(std::move(fn), std::move(form));
  return body->result(run_checkpoint(body, tensors, paths, options));
}

}  // namespace reprise::recompute

namespace reprise {
using recompute::checkpoint;
using recompute::CheckpointDebug;
using recompute::CheckpointMode;
using recompute::CheckpointOptions;
using recompute::Decision;
using recompute::Determinism;
using recompute::EarlyStop;
using recompute::Policy;
using recompute::PolicyOp;
using recompute::recompute_cheap;
using recompute::save_attention;
using recompute::save_matmuls;
}  // namespace reprise
