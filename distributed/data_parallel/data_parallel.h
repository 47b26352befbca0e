// DataParallel: each rank computes the gradients of its share of a step's micro-batches; all get the mean over all of them,
// with the same bits on any number of ranks.
//
//   rp::distributed::DataParallel parallel(model, *group);  // rank 0's weights and buffers everywhere
//   for (int64_t g : parallel.share(8))                     // this rank's part of 0 ... 7
//     parallel.backward(loss_of(step, g), g);               // the last one sends, bucket by bucket, while it still runs
//   optimizer.step();
//
// Note [Same bits on any ranks]
// Micro-batch g is computed alone, so that its gradient depends on nothing else, and scaled by 1/G. The gradients are added by
// one tree over 0 ... G-1 (distributed/tree.h), of which a rank adds the nodes within its share and the group the rest. (Not with
// SumOrder::fast.)
//
// Note [Two buckets on their way]
// Where each rank keeps its part of a gradient, the rest is to be gone: at most two whole buckets are on their way, and backward waits
// for the first one before it sends a third. A call keeps what it sends until then (Work), so that a step takes the same memory
// however fast the network is, and a plan of it (nn/memory) is right.
// On a GPU, whose stream waits and not the host, the memory of a third one may still be in use.
//
// Note [Parameters that a step may not use]
// A bucket goes once its parameters are ready, but for those that no rank used in the step before: these are not awaited, and zeros
// go in their places; a bucket without any other is not sent. Behind backward all ranks hear which parameters any rank has used, so
// that they agree on what is late: used, and not awaited. A bucket with late parameters goes once more, with these alone, in
// the same places, so that sums of either order keep their bits. With a bucket hook, which may keep what it knows of a bucket from step to
// step, all are awaited.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "reprise/autograd/ops/norm/batch_statistics.h"
#include "reprise/distributed/data_parallel/bucket_hook.h"
#include "reprise/distributed/data_parallel/bucket_windows.h"
#include "reprise/distributed/data_parallel/buckets.h"
#include "reprise/distributed/data_parallel/packed_bucket.h"
#include "reprise/distributed/data_parallel/partial_sums.h"
#include "reprise/distributed/data_parallel/shards.h"
#include "reprise/distributed/process_group.h"
#include "reprise/nn/module.h"

namespace reprise::distributed {

class ScatteredWeights;

/// How buffers are kept equal on all ranks.
enum class BufferRule : uint8_t {
  folded,  ///< running statistics get the batches of all micro-batches, in their order; other changes are Errors
  every_forward  ///< rank 0's, which are sent to all before each micro-batch, as PyTorch's broadcast_buffers does
};

/// A model that the ranks of a group train together, each on its share of a step's micro-batches.
class DataParallel {
 public:
  /// Gives `model` the parameters and buffers of rank 0. Parameters that require grad now are trained. The model is
  /// on the group's device or the CPU, or anywhere in a group of one, where nothing is sent or copied.
  /// Both are kept by reference and outlive this. Error on all ranks, with the first difference, where their models differ.
  DataParallel(nn::Module& model, ProcessGroup& group, const BucketOptions& options = {});
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;

  nn::Module& model() { return model_; }    ///< as given
  ProcessGroup& group() { return group_; }  ///< as given
  /// Which gradients are sent together, in the order in which they are sent.
  const std::vector<Bucket>& buckets() const { return buckets_; }
  const BucketOptions& bucket_options() const { return bucket_options_; }  ///< as given
  /// The places of parameters in the order of arrival (BucketOrder::arrival), once it is known; empty before, and with another order.
  const std::vector<size_t>& arrival_order() const { return arrival_order_; }
  /// Takes such an order, as an earlier run had it, in the place of measuring one. All ranks call it, between two steps. Error unless
  /// buckets have the order of arrival, which is not known yet, and `order` names each place once, the same on all ranks.
  void set_arrival_order(std::vector<size_t> order);
  /// What is trained, in the order of the model: parameters are known by their place here.
  const TensorList& leaves() const { return leaves_; }
  /// Which elements each rank owns, where gradients, weights or an optimizer's state are shared.
  const Shards& shards() const { return shards_; }

