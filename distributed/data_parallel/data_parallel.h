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
// one tree over 0 ... G-1 (distributed/tree.h), of which a rank adds the nodes within its share and the group the rest.
#pragma once

#include <optional>

#include "reprise/autograd/ops/norm/batch_statistics.h"
#include "reprise/distributed/data_parallel/buckets.h"
#include "reprise/distributed/data_parallel/partial_sums.h"
#include "reprise/distributed/process_group.h"
#include "reprise/nn/module.h"

namespace reprise::distributed {

class DataParallel {
 public:
  /// Gives `model` the parameters and buffers of rank 0. Parameters that require grad now are trained; they are on the CPU,
  /// or anywhere in a group of one, where nothing is sent or copied.
  /// Both are kept by reference and outlive this. Error on all ranks, with the first difference, where their models differ.
  DataParallel(nn::Module& model, ProcessGroup& group, const BucketOptions& options = {});
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;

  nn::Module& model() { return model_; }
  ProcessGroup& group() { return group_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }

  /// Begins a step of `micro_batches` (G), a multiple of the ranks: those of this rank, in their order. Error if not all of
  /// the step before have been given to `backward`, or if a parameter still has a gradient.
  std::vector<int64_t> share(int64_t micro_batches);

  /// The gradients of `loss`, a mean over the rows of micro-batch g, divided by G. After the last one of the share each
  /// parameter that any rank used in the step has the mean over all micro-batches as its `grad`; one that none used has none.
  /// On several ranks batch norms tell the batches of all micro-batches to the running statistics then too, in their order
  /// (in a group of one forward does, as ever). Error if g is missing, repeated or another rank's, or if forward has changed
  /// a buffer of the model in another way, which the others would not hear of.
  void backward(const Tensor& loss, int64_t g);

 private:
  struct Parameter {
    std::string name;
    Tensor leaf;
    size_t bucket = 0;
    PartialSums sums{};
    bool is_ready = false;  // in this pass
    bool is_used = false;   // in this step, by this rank
    std::function<void()> remove_hook{};
  };
  // A bucket on its way: where its sums arrive.
  struct Sending {
    Tensor sums;
    Work work;
  };

  void check_alike();
  void check_whole(const char* method) const;
  void begin_buffers();
  void check_buffers(int64_t g) const;
  void take_rank_0s();
  void add_hooks();
  void mark_ready(size_t parameter);
  void end_pass(int64_t g);
  void start_full_buckets();
  Sending start(size_t bucket);
  void end_step();
  void end_step_alone();
  bool is_last(int64_t g) const { return g + 1 == range_.end; }
  std::string label(size_t bucket) const;

  nn::Module& model_;
  ProcessGroup& group_;
  std::vector<Parameter> parameters_;
  std::vector<Bucket> buckets_;
  // Of the step.
  int64_t micro_batches_ = 0;
  LeafRange range_;
  int64_t next_ = 0;               // the micro-batch that comes next
  bool in_pass_ = false;           // hooks count in passes of `backward` alone
  bool is_whole_ = true;           // false once a pass has thrown
  std::vector<size_t> not_ready_;  // parameters of each bucket
  std::vector<Sending> sending_;   // buckets so far, in their order
  // On several ranks, where the model has buffers: these, as they were at the step's begin, and what updates them.
  nn::NamedTensors buffers_;
  std::vector<uint64_t> versions_;
  std::optional<autograd::StatisticsCollector> statistics_;
};

}  // namespace reprise::distributed
