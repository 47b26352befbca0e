#include "reprise/data/loader.h"

#include <algorithm>
#include <optional>

#include "reprise/core/error.h"
#include "reprise/core/memory.h"
#include "reprise/core/parallel.h"
#include "reprise/data/image_rows.h"
#include "reprise/data/order.h"
#include "reprise/data/prefetcher.h"
#include "reprise/data/row_slots.h"
#include "reprise/data/sample_reader.h"
#include "reprise/data/share.h"

namespace reprise::data {
namespace {

Shape shape_of(const Pipeline& pipeline, int64_t rows) {
  const PipelineOptions& o = pipeline.options();
  return {rows, o.height, o.width, o.channels};
}

std::span<uint8_t> row_of(std::span<uint8_t> rows, const Pipeline& pipeline, int64_t row) {
  size_t bytes = size_t(pipeline.row_bytes());
  return rows.subspan(size_t(row) * bytes, bytes);
}

const LoaderOptions& checked(const LoaderOptions& o, const Views& views) {
  check_views(views, "image_loader");
  check(o.batch > 0 && o.accumulate > 0, "image_loader: ", o.accumulate, " micro-batches of ", o.batch,
        " rows");
  check(!views.front()->options().mixing || o.batch % 2 == 0,
        "image_loader: pairs of rows are mixed, and a batch has ", o.batch, " rows");
  check(o.workers >= 0 && o.prefetch > 0, "image_loader: ", o.workers, " workers, ", o.prefetch,
        " batches ahead");
  return o;
}

}  // namespace

struct ImageLoader::Work {
  Work(const Dataset& the_dataset, const Views& the_views, const LoaderOptions& the_options,
       Device the_device)
      : dataset(the_dataset),
        views(the_views),
        options(checked(the_options, the_views)),
        device(the_device),
        order(the_dataset.size(), the_options.seed, the_options.repeats),
        reader(the_dataset, the_options.seed, the_options.bad_images),
        table(table_on(first_view(), the_device)),
        prefetcher(rows(), the_options.workers, the_options.prefetch,
                   [this](const RowPlace& place) { fill(place); }) {
    slots.emplace(prefetcher.slots(), shape_of(first_view(), rows()), device);
    scratch.resize(size_t(prefetcher.fillers()));
  }

  Order::Sample sample_at(int64_t batch, int64_t row) const {
    return order.at(batch * options.batch + row);  // batches of a step stand behind each other
  }
  void fill(const RowPlace& place) {
    const int64_t view = place.row / options.batch;
    const Pipeline& pipeline = *views[size_t(view)];
    reader.read(
        pipeline,
        sample_of_view(sample_at(share.number_of(place.batch), place.row % options.batch), views, view),
        row_of((*slots)[place.slot], pipeline, place.row), scratch[size_t(place.worker)]);
  }
  const Pipeline& first_view() const { return *views.front(); }           // what all have in common
  int64_t rows() const { return int64_t(views.size()) * options.batch; }  // of a batch
  Tensor targets_of(int64_t batch, const std::vector<Mix>& mixes) const;

