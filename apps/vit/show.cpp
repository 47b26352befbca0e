// reprise-vit show: rows of batches as training sees them, from the loader that training has.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "reprise/apps/common/images.h"
#include "reprise/apps/vit/options.h"
#include "reprise/apps/vit/pipelines.h"
#include "reprise/data/loader.h"
#include "reprise/data/transforms/resize.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/file.h"
#include "reprise/io/images/png.h"
#include "reprise/plot/image_plot.h"
#include "reprise/plot/page.h"
#include "reprise/plot/svg.h"
#include "reprise/train/output.h"

namespace reprise::apps::vit {
namespace {

constexpr int64_t shown_samples = 12;

// A sample and where a run has it.
struct Shown {
  data::Order::Sample sample;
  int64_t step = 0, micro = 0, row = 0;
};

class Samples {
 public:
  Samples(const ShowCommand& c, const data::Dataset& images, const data::Pipeline& pipeline)
      : c_(c),
        images_(images),
        pipeline_(pipeline),
        order_(images.size(), uint64_t(c.seed), c.repeats),
        loader_(images, pipeline,
                {.batch = c.batch,
                 .accumulate = c.accumulate,
                 .seed = uint64_t(c.seed),
                 .repeats = c.repeats,
                 .workers = 0,
                 .bad_images =
                     c.images.bad_images == "skip" ? data::BadImages::substitute : data::BadImages::error}) {}

  // Those of the image that was asked for, or the first ones of the epoch.
  std::vector<Shown> chosen() const {
    const int64_t count = order_.positions_per_epoch(), first = c_.epoch * count;
    std::vector<Shown> shown;
    for (int64_t p = first; p < first + (c_.index < 0 ? std::min(count, shown_samples) : count); ++p) {
      const data::Order::Sample sample = order_.at(p);
      const int64_t number = p / c_.batch;  // of the micro-batch in the run
      if (c_.index < 0 || sample.index == c_.index)
        shown.push_back({sample, number / c_.accumulate, number % c_.accumulate, p % c_.batch});
    }
    return shown;
  }

  // The file's image, as people see it, no larger than the model's.
  io::Image original(const Shown& shown) const {
    const data::PipelineOptions& o = pipeline_.options();
    io::Image image;
    data::TransformScratch scratch;
    data::Draws none(0, 0, 0, 0);
    images_.read(shown.sample.index, {.channels = o.channels, .apply_exif = o.apply_exif}, image);
    if (std::min(image.height, image.width) > o.height)
      data::Resize({.size = o.height}).apply(image, none, scratch);
    return image;
  }

  // The row of the batch, with what normalising did to its values undone; noise is cut off at black and white.
  io::Image seen(const Shown& shown) {
    const data::PipelineOptions& o = pipeline_.options();
    const Tensor row = loader_.batch(shown.step, shown.micro).images.slice(0, shown.row, shown.row + 1);
    const std::vector<float> values = row.to_vector<float>();  // (C, H, W)
    io::Image image;
    image.resize(o.height, o.width, o.channels);
    const auto channels = size_t(o.channels), pixels = values.size() / channels;
    for (size_t c = 0; c < channels; ++c)
      for (size_t i = 0; i < pixels; ++i) {
        double value = double(values[c * pixels + i]) * o.deviation[c] + o.mean[c];
        image.pixels[i * channels + c] = uint8_t(std::clamp(std::nearbyint(255 * value), 0.0, 255.0));
      }
    return image;
  }

  // What becomes of the row after its transforms.
  std::string effects(const Shown& shown) const {
    auto box_text = [](const io::Box& box) {
      return fmt::format("{} x {} pixels at ({}, {})", box.height, box.width, box.top, box.left);
    };
    std::string text;
    const io::Box erased = pipeline_.erasure(uint64_t(c_.seed), shown.sample.key).box;
    if (erased.height > 0) text += ", erased: " + box_text(erased);
    if (!pipeline_.options().mixing) return text;
    const int64_t row = shown.micro * c_.batch + shown.row;
    const data::Mix mix = pipeline_.mix(uint64_t(c_.seed), shown.step, row / 2);
    if (mix.lambda == 1) return text;
    const int64_t rows = c_.batch * c_.accumulate, position = shown.step * rows + data::partner_of(row);
    text += fmt::format(", {:.3f} of it and the rest of image {}", mix.lambda, order_.at(position).index);
    return text + (mix.cutmix ? ", whose are " + box_text(mix.box) : "");
  }

 private:
  const ShowCommand& c_;
  const data::Dataset& images_;
  const data::Pipeline& pipeline_;
  data::Order order_;
  data::ImageLoader loader_;
};

}  // namespace

int run_show(const ShowCommand& c) {
  const ImageData images = load_images(c.images, uint64_t(c.seed));
  const data::Dataset& set = *images.train;
  check(c.index < set.size(), "--index ", c.index, ": there are ", set.size(), " images to train on");
  data::Statistics statistics = pixel_statistics(c.images.data, c.channels);
  Classifier classifier;
  classifier.image = c.image;
  classifier.mean = statistics.mean;
  classifier.deviation = statistics.deviation;
  classifier.apply_exif = c.images.exif == "apply";
  const data::Pipeline pipeline = training_pipeline(classifier, c.recipe, decoding_of(c.images));
  train::print("Pipeline: {}\n", pipeline.text());
  Samples samples(c, set, pipeline);
  std::vector<plot::Picture> pictures;
  for (const Shown& shown : samples.chosen()) {
    const int64_t index = shown.sample.index;
    const std::string& name = set.class_names()[size_t(set.label(index))];
    pictures.push_back({io::encode_png(samples.original(shown)), {fmt::format("image {}", index), name}});
    pictures.push_back({io::encode_png(samples.seen(shown)),
                        {fmt::format("epoch {}", c.epoch),
                         fmt::format("step {}, row {}", shown.step, shown.micro * c.batch + shown.row)}});
    train::print("Image {} ({}), {}: epoch {}, step {}, row {}{}\n", index,
                 train::for_output(set.name(index)), train::for_output(name), c.epoch, shown.step,
                 shown.micro * c.batch + shown.row, samples.effects(shown));
  }
  io::make_folders_durable(c.out);
  const std::string body = "<section>" + plot::draw_pictures(pictures, 6, 150) + "</section>\n";
  io::write_file(c.out + "/samples.html", plot::page("What training sees", pipeline.text(), body));
  train::print("Page: {}/samples.html\n", train::for_output(c.out));
  return 0;
}

}  // namespace reprise::apps::vit
