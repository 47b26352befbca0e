#include "reprise/distributed/data_parallel/packed_bucket.h"

#include <utility>

#include "reprise/autograd/grad_mode.h"

namespace reprise::distributed {

PackedForm whole_form(const Bucket& bucket, const TensorList& leaves) {
  PackedForm form;
  for (size_t i : bucket.parameters) {
    form.places.push_back({i, {0, leaves[i].numel()}, form.numel});
    form.numel += leaves[i].numel();
  }
  return form;
}

PackedForm parts_form(const Shards& shards, size_t bucket) {
  PackedForm form;
  for (int rank = 0; rank < shards.ranks(); ++rank) {
    for (const auto& [i, range, offset] : shards.of(bucket, rank))
      form.places.push_back({i, range, form.numel + offset});
    form.numel += shards.part_numel(bucket);
  }
  return form;
}

PackedBucket::PackedBucket(PackedForm form, DType dtype, Device device, Tensor into)
    : form_(std::move(form)), dtype_(dtype), device_(device), is_in_place_(into.defined()) {
  if (is_in_place_) flat_.push_back(std::move(into));
}

void PackedBucket::put(size_t parameter, TensorList sums) {
  for (const Tensor& sum : sums) {
    if (!sum.defined()) continue;
    check(sum.dtype() == dtype_ && sum.device() == device_, "backward: a gradient is ", sum.dtype(), " on ",
          sum.device(), ", its bucket ", dtype_, " on ", device_,
          "; set_grad_dtype comes before DataParallel, and a model is on one device");
  }
  NoGrad guard;
  MemoryScope scope(MemoryCategory::gradients);
  invariant(put_.empty() || flat_.size() == sums.size(), "PackedBucket: ", sums.size(), " nodes beside ",
            flat_.size());
  flat_.resize(sums.size());
  for (size_t k = 0; k < sums.size(); ++k) {
    const Tensor& sum = sums[k];
    Tensor& flat = flat_[k];
    const bool is_all = !flat.defined() && sum.defined() && sum.numel() == form_.numel;
    if (is_all && sum.is_contiguous() && sum.is_sole_owner()) {
      flat = sum.reshape({form_.numel});
      continue;
    }
    if (!flat.defined()) flat = Tensor::empty({form_.numel}, dtype_, device_);
    for (const PackedPlace& place : form_.places)
      if (place.parameter == parameter) put_at(place, sum, flat);
  }
  put_.push_back(parameter);
}

void PackedBucket::put_at(const PackedPlace& place, const Tensor& sum, const Tensor& flat) const {
  const Tensor to = flat.slice(0, place.begin, place.begin + place.range.count());
  if (sum.defined())
    to.copy_(sum.reshape({sum.numel()}).slice(0, place.range.begin, place.range.end));
  else
    to.zero_();
}

TensorList PackedBucket::take() {
  invariant(!put_.empty(), "PackedBucket: nothing was put there");
  NoGrad guard;
  auto clear = [&](int64_t begin, int64_t end) {
    for (const Tensor& flat : flat_)
      if (begin < end) flat.slice(0, begin, end).zero_();
  };
  int64_t end = 0;
  for (const PackedPlace& place : form_.places) {
    clear(end, place.begin);
    end = place.begin + place.range.count();
    if (!has(place.parameter)) clear(place.begin, end);
  }
  clear(end, form_.numel);
  put_.clear();
  return std::exchange(flat_, {});
}

}  // namespace reprise::distributed
