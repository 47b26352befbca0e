#include "reprise/distributed/data_parallel/data_parallel.h"

#include <algorithm>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/meta.h"
#include "reprise/autograd/ops.h"
#include "reprise/distributed/data_parallel/scattered_weights.h"
#include "reprise/distributed/data_parallel/statistics.h"
#include "reprise/distributed/same_on_all.h"
#include "reprise/kernels/cpu/instruction_set.h"

namespace reprise::distributed {
namespace {

std::string described(const nn::NamedTensors& tensors) {
  TextStream text;
  for (const auto& [name, x] : tensors)
    text << name << ' ' << x.dtype() << x.shape() << (x.requires_grad() ? " with gradient " : "")
         << (x.requires_grad() ? name_of(x.grad_dtype()) : "") << '\n';
  return text.str();
}

}  // namespace

DataParallel::DataParallel(nn::Module& model, ProcessGroup& group, const BucketOptions& options)
    : model_(model), group_(group), bucket_options_(options) {
  for (const auto& [name, x] : model_.named_parameters()) {
    if (!x.requires_grad()) continue;
    parameters_.push_back({.name = name, .leaf = x});
    leaves_.push_back(x);
  }
  set_buckets(plan_buckets(leaves_, options));
  if (options.order == BucketOrder::arrival && group.size() > 1) arrival_.emplace();
  check_alike();
  take_rank_0s(model_.named_parameters());
  take_rank_0s(model_.named_buffers());
  add_hooks();
}

DataParallel::~DataParallel() {
  for (Parameter& parameter : parameters_) parameter.remove_hook();
}

void DataParallel::set_buckets(std::vector<Bucket> buckets) {
  buckets_ = std::move(buckets);
  std::vector<int64_t> numel;
  for (const Tensor& leaf : leaves_) numel.push_back(leaf.numel());
  shards_ = Shards(buckets_, numel, group_.size());
  for (size_t b = 0; b < buckets_.size(); ++b)
    for (size_t i : buckets_[b].parameters) parameters_[i].bucket = b;
}

// Kernels of another version or instruction set round in another way.
void DataParallel::check_alike() {
  TextStream lines;
  lines << "Reprise " << REPRISE_VERSION << '\n';
  if (std::ranges::any_of(leaves_, [](const Tensor& x) { return x.device().is_cpu(); }))
    lines << "instruction set " << kernels::simd::instruction_set() << " (set by REPRISE_ISA)\n";
  lines << described(model_.named_parameters()) << described(model_.named_buffers());
  for (const Bucket& bucket : buckets_)
    lines << "a bucket of " << bucket.parameters.size() << " parameters\n";
  lines << "buckets in the order of " << (arrival_ ? "arrival" : "registration") << '\n';
  check_same_on_all(group_, "DataParallel", lines.str());
}

void DataParallel::take_rank_0s(const nn::NamedTensors& tensors) {
  if (group_.size() == 1) return;
  NoGrad guard;
  std::vector<Work> works;
  for (const auto& [name, x] : tensors) works.push_back(group_.broadcast(x, 0, name));
  for (const Work& work : works) work.wait();
}

void DataParallel::add_hooks() {
  for (size_t i = 0; i < parameters_.size(); ++i)
    parameters_[i].remove_hook =
        autograd::register_post_accumulate_hook(parameters_[i].leaf, [this, i] { mark_ready(i); });
}

std::vector<int64_t> DataParallel::share(int64_t micro_batches) {
  check_whole("share");
  check_over("share");
  check(own_passes_ == 0, "share: ", own_passes_, " passes in a NoSync have not been sent");
  check_no_gradients("share");
  range_ = leaves_of_rank(group_.rank(), group_.size(), micro_batches);
  micro_batches_ = micro_batches;
  next_ = range_.begin;
  begin_buffers();
  std::vector<int64_t> mine;
  for (int64_t g = range_.begin; g < range_.end; ++g) mine.push_back(g);
  return mine;
}

void DataParallel::check_over(const char* method) const {
  check(next_ == range_.end, method, ": the step is not over: micro-batches ", next_, " to ", range_.end - 1,
        " have not been given to backward");
}

void DataParallel::check_no_gradients(const char* method) {
  for (const Parameter& parameter : parameters_)
    check(!parameter.leaf.grad().defined(), method, ": ", parameter.name,
          " has a gradient already; zero_grad() comes before each step");
  for (Parameter& parameter : parameters_) parameter.own_gradient = {};
}

void DataParallel::begin_buffers() {
  if (group_.size() == 1) return;
  if (buffer_rule_ == BufferRule::every_forward) return take_rank_0s(model_.named_buffers());
  buffers_ = model_.named_buffers();
  versions_.clear();
  for (const auto& [name, buffer] : buffers_) versions_.push_back(buffer.version());
  if (!buffers_.empty()) statistics_.emplace();
}

void DataParallel::check_buffers(int64_t g) const {
  for (size_t i = 0; i < buffers_.size(); ++i)
    check(buffers_[i].second.version() == versions_[i], "backward: forward of micro-batch ", g,
          " has changed ", buffers_[i].first,
          " in place, and other ranks do not know of it: of buffers, batch_norm's running ",
          "statistics are folded over ranks, and no others");
}

void DataParallel::check_whole(const char* method) const {
  check(is_whole_, method, ": the pass of micro-batch ", next_, " failed, and its gradients are not whole");
}

void DataParallel::backward(const Tensor& loss, int64_t g) {
  check_whole("backward");
  check(g >= range_.begin && g < range_.end, "backward: micro-batch ", g, " is not in this rank's share, ",
        range_.begin, " to ", range_.end - 1);
  check(g >= next_, "backward: micro-batch ", g, " was given already; ", next_, " is next");
  check(g == next_, "backward: micro-batch ", next_, " is missing before ", g);
  check_buffers(g);
  run_pass(loss * (1.0 / double(micro_batches_)), g, g + 1 == range_.end);
  next_ = g + 1;
  if (buffer_rule_ == BufferRule::every_forward) take_rank_0s(model_.named_buffers());
}

// A step of size() leaves, of which this rank has one.
void DataParallel::backward(const Tensor& loss) {
  check_whole("backward");
  check_over("backward");
  if (own_passes_ == 0) check_no_gradients("backward");
  micro_batches_ = group_.size();
  range_ = {group_.rank(), group_.rank() + 1};
  next_ = range_.end;
  run_pass(loss * (1.0 / double(group_.size())), own_passes_, sends_);
  own_passes_ = sends_ ? 0 : own_passes_ + 1;
  if (sends_ && group_.size() > 1) take_rank_0s(model_.named_buffers());
}

void DataParallel::run_pass(const Tensor& scaled_loss, int64_t leaf, bool is_last) {
  if (!windows_ && bucket_options_.windows && !scatters_ && !hook_ && group_.size() > 1)
    windows_.emplace(group_, buckets_, leaves_);
  leaf_ = leaf;
  is_last_ = is_last;
  not_ready_.clear();
  for (size_t b = 0; b < buckets_.size(); ++b) not_ready_.push_back(awaited_of(b).size());
  for (Parameter& parameter : parameters_) parameter.is_ready = false;
  if (scattered_) scattered_->begin_pass();
  is_whole_ = false;
  struct Pass {
    bool& in_pass;
    explicit Pass(bool& flag) : in_pass(flag) { in_pass = true; }
    ~Pass() { in_pass = false; }
  } pass(in_pass_);
  scaled_loss.backward();
  end_pass();
  is_whole_ = true;
}

void DataParallel::drop_gradients() {
  for (Parameter& parameter : parameters_) {
    parameter.leaf.set_grad({});
    parameter.sums.take();
    parameter.own_gradient = {};
  }
  packing_.clear();
  sending_.clear();
}

// Called by the engine once the gradient of a parameter is complete.
void DataParallel::mark_ready(size_t i) {
  if (!in_pass_) return;
  Parameter& parameter = parameters_[i];
  invariant(!parameter.is_ready, "backward: ", parameter.name, " was ready twice in one pass");
  parameter.is_ready = parameter.is_used = true;
  Tensor gradient = parameter.leaf.grad();
  parameter.leaf.set_grad({});
  parameter.sums.push(leaf_, std::move(gradient));
  if (scattered_) scattered_->mark_ready(i);
  if (!is_last_ || group_.size() == 1) return;
  if (arrival_) arrival_->push_back(i);
  if (is_awaited(i)) --not_ready_[parameter.bucket];
  // Beside sums of earlier micro-batches, or two buckets on their way, a flat tensor would only come earlier.
  const bool has_sums = range_.end - range_.begin > 1 || own_passes_ > 0;
  if (is_awaited(i) && !has_sums && !scatters_) packing_of(parameter.bucket).put(i, take_sums(i));
  start_full_buckets();
}

// See Note [Parameters that a step may not use]: all ranks have the same answer.
bool DataParallel::is_awaited(size_t i) const { return hook_ || parameters_[i].was_used; }

std::vector<size_t> DataParallel::awaited_of(size_t b) const {
  std::vector<size_t> awaited;
  for (size_t i : buckets_[b].parameters)
    if (is_awaited(i)) awaited.push_back(i);
  return awaited;
}

// Buckets are sent in one order on all ranks, whatever becomes ready first.
void DataParallel::start_full_buckets() {
  while (sending_.size() < buckets_.size() && not_ready_[sending_.size()] == 0) start_next();
}

void DataParallel::start_next() {
  constexpr size_t on_their_way = 2;  // see Note [Two buckets on their way]
  if (scatters_ && sending_.size() >= on_their_way) await(sending_[sending_.size() - on_their_way]);
  const size_t b = sending_.size();
  const std::vector<size_t> awaited = awaited_of(b);
  if (awaited.empty()) {
    sending_.push_back({{.index = b}, {}, /*has_arrived=*/true});
    return;
  }
  PackedBucket packed = std::move(packing_of(b));
  packing_.erase(b);
  std::string name = label(b);
  if (windows_ && windows_->has(b) && !packed.is_in_place())
    name += ", gradients of an earlier step are kept";
  sending_.push_back(start(b, std::move(packed), awaited, std::move(name)));
  if (windows_) windows_->sent(b, sending_.back().work);
}

void DataParallel::await(Sending& sending) {
  if (std::exchange(sending.has_arrived, true)) return;
  sending.work.wait();
  if (const auto finish = std::exchange(sending.bucket.finish, {})) finish();
}

void DataParallel::end_pass() {
  for (Parameter& parameter : parameters_)
    if (!parameter.is_ready) parameter.sums.push(leaf_, {});
  if (scattered_) scattered_->end_pass();
  if (is_last_) group_.size() == 1 ? end_step_alone() : end_step();
}

void DataParallel::end_step_alone() {
  for (Parameter& parameter : parameters_) {
    Tensor total = parameter.sums.take_total();
    if (total.defined()) parameter.leaf.set_grad(std::move(total));
    parameter.is_used = false;
  }
}

std::string DataParallel::label(size_t b) const {
  const std::vector<size_t>& in_it = buckets_[b].parameters;
  return detail::join("bucket ", b, " (", parameters_[in_it.front()].name,
                      in_it.size() > 1 ? " ... " + parameters_[in_it.back()].name : "", ")");
}

// One for each of this rank's nodes of the tree. A hook, a ring and a loop of one's own have one node per rank.
TensorList DataParallel::take_sums(size_t i) {
  if (hook_ || own_passes_ > 0 || order_ == SumOrder::fast) return {parameters_[i].sums.take_total()};
  return parameters_[i].sums.take();
}

Device DataParallel::device_of(size_t b) const {
  return parameters_[buckets_[b].parameters.front()].leaf.device();
}

PackedBucket DataParallel::begin_packing(size_t b, const Tensor& into) const {
  return {scatters_ ? parts_form(shards_, b) : whole_form(buckets_[b], leaves_), buckets_[b].dtype,
          device_of(b), into};
}

PackedBucket& DataParallel::packing_of(size_t b) {
  if (!packing_.contains(b)) packing_.emplace(b, begin_packing(b, windows_ ? windows_->take(b) : Tensor()));
  return packing_.at(b);
}

// `parameters` are in it; of those that are not yet, this pass had no gradient.
DataParallel::Sending DataParallel::start(size_t b, PackedBucket packed,
                                          const std::vector<size_t>& parameters, std::string name) {
  NoGrad guard;
  for (size_t i : parameters)
    if (!packed.has(i)) packed.put(i, take_sums(i));
  const TensorList nodes = packed.take();
  Sending sending{{.index = b, .label = name, .sums = nodes.front()}, {}};
  if (hook_) {
    sending.bucket.part_numel = scatters_ ? shards_.part_numel(b) : 0;
    sending.work = hook_(sending.bucket, group_);
    if (scatters_) take_part(sending.bucket);
  } else if (scatters_) {
    MemoryScope scope(MemoryCategory::gradients);
    sending.bucket.sums = Tensor::empty({shards_.part_numel(b)}, buckets_[b].dtype, device_of(b));
    sending.work = order_ == SumOrder::fast
                       ? group_.ring_scatter(sending.bucket.sums, nodes.front(), name)
                       : group_.scatter_nodes(sending.bucket.sums, nodes, micro_batches_, name);
  } else if (order_ == SumOrder::fast) {
    sending.work = group_.ring_sum(nodes.front(), name);
  } else {
    sending.work = group_.sum_nodes(nodes.front(), nodes, micro_batches_, name);
  }
  return sending;
}

void DataParallel::take_part(GradientBucket& bucket) const {
  check(bucket.part.defined() && bucket.part.shape() == Shape{bucket.part_numel} &&
            bucket.part.dtype() == bucket.sums.dtype(),
        "backward: gradients are scattered (ZeRO, stage 2), and the bucket hook has made no part of ",
        bucket.part_numel, ' ', bucket.sums.dtype(), " of ", bucket.label);
  bucket.sums = bucket.part;
}

// The sums of a bucket have arrived; `parameters`, in its order, have their gradients from it.
void DataParallel::take_gradients(const GradientBucket& bucket, const std::vector<size_t>& parameters) {
  const Tensor& sums = bucket.sums;
  auto next = parameters.begin();
  int64_t begin = 0;
  for (size_t i : buckets_[bucket.index].parameters) {
    Parameter& parameter = parameters_[i];
    const Tensor& leaf = parameter.leaf;
    const int64_t end = begin + leaf.numel();
    const bool is_taken = next != parameters.end() && *next == i;
    if (is_taken) ++next;
    if (is_taken && scatters_) {
      const Shard& own = shards_.of_parameter(i, group_.rank());
      parameter.own_gradient = sums.slice(0, own.offset, own.offset + own.range.count());
      leaf.set_grad(Tensor::hollow(
          {nullptr, leaf.shape(), contiguous_strides(leaf.shape()), sums.dtype(), leaf.device()}));
    } else if (is_taken) {
      leaf.set_grad(sums.slice(0, begin, end).reshape(leaf.shape()));
    }
    begin = end;
  }
}

void DataParallel::take_late(size_t b, const std::vector<size_t>& late) {
  Sending sending = start(b, begin_packing(b, {}), late, label(b) + ", late gradients");
  await(sending);
  take_gradients(sending.bucket, late);
}

void DataParallel::end_step() {
  NoGrad guard;
  while (sending_.size() < buckets_.size()) start_next();
  std::vector<uint8_t> used;
  for (const Parameter& parameter : parameters_) used.push_back(parameter.is_used);
  const Tensor anywhere = Tensor::from(used, {int64_t(used.size())});
  Work known = group_.all_reduce(anywhere, ReduceOp::max, "used parameters");
  for (Sending& sending : sending_) await(sending);
  known.wait();
  used = anywhere.to_vector<uint8_t>();
  for (size_t b = 0; b < buckets_.size(); ++b) {
    std::vector<size_t> in_time, late;
    for (size_t i : buckets_[b].parameters)
      if (used[i]) (is_awaited(i) ? in_time : late).push_back(i);
    if (!in_time.empty()) take_gradients(sending_[b].bucket, in_time);
    if (!late.empty()) take_late(b, late);
  }
  sending_.clear();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].sums.take();
    parameters_[i].is_used = false;
    parameters_[i].was_used = used[i];
  }
  if (arrival_) take_arrival_order();
  if (!statistics_) return;
  fold_statistics(group_, buffers_, statistics_->take());
  statistics_.reset();
}