  /// Begins a step of `micro_batches` (G), a multiple of the ranks: those of this rank, in their order. Error if not all of
  /// the step before have been given to `backward`, or if a parameter still has a gradient.
  std::vector<int64_t> share(int64_t micro_batches);

  /// The gradients of `loss`, a mean over the rows of micro-batch g, divided by G. After the last one of the share each
  /// parameter that any rank used in the step has the mean over all micro-batches as its `grad`; one that none used has none.
  /// On several ranks batch norms tell the batches of all micro-batches to the running statistics then too, in their order
  /// (in a group of one forward does, as ever). Error if g is missing, repeated or another rank's, or if forward has changed
  /// a buffer of the model in another way, which the others would not hear of.
  void backward(const Tensor& loss, int64_t g);

  /// Error naming `method` unless all micro-batches of the share have been given to `backward`.
  void check_over(const char* method) const;

  /// For loops of one's own, which do not deal micro-batches: the mean over the ranks of the gradients of `loss`, and of all
  /// losses before it in a NoSync, which are added. All ranks make as many passes. Buffers become rank 0's as the gradients
  /// arrive. A rank's passes are added by a tree of their own, so that bits are those of `share` if these are a power of two
  /// and each loss is divided by their number. Error within a step that `share` has begun.
  void backward(const Tensor& loss);

  /// What sends the buckets from now on, in the place of the sum in the tree's order; empty: that sum. Where gradients are
  /// scattered, one that makes no `part` is an Error in `backward`. All ranks call it, between two steps. A group of one sends
  /// nothing and calls none.
  void set_bucket_hook(BucketHook hook);

  /// How gradients are added from now on. With `fast` bits depend on the number of ranks; a hook takes the place of ring_sum.
  /// All ranks call it, between two steps.
  void set_sum_order(SumOrder order);
  /// How buffers are kept equal from now on; `folded` at first. With `every_forward` rank 0's are sent to all ranks by `share`, as a step
  /// begins, and by `backward(loss, g)` behind each micro-batch: so the first forward of each begins with them, and the first one outside of
  /// training too. Forward may change buffers in any way then; what it changes on other ranks is lost, and bits depend on the number of ranks.
  /// (`backward(loss)` sends rank 0's behind each pass that sends gradients, with either.) All ranks call it, between two steps; Error
  /// where they give different rules.
  void set_buffer_rule(BufferRule rule);
  SumOrder sum_order() const { return order_; }  ///< as it was set; `tree` at first

  /// From now on a rank has the mean of the shards that it owns alone, and half as much is sent (ZeRO, stage 2): a `grad` is
  /// hollow then, of the form that it would have, and reading it is an Error. With `fast` the bits are other ones than those of
  /// whole gradients. Nothing changes in a group of one. All ranks call it, between two steps.
  void scatter_gradients();
  /// Error naming `method` where buckets are yet to be ordered by arrival, so that no rank's part of one is known.
  void check_buckets_stay(const char* method) const;
  /// True once gradients are scattered; never in a group of one.
  bool scatters_gradients() const { return scatters_; }

  /// scatter_gradients, and from now on a rank keeps its shards alone of the weights of `blocks`, whose weights are whole while
  /// they run (ZeRO, stage 3: see ScatteredWeights); outside, reading one is an Error, but within a WholeWeights. Without
  /// blocks, the outermost layers that have a number for a name, such as "h.0", and 16,384 weights or more
  /// per rank. The gradients of a block are one bucket. Nothing changes in a group of one. All ranks call it once, between two
  /// steps, and run the same blocks in the same order from then on.
  void scatter_weights(const std::vector<nn::Layer*>& blocks = {});
  /// Null if no weights are scattered.
  ScatteredWeights* scattered_weights() const { return scattered_.get(); }
  /// Drops what a step that has failed leaves: gradients, partial sums and what was on its way.
  void drop_gradients();
  /// This rank's shard of a gradient, (count), until the next step begins; undefined if the step used the parameter nowhere.
  Tensor own_gradient(size_t parameter) const { return parameters_[parameter].own_gradient; }

