// ScatteredWeights: of the weights of blocks each rank keeps its shards alone (ZeRO, stage 3: Rajbhandari et al. 2020). A block's
// are whole while it runs: gathered before its forward and before its backward, and taken back behind each.
//
// Note [When blocks are gathered]
// A block's call gathers it. So does the gradient of its output, as it arrives in backward, and a call in a replay, which comes
// first where a reentrant region ran the block without a graph; there the gather serves the replay and its backward, and ends
// once each of the block's weights has its gradient. The block that follows, by what followed the last time, is on its way
// meanwhile; one that follows itself, as the last block's backward does its forward, stays. All ranks run the same blocks in the
// same order: where they do not, their calls differ, which is a DistributedError.
//
// Note [Whoever runs a block asks]
// Ranks that evaluate run what they like: other batches, fewer of them, or nothing while one of them samples. So they agree on each
// gather: each tells which unit it is about to run, or none, and all gather the one that lies furthest on, of which those that do not
// run it keep nothing. Whoever has run all that it wants to goes on gathering until nobody asks any more.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "reprise/autograd/leaf/lent_memory.h"
#include "reprise/distributed/data_parallel/blocks.h"
#include "reprise/distributed/data_parallel/gathering.h"

namespace reprise::distributed {

/// A block that is gathered and freed at once: its weights are those of its buckets.
struct WeightUnit {
  Block block;
  std::vector<size_t> buckets;
};

/// The units of blocks, in their order, and all buckets of `leaves`. Those of the last unit come first, as backward ends with the
/// first one; then those of what is in no block.
std::pair<std::vector<WeightUnit>, std::vector<Bucket>> plan_units(std::vector<Block> blocks,
                                                                   const TensorList& leaves,
                                                                   const BucketOptions& options);

class ScatteredWeights : public std::enable_shared_from_this<ScatteredWeights> {
 public:
  /// Takes the weights of all units away, but for this rank's shards. The last three outlive this.
  ScatteredWeights(std::vector<WeightUnit> units, ProcessGroup& group, const TensorList& leaves,
                   const std::vector<Bucket>& buckets, const Shards& shards);
  ~ScatteredWeights();
  /// Gathers units as their blocks are called, from now on.
  void add_hooks();

  /// Takes what follows the weights of units too, such as a target encoder's: followers[i] is of leaf i's shape and in a layer below
  /// `model`, or undefined. It is gathered as that layer is called, and outlives this. All ranks call it once, between two steps.
  void add_followers(nn::Module& model, TensorList followers);

  bool has(size_t parameter) const { return weights_.own[parameter].defined(); }
  /// This rank's shard of a parameter that is here, (count).
  const Tensor& own(size_t parameter) const { return weights_.own[parameter]; }
  /// A shard of this rank, and the place of the parameter whose shards tell which elements it is.
  struct Part {
    size_t parameter;
    Tensor elements;  ///< (count)
  };
  /// Of a parameter or a follower that is here; none of others.
  std::optional<Part> part_of(const Tensor& x) const;

  // Of a backward pass.
  void begin_pass();
  void mark_ready(size_t parameter);
  void end_pass();

  /// Gathers all, which then stay whole until as many calls of release_all.
  void hold_all();
  void release_all();
  /// From now on each rank runs blocks outside of backward passes as it likes: see Note [Whoever runs a block asks]. `parts`: by parameter,
  /// what is gathered in the place of the shards that are defined there, cast. All ranks call it, and those below.
  void begin_asking(TensorList parts);
  /// Gathers what others run, until all ranks have called it. Nothing outside of begin_asking and end_asking, or where all is held.
  void gather_for_others();
  void end_asking();
  bool asks() const { return asks_; }  ///< whether it is between the two

  /// Takes all back: the shards will change. Error where all are held.
  void take_back_all(const char* why);

 private:
  // By parameter; what is in no unit has no shard.
  struct Tensors {
    TensorList whole;  // hollow while their unit does not run
    TensorList own = TensorList(whole.size());
    std::vector<std::optional<autograd::LentMemory>> lent =
        std::vector<std::optional<autograd::LentMemory>>(whole.size());
  };
  struct State {
    WeightUnit unit;
    Tensors& tensors;  // that it is of
    bool is_whole = false;
    size_t not_ready = 0;  // parameters, in this pass
    std::vector<uint64_t> versions{};
    std::vector<std::function<void()>> remove_hooks{};
  };
  enum class Pass : uint8_t { forward, backward, asked };
  using Event = std::pair<size_t, Pass>;  // a unit is wanted

  void add(WeightUnit unit, Tensors& tensors);
  void add_hooks(size_t unit);
  void enter(size_t unit, Pass pass);
  void fetch_after(Event now);
  bool gather_asked(std::optional<size_t> wanted);
  void leave(size_t unit, const Tensor& result);
  void fetch(size_t unit);
  void make_whole(size_t unit);
  void take_back(size_t unit);
  void keep_changes(State& state);
  void drop_coming();
  SharedBucket bucket(size_t index, const State& of) const {
    return {of.tensors.whole, buckets_[index], shards_, index,
            detail::join("weights of ", of.unit.block.name, ", which all ranks run, or .blocks leaves out")};
  }

  ProcessGroup& group_;
  const std::vector<Bucket>& buckets_;
  const Shards& shards_;
  Tensors weights_, followers_{};
  std::deque<State> states_;     // of weights, then of followers
  std::vector<size_t> unit_of_;  // by parameter, of weights
  std::map<Event, Event> follows_;
  std::optional<Event> last_;  // of this pass
  std::optional<size_t> coming_unit_;
  std::vector<Gathering> coming_;
  int holds_ = 0;
  bool asks_ = false;
  TensorList asked_parts_;  // by parameter; empty: the shards
};

}  // namespace reprise::distributed