// Rank 0's for all; what that rank has not used comes last. Windows of buckets are made anew in the next pass.
void DataParallel::take_arrival_order() {
  std::vector<int64_t> order(arrival_->begin(), arrival_->end());
  arrival_.reset();
  for (auto i = int64_t(parameters_.size()) - 1; i >= 0; --i)
    if (std::ranges::find(order, i) == order.end()) order.push_back(i);
  const Tensor of_rank_0 = Tensor::from(order, {int64_t(order.size())});
  group_.broadcast(of_rank_0, 0, "order of buckets").wait();
  order = of_rank_0.to_vector<int64_t>();
  order_buckets({order.begin(), order.end()});
}

void DataParallel::order_buckets(std::vector<size_t> order) {
  windows_.reset();
  set_buckets(plan_buckets(leaves_, bucket_options_, std::vector<size_t>(order.rbegin(), order.rend())));
  arrival_order_ = std::move(order);
}

void DataParallel::set_arrival_order(std::vector<size_t> order) {
  check_over("set_arrival_order");
  check(bucket_options_.order == BucketOrder::arrival && arrival_order_.empty(),
        "set_arrival_order: buckets have ",
        arrival_order_.empty() ? "the order of registration" : "an order of arrival already");
  std::vector<size_t> places = order;
  std::ranges::sort(places);
  bool fits = places.size() == parameters_.size();
  for (size_t i = 0; fits && i < places.size(); ++i) fits = places[i] == i;
  check(fits, "set_arrival_order: it does not name each of ", parameters_.size(), " parameters once");
  TextStream lines;
  for (const size_t place : order) lines << "next comes " << parameters_[place].name << '\n';
  check_same_on_all(group_, "set_arrival_order", lines.str());
  arrival_.reset();
  order_buckets(std::move(order));
}

