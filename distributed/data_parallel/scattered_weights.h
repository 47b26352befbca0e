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

  bool has(size_t parameter) const { return own_[parameter].defined(); }
  /// This rank's shard of a parameter that is here, (count).
  const Tensor& own(size_t parameter) const { return own_[parameter]; }

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

  /// Takes all back: the shards will change. Error where all are held.
  void take_back_all(const char* why);

 private:
  struct State {
    WeightUnit unit;
    bool is_whole = false;
    size_t not_ready = 0;  // parameters, in this pass
    std::vector<uint64_t> versions{};
    std::vector<std::function<void()>> remove_hooks{};
  };
  enum class Pass : uint8_t { forward, backward, asked };
  using Event = std::pair<size_t, Pass>;  // a unit is wanted

  void enter(size_t unit, Pass pass);
  void fetch_after(Event now);
  bool gather_asked(std::optional<size_t> wanted);
  void leave(size_t unit, const Tensor& result);
  void fetch(size_t unit);
  void make_whole(size_t unit);
  void take_back(size_t unit);
  void keep_changes(State& state);
  void drop_coming();
  SharedBucket bucket(size_t index, const std::string& block) const {
    return {leaves_, buckets_[index], shards_, index, "weights of " + block};
  }

  ProcessGroup& group_;
  const TensorList& leaves_;
  const std::vector<Bucket>& buckets_;
  const Shards& shards_;
  std::vector<State> states_;
  std::vector<std::optional<autograd::LentMemory>> lent_;  // by parameter
  TensorList own_;                                         // by parameter
  std::vector<size_t> unit_of_;                            // by parameter
  std::map<Event, Event> follows_;
  std::optional<Event> last_;  // of this pass
  std::optional<size_t> coming_unit_;
  std::vector<Gathering> coming_;
  int holds_ = 0;
  bool asks_ = false;
  TensorList asked_parts_;  // by parameter; empty: the shards
};

}  // namespace reprise::distributed
