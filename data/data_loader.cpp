#include "reprise/data/data_loader.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "reprise/core/error.h"
#include "reprise/core/memory.h"
#include "reprise/core/random.h"
#include "reprise/data/draws.h"
#include "reprise/data/prefetcher.h"
#include "reprise/data/share.h"

namespace reprise::data {
namespace {

using Sample = Order::Sample;

const DataLoaderOptions& checked(const DataLoaderOptions& o) {
  check(o.batch > 0 && o.accumulate > 0, "data_loader: ", o.accumulate, " micro-batches of ", o.batch,
        " rows");
  check(o.workers >= 0 && o.prefetch > 0, "data_loader: ", o.workers, " workers, ", o.prefetch,
        " batches ahead");
  return o;
}

void check_alike(const TensorList& fields, const TensorList& first, int64_t index) {
  check(!fields.empty() && fields.size() == first.size(), "data_loader: sample ", index, " has ",
        fields.size(), " fields, the first of its batch ", first.size());
  for (size_t f = 0; f < fields.size(); ++f) {
    check(fields[f].defined() && fields[f].device().is_cpu(), "data_loader: sample ", index, ": field ", f,
          " needs to be a tensor on the CPU");
    check(fields[f].shape() == first[f].shape() && fields[f].dtype() == first[f].dtype(),
          "data_loader: sample ", index, ": field ", f, " is ", fields[f].dtype(), fields[f].shape(),
          ", that of the first of its batch ", first[f].dtype(), first[f].shape());
  }
}

// Field after field of the samples, one sample behind the other.
TensorList stacked(std::span<const TensorList> samples, std::span<const int64_t> indices, Device device) {
  for (size_t row = 0; row < samples.size(); ++row) check_alike(samples[row], samples[0], indices[row]);
  MemoryScope scope(MemoryCategory::data);
  TensorList batch;
  for (size_t f = 0; f < samples[0].size(); ++f) {
    Shape shape{int64_t(samples.size())};
    for (int64_t size : samples[0][f].shape()) shape.push_back(size);
    const Tensor all = Tensor::empty(shape, samples[0][f].dtype());
    const size_t bytes = size_t(samples[0][f].numel()) * size_of(all.dtype());
    for (size_t row = 0; row < samples.size() && bytes > 0; ++row) {
      const Tensor one = samples[row][f].detach().contiguous();
      std::memcpy(static_cast<char*>(all.view().data) + row * bytes, one.view().data, bytes);
    }
    batch.push_back(all.to(device));
  }
  return batch;
}

// While it lives, this thread draws from the beginning of a stream of its own.
class OwnDraws {
 public:
  explicit OwnDraws(uint64_t seed) { manual_seed(seed); }
  ~OwnDraws() { default_generator().set_state(before_); }
  OwnDraws(const OwnDraws&) = delete;

 private:
  const Generator::State before_ = default_generator().state();
};

}  // namespace

struct DataLoader::Work {
  Work(int64_t count, Read the_read, const DataLoaderOptions& the_options, Device the_device)
      : size(count),
        read(std::move(the_read)),
        options(checked(the_options)),
        device(the_device),
        order(count, options.seed),
        samples(size_t((options.prefetch + 1) * options.batch)),
        prefetcher(options.batch, options.workers, options.prefetch,
                   [this](const RowPlace& place) { fill(place); }) {}

  Sample sample_at(int64_t number, int64_t row) const {
    const int64_t position = number * options.batch + row;
    if (options.shuffle) return order.at(position);
    return {.epoch = position / size, .index = position % size, .key = uint64_t(position)};
  }
  TensorList read_sample(const Sample& sample) const {
    const auto words = philox_block(seed_for(Use::samples, options.seed), 0, sample.key);
    const OwnDraws draws(uint64_t(words[1]) << 32 | words[0]);
    return read(sample);
  }
  void fill(const RowPlace& place) {
    samples[size_t(place.slot * options.batch + place.row)] =
        read_sample(sample_at(share.number_of(place.batch), place.row));
  }

  const int64_t size;
  const Read read;
  const DataLoaderOptions options;
  const Device device;
  const Share share = share_of(options, "data_loader");  // threads work ahead over its batches alone
  const Order order;
  std::vector<TensorList> samples;  // by slot and row
  Prefetcher prefetcher;            // last: its threads use all above
};

DataLoader::DataLoader(int64_t size, Read read, const DataLoaderOptions& options, Device device)
    : work_(std::make_unique<Work>(size, std::move(read), options, device)) {}

DataLoader::~DataLoader() = default;

int64_t DataLoader::size() const { return work_->size; }
double DataLoader::waited_seconds() const { return work_->prefetcher.waited_seconds(); }
int64_t DataLoader::misses() const { return work_->prefetcher.misses(); }

TensorList DataLoader::batch(int64_t step, int64_t micro) {
  const DataLoaderOptions& options = work_->options;
  const int64_t slot = work_->prefetcher.take(work_->share.place_of(step, micro, "data_loader"));
  std::vector<int64_t> indices;
  for (int64_t row = 0; row < options.batch; ++row)
    indices.push_back(work_->sample_at(step * options.accumulate + micro, row).index);
  return stacked(std::span(work_->samples).subspan(size_t(slot * options.batch), size_t(options.batch)),
                 indices, work_->device);
}

TensorList DataLoader::rows(int64_t first, int64_t count) const {
  check(first >= 0 && first < work_->size && count > 0, "data_loader: ", count, " rows from ", first, ", of ",
        work_->size);
  std::vector<TensorList> samples;
  std::vector<int64_t> indices;
  for (int64_t index = first; index < std::min(first + count, work_->size); ++index) {
    samples.push_back(work_->read_sample({.index = index, .key = uint64_t(index)}));
    indices.push_back(index);
  }
  return stacked(samples, indices, work_->device);
}

}  // namespace reprise::data