void DataParallel::check_buckets_stay(const char* method) const {
  check(!arrival_, method, ": the first step has buckets in the order of arrival yet to come ",
        "(BucketOrder::arrival), and what ranks share must stay where it is; use BucketOrder::registration");
}

void DataParallel::scatter_gradients() {
  check_over("scatter_gradients");
  check_buckets_stay("scatter_gradients");
  scatters_ = group_.size() > 1;
  if (scatters_) windows_.reset();  // a rank's part stays, and no whole gradient
}

void DataParallel::scatter_weights(const std::vector<nn::Layer*>& layers) {
  check(!scattered_, "scatter_weights: they are scattered already");
  check_no_gradients("scatter_weights");
  scatter_gradients();
  if (group_.size() == 1) return;
  std::vector<Block> blocks = layers.empty()
                                  ? numbered_blocks(model_, leaves_, kernels::kSquaresPiece * group_.size())
                                  : blocks_of(model_, leaves_, layers);
  if (blocks.empty()) return;
  auto [units, buckets] = plan_units(std::move(blocks), leaves_, bucket_options_);
  set_buckets(std::move(buckets));
  check_alike();
  scattered_ = std::make_shared<ScatteredWeights>(std::move(units), group_, leaves_, buckets_, shards_);
  scattered_->add_hooks();
}

void DataParallel::set_sum_order(SumOrder order) {
  check_over("set_sum_order");
  check(own_passes_ == 0, "set_sum_order: ", own_passes_, " passes in a NoSync have not been sent");
  order_ = order;
  for (Parameter& parameter : parameters_) parameter.sums = PartialSums(order);
}

void DataParallel::set_buffer_rule(BufferRule rule) {
  check_over("set_buffer_rule");
  check_same_on_all(group_, "set_buffer_rule", rule == BufferRule::folded ? "folded\n" : "every_forward\n");
  buffer_rule_ = rule;
  buffers_.clear();
  statistics_.reset();
}

void DataParallel::set_bucket_hook(BucketHook hook) {
  check_over("set_bucket_hook");
  hook_ = std::move(hook);
  if (hook_) windows_.reset();  // what a hook sends is its own
}

}  // namespace reprise::distributed
