// DataLoader: the batches of a run from samples that are tensors, made ahead by threads. As of images (data/loader.h), a batch is a
// function of the seed and the step alone: no number of workers, depth, rank or restart changes a bit, and resuming needs the
// step, nothing else.
//
//   struct Spirals {                                  // anything with a size and samples
//     int64_t size() const;
//     std::pair<rp::Tensor, rp::Tensor> operator[](int64_t index) const;
//   };
//   rp::data::DataLoader loader(spirals, {.batch = 32, .seed = 1}, device);
//   for (int64_t step = 0; step < steps; ++step) {
//     const rp::TensorList batch = loader.batch(step);  // x (32, ...), y (32, ...)
//
// (PyTorch: DataLoader over a map-style dataset, whose last batch of an epoch is short or left out; here a batch may straddle
// two epochs, nothing is dropped and nothing seen twice within one.)
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <utility>

#include "reprise/core/tensor.h"
#include "reprise/data/order.h"

namespace reprise::data {

/// What a step's batches are, which of them are asked for here, and the threads that make them.
struct DataLoaderOptions {
  int64_t batch = 64;       ///< samples per micro-batch
  int64_t accumulate = 1;   ///< micro-batches per step
  int64_t share_begin = 0;  ///< the first of those that are asked for here: other ranks take the others
  int64_t share = 0;        ///< how many follow; 0: all of them
  uint64_t seed = 0;        ///< of the order
  bool shuffle = true;      ///< each epoch in an order of its own; else 0, 1, 2, ...
  int64_t workers = 1;      ///< threads; 0: the caller's pool
  int64_t prefetch = 2;     ///< batches they work ahead
};

/// @{
/// The tensors of a sample, each on the CPU and of one shape and dtype in all samples.
inline TensorList fields_of(Tensor sample) { return {std::move(sample)}; }
inline TensorList fields_of(std::pair<Tensor, Tensor> sample) {
  return {std::move(sample.first), std::move(sample.second)};
}
inline TensorList fields_of(TensorList sample) { return sample; }
/// @}

/// What has samples: a size, and a Tensor, a pair of them or a TensorList at each index below it.
template <class T>
concept IndexableSource = requires(const T& source, int64_t index) {
  { source.size() } -> std::convertible_to<int64_t>;
  { fields_of(source[index]) } -> std::same_as<TensorList>;
};

/// Batches of a run from samples that are tensors, on a device. A batch is a function of the seed and the step alone.
class DataLoader {
 public:
  /// The fields of a sample. What it draws by `rand` and its like is a function of the loader's seed and `key`, which is
  /// another number for each epoch and index, whichever thread reads it.
  using Read = std::function<TensorList(const Order::Sample& sample)>;

  /// Of `size` samples. `read` is called by several threads at once: the workers, and who calls `rows`. Error if an
  /// option does not fit.
  DataLoader(int64_t size, Read read, const DataLoaderOptions& options, Device device = {});
  /// `source` must outlive it; the same is true of its [].
  template <IndexableSource Source>
  DataLoader(const Source& source, const DataLoaderOptions& options, Device device = {})
      : DataLoader(
            int64_t(source.size()),
            [&source](const Order::Sample& sample) { return fields_of(source[sample.index]); }, options,
            device) {}
  template <IndexableSource Source>
  DataLoader(const Source&& source, const DataLoaderOptions& options,
             Device device = {}) = delete;  ///< it would be gone
  /// Ends its threads, each after the sample it is at.
  ~DataLoader();

  /// Micro-batch `micro` of a step, one of the share: each field of its samples, stacked, on the device. Position
  /// step x rows per step + row of the run gives each row. What `read` throws comes out here. Error, naming the sample,
  /// where its fields are not those of the batch's first.
  TensorList batch(int64_t step, int64_t micro = 0);

  /// Samples `first` to `first + count - 1` as they stand, fewer at the end: for evaluation, with the same draws each
  /// time. Nothing is read ahead.
  TensorList rows(int64_t first, int64_t count) const;

  int64_t size() const;           ///< of the samples
  double waited_seconds() const;  ///< for samples, so far
  int64_t misses() const;         ///< batches asked for out of order

 private:
  struct Work;  // what threads share
  std::unique_ptr<Work> work_;
};

}  // namespace reprise::data