  const Dataset& dataset;
  const Views views;
  const LoaderOptions options;
  const Device device;
  const Share share = share_of(options, "image_loader");  // threads work ahead over its batches alone
  Order order;
  SampleReader reader;
  const Tensor table;                     // f32 (C, 256), on the device
  std::optional<RowSlots> slots;          // u8 (V B, H, W, C); from when it is known how many
  std::vector<TransformScratch> scratch;  // by worker
  Prefetcher prefetcher;                  // last: its threads use all above
};

ImageLoader::ImageLoader(const Dataset& dataset, const Views& views, const LoaderOptions& options,
                         Device device)
    : work_(std::make_unique<Work>(dataset, views, options, device)) {}

ImageLoader::~ImageLoader() = default;

double ImageLoader::waited_seconds() const { return work_->prefetcher.waited_seconds(); }
int64_t ImageLoader::misses() const { return work_->prefetcher.misses(); }
std::vector<std::string> ImageLoader::bad_images() const { return work_->reader.bad_images(); }

ImageBatch ImageLoader::batch(int64_t step, int64_t micro) {
  Work& work = *work_;
  const LoaderOptions& options = work.options;
  MemoryScope scope(MemoryCategory::data);
  const int64_t number = step * options.accumulate + micro;
  work.slots->wait();  // the slot that was taken last is given to the threads now
  const int64_t slot = work.prefetcher.take(work.share.place_of(step, micro, "image_loader"));
  const Pipeline& pipeline = work.first_view();  // the only one, if there are effects
  const PipelineOptions& o = pipeline.options();
  RowEffects effects;
  if (o.erasing) {
    effects.noise = o.erasing->fill == ErasingFill::noise;
    for (int64_t row = 0; row < options.batch; ++row)
      effects.erasures.push_back(pipeline.erasure(options.seed, work.sample_at(number, row).key));
    effects.noise_seed = effects.erasures.front().seed;
  }
  const int64_t pairs = options.batch / 2, first_pair = micro * pairs;
  if (o.mixing)
    for (int64_t pair = 0; pair < pairs; ++pair)
      effects.mixes.push_back(pipeline.mix(options.seed, step, first_pair + pair));
  Tensor images = image_tensor(work.slots->on_device(slot), work.table, effects);
  work.slots->release();
  return {std::move(images), work.targets_of(number, effects.mixes)};
}

Tensor ImageLoader::Work::targets_of(int64_t batch, const std::vector<Mix>& mixes) const {
  std::vector<int64_t> labels;
  for (int64_t row = 0; row < options.batch; ++row)
    labels.push_back(dataset.label(sample_at(batch, row).index));
  if (mixes.empty()) return Tensor::from(labels, {options.batch}, device);
  const int64_t classes = dataset.classes();
  std::vector<float> targets(size_t(options.batch * classes));
  for (int64_t row = 0; row < options.batch; ++row)
    mixed_target(labels[size_t(row)], labels[size_t(partner_of(row))], mixes[size_t(row / 2)].lambda,
                 options.smoothing, std::span(targets).subspan(size_t(row * classes), size_t(classes)));
  return Tensor::from(targets, {options.batch, classes}, device);
}

EvaluationBatches::EvaluationBatches(const Dataset& dataset, const Views& views, int64_t batch, uint64_t seed,
                                     Device device)
    : dataset_(dataset), views_(views), batch_(batch), seed_(seed) {
  check_views(views, "evaluation_batches");
  check(batch > 0, "evaluation_batches: ", batch, " images per batch");
  table_ = table_on(*views.front(), device);
}

EvaluationBatches::Batch EvaluationBatches::at(int64_t number) {
  check(number >= 0 && number < batches(), "evaluation_batches: there is no batch ", number, " of ",
        batches());
  MemoryScope scope(MemoryCategory::data);
  const int64_t first = number * batch_, count = std::min(batch_, dataset_.size() - first);
  const auto views = int64_t(views_.size());
  const Pipeline& pipeline = *views_.front();
  Tensor rows = Tensor::empty(shape_of(pipeline, views * count), DType::u8);  // view after view
  const std::span<uint8_t> bytes(rows.data<uint8_t>(), size_t(rows.numel()));
  std::vector<std::string> reasons(static_cast<size_t>(count));
  parallel_for(count, 1, [&](int64_t image, int64_t) {
    TransformScratch scratch;
    const Order::Sample sample{.index = first + image, .key = uint64_t(first + image)};
    try {
      for (int64_t v = 0; v < views; ++v)
        views_[size_t(v)]->read(dataset_, sample_of_view(sample, views_, v), seed_,
                                row_of(bytes, pipeline, v * count + image), scratch);
    } catch (const Error& error) { reasons[size_t(image)] = error.what(); }
  });
  Batch batch;
  for (int64_t image = 0; image < count; ++image) {
    const std::string& reason = reasons[size_t(image)];
    if (!reason.empty()) {
      if (bad_indices_.insert(first + image).second) bad_images_.push_back(reason);
      continue;
    }
    batch.indices.push_back(first + image);
    batch.labels.push_back(dataset_.label(first + image));
  }
  if (batch.indices.empty()) return batch;
  int64_t kept = 0;  // rows, each at or before its old place
  for (int64_t v = 0; v < views; ++v)
    for (int64_t index : batch.indices) {
      auto from = row_of(bytes, pipeline, v * count + index - first);
      std::copy(from.begin(), from.end(), row_of(bytes, pipeline, kept++).begin());
    }
  batch.images = image_tensor(rows.slice(0, 0, kept), table_);
  return batch;
}

}  // namespace reprise::data
