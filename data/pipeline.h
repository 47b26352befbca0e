// Pipeline: what happens to a sample, from the dataset to a row of a batch of u8, and what the batch's kernel does
// to the rows afterwards: normalising, erasing, mixing.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "reprise/data/dataset.h"
#include "reprise/data/erasing.h"
#include "reprise/data/mixing.h"
#include "reprise/data/order.h"
#include "reprise/data/transform.h"

namespace reprise::data {

/// How a JPEG of which a first crop resamples a part is decoded: with all its pixels, or at 1/2 or 1/4 of its size where the
/// part stays twice what it becomes, in less time and with other values.
enum class Decoding { exact, fast };

/// The rows that a pipeline makes, and what becomes of them on the device.
struct PipelineOptions {
  int64_t height = 224;                              ///< of a row, in pixels
  int64_t width = 224;                               ///< of a row, in pixels
  int64_t channels = 3;                              ///< of a row: 1 (gray) or 3
  std::vector<double> mean = {0.485, 0.456, 0.406};  ///< a number per channel: ImageNet's
  /// What pixels in [0, 1], less `mean`, are divided by, a number per channel: ImageNet's.
  std::vector<double> deviation = {0.229, 0.224, 0.225};
  std::optional<ErasingOptions> erasing{};  ///< of a box of a row; empty: none
  std::optional<MixingOptions> mixing{};    ///< of pairs of rows; empty: none
  bool apply_exif = true;                   ///< turns images as their EXIF orientation says
  Decoding decoding = Decoding::exact;      ///< of JPEGs, if the first transform is a Crop with a target
};

/// What is erased of a row of a batch. Element i of the box, in the order (channel, row, column), is the normal
/// number i of the sequence (seed, offset).
struct Erasure {
  io::Box box{};        ///< of height 0: nothing
  uint64_t seed = 0;    ///< the run's, for noise
  uint64_t offset = 0;  ///< the sample's key
};

/// A sample's way. Thread-safe once all transforms are added: each thread has a scratch of its own.
class Pipeline {
 public:
  /// Without transforms yet. Error unless rows have a size and 1 or 3 channels, mean and deviation have a number per
  /// channel, and deviations are above 0.
  explicit Pipeline(PipelineOptions options);

  /// Adds a transform behind the others. Error if one before it decides the same by draws.
  template <std::derived_from<Transform> T>
  Pipeline& add(T transform) {
    append(std::make_unique<T>(std::move(transform)));
    return *this;
  }

  const PipelineOptions& options() const { return options_; }  ///< as given
  /// Bytes of a row: height x width x channels.
  int64_t row_bytes() const { return options_.height * options_.width * options_.channels; }

  /// Reads and transforms a sample into `row`, u8 (height, width, channels). If the first transform is a Crop, only
  /// its part is decoded. Error naming the image if it cannot be read or ends with another shape.
  void read(const Dataset& dataset, const Order::Sample& sample, uint64_t seed, std::span<uint8_t> row,
            TransformScratch& scratch) const;
  /// The transforms alone, for an image that no dataset has. Error if it ends with another shape.
  void transform(io::Image& image, uint64_t seed, uint64_t key, TransformScratch& scratch) const;

  /// What is erased of the sample of this key; nothing without erasing in the options.
  Erasure erasure(uint64_t seed, uint64_t key) const;
  /// Without mixing in the options: a lambda of 1.
  Mix mix(uint64_t seed, int64_t step, int64_t pair) const;

  /// What each byte of each channel becomes, (channels, 256): `kernels::image_table`.
  std::vector<float> table() const;
  /// All of it in one line: the run's description, which resuming compares.
  std::string text() const;

 private:
  void append(std::unique_ptr<Transform> transform);
  void apply_from(size_t first, io::Image& image, uint64_t seed, uint64_t key,
                  TransformScratch& scratch) const;

  PipelineOptions options_;
  std::vector<std::unique_ptr<Transform>> transforms_;
};

}  // namespace reprise::data
