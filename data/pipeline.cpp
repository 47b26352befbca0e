#include "reprise/data/pipeline.h"

#include <algorithm>

#include "reprise/kernels/image/image_batch.h"

namespace reprise::data {

Pipeline::Pipeline(PipelineOptions options) : options_(std::move(options)) {
  const auto channels = size_t(options_.channels);
  check(options_.height > 0 && options_.width > 0 && (channels == 1 || channels == 3),
        "pipeline: rows must have a size and 1 or 3 channels, got (", options_.height, ", ", options_.width,
        ", ", channels, ")");
  check(options_.mean.size() == channels && options_.deviation.size() == channels, "pipeline: ", channels,
        " channels, but ", options_.mean.size(), " means and ", options_.deviation.size(), " deviations");
  for (double deviation : options_.deviation)
    check(deviation > 0, "pipeline: a deviation is not positive: ", deviation);
}

void Pipeline::append(std::unique_ptr<Transform> transform) {
  for (const auto& other : transforms_)
    check(transform->decision() == Decision::none || other->decision() != transform->decision(),
          "pipeline: two transforms take the same draws: ", other->text(), " and ", transform->text());
  transforms_.push_back(std::move(transform));
}

void Pipeline::read(const Dataset& dataset, const Order::Sample& sample, uint64_t seed,
                    std::span<uint8_t> row, TransformScratch& scratch) const {
  invariant(int64_t(row.size()) == row_bytes(), "pipeline: a row of ", row.size(), " bytes, ", row_bytes(),
            " wanted");
  // A crop draws its box once the decoder knows the size; it goes on when its part is there.
  struct Cropping {
    const Crop* crop;
    Draws draws;
    Part part{};
  } cropping{transforms_.empty() ? nullptr : dynamic_cast<const Crop*>(transforms_[0].get()),
             sample_draws(seed, sample.key, int(Decision::crop))};
  io::DecodeOptions decode{.channels = options_.channels, .apply_exif = options_.apply_exif};
  if (cropping.crop)
    decode.region = [&cropping](int64_t height, int64_t width) {
      cropping.part = {cropping.crop->box(height, width, cropping.draws), height, width};
      return cropping.part.box;
    };
  if (cropping.crop && options_.decoding == Decoding::fast) decode.target = cropping.crop->target();
  io::Image& image = scratch.decoded;
  dataset.read(sample.index, decode, image);
  try {
    if (cropping.crop) cropping.crop->apply_to_part(cropping.part, image, scratch);
    apply_from(cropping.crop ? 1 : 0, image, seed, sample.key, scratch);
  } catch (const Error& error) { fail(dataset.name(sample.index), ": ", error.what()); }
  std::copy(image.pixels.begin(), image.pixels.end(), row.begin());
}

void Pipeline::transform(io::Image& image, uint64_t seed, uint64_t key, TransformScratch& scratch) const {
  apply_from(0, image, seed, key, scratch);
}

void Pipeline::apply_from(size_t first, io::Image& image, uint64_t seed, uint64_t key,
                          TransformScratch& scratch) const {
  for (size_t i = first; i < transforms_.size(); ++i) {
    Draws draws = sample_draws(seed, key, int(transforms_[i]->decision()));
    transforms_[i]->apply(image, draws, scratch);
  }
  check(
      image.height == options_.height && image.width == options_.width && image.channels == options_.channels,
      "pipeline: an image became (", image.height, ", ", image.width, ", ", image.channels, "), wanted (",
      options_.height, ", ", options_.width, ", ", options_.channels, ")");
}

Erasure Pipeline::erasure(uint64_t seed, uint64_t key) const {
  if (!options_.erasing) return {};
  const Draws draws = sample_draws(seed, key, int(Decision::erasing));
  return {erased_box(*options_.erasing, options_.height, options_.width, draws), seed_for(Use::noise, seed),
          key};
}

Mix Pipeline::mix(uint64_t seed, int64_t step, int64_t pair) const {
  return options_.mixing ? mix_of(*options_.mixing, options_.height, options_.width, seed, step, pair)
                         : Mix{};
}

std::vector<float> Pipeline::table() const { return kernels::image_table(options_.mean, options_.deviation); }

std::string Pipeline::text() const {
  std::string text;
  for (const auto& transform : transforms_) text += transform->text() + ", ";
  text += "normalize";
  for (double mean : options_.mean) text += " " + shortest(mean);
  text += " by";
  for (double deviation : options_.deviation) text += " " + shortest(deviation);
  if (options_.erasing) text += ", " + data::text(*options_.erasing);
  if (options_.mixing) text += ", " + data::text(*options_.mixing);
  if (options_.decoding == Decoding::fast) text += ", decoded fast";
  return text + (options_.apply_exif ? "" : ", EXIF ignored");
}

}  // namespace reprise::data