 private:
  friend class NoSync;
  struct Parameter {
    std::string name;
    Tensor leaf;
    size_t bucket = 0;
    PartialSums sums{};
    bool is_ready = false;  // in this pass
    bool is_used = false;   // in this step, by this rank
    bool was_used = true;   // in the step before, by any rank
    Tensor own_gradient{};  // where gradients are scattered
    std::function<void()> remove_hook{};
  };
  // A bucket on its way.
  struct Sending {
    GradientBucket bucket;
    Work work;
    bool has_arrived = false;
  };

  void set_buckets(std::vector<Bucket> buckets);
  void check_alike();
  void check_whole(const char* method) const;
  void check_no_gradients(const char* method);
  void run_pass(const Tensor& scaled_loss, int64_t leaf, bool is_last);
  void begin_buffers();
  void take_arrival_order();
  void order_buckets(std::vector<size_t> order);
  void check_buffers(int64_t g) const;
  void take_rank_0s(const nn::NamedTensors& tensors);
  void add_hooks();
  void mark_ready(size_t parameter);
  void end_pass();
  void start_full_buckets();
  void start_next();
  bool is_awaited(size_t parameter) const;
  std::vector<size_t> awaited_of(size_t bucket) const;
  Sending start(size_t bucket, PackedBucket packed, const std::vector<size_t>& parameters, std::string name);
  static void await(Sending& sending);
  void take_part(GradientBucket& bucket) const;
  TensorList take_sums(size_t parameter);
  Device device_of(size_t bucket) const;
  PackedBucket begin_packing(size_t bucket, const Tensor& into) const;
  PackedBucket& packing_of(size_t bucket);
  void take_gradients(const GradientBucket& bucket, const std::vector<size_t>& parameters);
  void take_late(size_t bucket, const std::vector<size_t>& late);
  void end_step();
  void end_step_alone();
  std::string label(size_t bucket) const;

  nn::Module& model_;
  ProcessGroup& group_;
  std::vector<Parameter> parameters_;
  TensorList leaves_;
  std::vector<Bucket> buckets_;
  Shards shards_{{}, {}, 1};
  BucketOptions bucket_options_;
  bool scatters_ = false;
  std::shared_ptr<ScatteredWeights> scattered_;
  std::optional<BucketWindows> windows_;  // from the first pass on, where whole gradients are sent
  SumOrder order_ = SumOrder::tree;
  BufferRule buffer_rule_ = BufferRule::folded;
  std::optional<std::vector<size_t>> arrival_;  // parameters so far, while their order is measured
  std::vector<size_t> arrival_order_;           // once it is known
  BucketHook hook_;
  // Of the step.
  int64_t micro_batches_ = 0;
  LeafRange range_;
  int64_t next_ = 0;                        // the micro-batch that comes next
  int64_t own_passes_ = 0;                  // of a loop of one's own, which have not been sent
  bool sends_ = true;                       // false in a NoSync
  bool in_pass_ = false;                    // hooks count in passes of `backward` alone
  int64_t leaf_ = 0;                        // of this pass, in the tree of partial sums
  bool is_last_ = false;                    // this pass sends
  bool is_whole_ = true;                    // false once a pass has thrown
  std::vector<size_t> not_ready_;           // awaited parameters of each bucket
  std::map<size_t, PackedBucket> packing_;  // buckets whose first gradients of the last pass are there
  std::vector<Sending> sending_;            // buckets so far, in their order
  // On several ranks, where the model has buffers: these, as they were at the step's begin, and what updates them.
  nn::NamedTensors buffers_;
  std::vector<uint64_t> versions_;
  std::optional<autograd::StatisticsCollector> statistics_;
};

/// While it lives, `backward(loss)` sends nothing and adds up: for loops of one's own that accumulate gradients. (In
/// PyTorch's no_sync the forward passes must lie within, too.)
///
///   for (int i = 0; i < 4; ++i) {
///     std::optional<rp::distributed::NoSync> wait;
///     if (i < 3) wait.emplace(parallel);
///     parallel.backward(loss_of(i) * 0.25);
///   }
class NoSync {
 public:
  /// `parallel` outlives it. They may be nested.
  explicit NoSync(DataParallel& parallel)
      : parallel_(parallel), before_(std::exchange(parallel.sends_, false)) {}
  ~NoSync() { parallel_.sends_ = before_; }
  NoSync(const NoSync&) = delete;

 private:
  DataParallel& parallel_;
  bool before_;
};

}  // namespace reprise::distributed
