#include "reprise/data/loader.h"

#include <algorithm>

#include "reprise/core/error.h"
#include "reprise/core/memory.h"
#include "reprise/core/parallel.h"
#include "reprise/data/image_rows.h"
#include "reprise/data/order.h"
#include "reprise/data/prefetcher.h"
#include "reprise/data/sample_reader.h"

namespace reprise::data {
namespace {

Tensor rows_for(const Pipeline& pipeline, int64_t rows) {
  const PipelineOptions& o = pipeline.options();
  return Tensor::empty({rows, o.height, o.width, o.channels}, DType::u8);
}

std::span<uint8_t> row_of(const Tensor& rows, const Pipeline& pipeline, int64_t row) {
  size_t bytes = size_t(pipeline.row_bytes());
  return {rows.data<uint8_t>() + size_t(row) * bytes, bytes};
}

const LoaderOptions& checked(const LoaderOptions& o, const Pipeline& pipeline) {
  check(o.batch > 0 && o.accumulate > 0, "image_loader: ", o.accumulate, " micro-batches of ", o.batch,
        " rows");
  check(!pipeline.options().mixing || o.batch % 2 == 0,
        "image_loader: pairs of rows are mixed, and a batch has ", o.batch, " rows");
  check(o.workers >= 0 && o.prefetch > 0, "image_loader: ", o.workers, " workers, ", o.prefetch,
        " batches ahead");
  return o;
}

}  // namespace

struct ImageLoader::Work {
  Work(const Dataset& the_dataset, const Pipeline& the_pipeline, const LoaderOptions& the_options,
       Device the_device)
      : dataset(the_dataset),
        pipeline(the_pipeline),
        options(checked(the_options, the_pipeline)),
        device(the_device),
        order(the_dataset.size(), the_options.seed, the_options.repeats),
        reader(the_dataset, the_pipeline, the_options.seed, the_options.bad_images),
        table(table_on(the_pipeline, the_device)),
        prefetcher(the_options.batch, the_options.workers, the_options.prefetch,
                   [this](const RowPlace& place) { fill(place); }) {
    for (int64_t slot = 0; slot < prefetcher.slots(); ++slot)
      slots.push_back(rows_for(pipeline, options.batch));
    scratch.resize(size_t(prefetcher.fillers()));
  }

  Order::Sample sample_at(int64_t batch, int64_t row) const {
    return order.at(batch * options.batch + row);  // batches of a step stand behind each other
  }
  void fill(const RowPlace& place) {
    reader.read(sample_at(place.batch, place.row), row_of(slots[size_t(place.slot)], pipeline, place.row),
                scratch[size_t(place.worker)]);
  }
  Tensor targets_of(int64_t batch, const std::vector<Mix>& mixes) const;

  const Dataset& dataset;
  const Pipeline& pipeline;
  const LoaderOptions options;
  const Device device;
  Order order;
  SampleReader reader;
  const Tensor table;                     // f32 (C, 256), on the device
  std::vector<Tensor> slots;              // u8 (B, H, W, C), in host memory
  std::vector<TransformScratch> scratch;  // by worker
  Prefetcher prefetcher;                  // last: its threads use all above
};

ImageLoader::ImageLoader(const Dataset& dataset, const Pipeline& pipeline, const LoaderOptions& options,
                         Device device)
    : work_(std::make_unique<Work>(dataset, pipeline, options, device)) {}

ImageLoader::~ImageLoader() = default;

double ImageLoader::waited_seconds() const { return work_->prefetcher.waited_seconds(); }
int64_t ImageLoader::misses() const { return work_->prefetcher.misses(); }
std::vector<std::string> ImageLoader::bad_images() const { return work_->reader.bad_images(); }

ImageBatch ImageLoader::batch(int64_t step, int64_t micro) {
  Work& work = *work_;
  const LoaderOptions& options = work.options;
  check(step >= 0 && micro >= 0 && micro < options.accumulate, "image_loader: micro-batch ", micro, " of ",
        options.accumulate, " in step ", step);
  MemoryScope scope(MemoryCategory::data);
  const int64_t number = step * options.accumulate + micro;
  const Tensor& rows = work.slots[size_t(work.prefetcher.take(number))];
  const PipelineOptions& o = work.pipeline.options();
  RowEffects effects;
  if (o.erasing) {
    effects.noise = o.erasing->fill == ErasingFill::noise;
    for (int64_t row = 0; row < options.batch; ++row)
      effects.erasures.push_back(work.pipeline.erasure(options.seed, work.sample_at(number, row).key));
    effects.noise_seed = effects.erasures.front().seed;
  }
  const int64_t pairs = options.batch / 2, first_pair = micro * pairs;
  if (o.mixing)
    for (int64_t pair = 0; pair < pairs; ++pair)
      effects.mixes.push_back(work.pipeline.mix(options.seed, step, first_pair + pair));
  return {image_tensor(rows, work.table, effects), work.targets_of(number, effects.mixes)};
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

EvaluationBatches::EvaluationBatches(const Dataset& dataset, const Pipeline& pipeline, int64_t batch,
                                     Device device)
    : dataset_(dataset), pipeline_(pipeline), batch_(batch), table_(table_on(pipeline, device)) {
  check(batch > 0, "evaluation_batches: ", batch, " images per batch");
}

EvaluationBatches::Batch EvaluationBatches::at(int64_t number) {
  check(number >= 0 && number < batches(), "evaluation_batches: there is no batch ", number, " of ",
        batches());
  MemoryScope scope(MemoryCategory::data);
  const int64_t first = number * batch_, count = std::min(batch_, dataset_.size() - first);
  Tensor rows = rows_for(pipeline_, count);
  std::vector<std::string> reasons(static_cast<size_t>(count));
  parallel_for(count, 1, [&](int64_t row, int64_t) {
    TransformScratch scratch;
    try {
      pipeline_.read(dataset_, {.index = first + row}, 0, row_of(rows, pipeline_, row), scratch);
    } catch (const Error& error) { reasons[size_t(row)] = error.what(); }
  });
  Batch batch;
  for (int64_t row = 0; row < count; ++row) {
    if (!reasons[size_t(row)].empty()) {
      bad_images_.push_back(reasons[size_t(row)]);
      continue;
    }
    auto from = row_of(rows, pipeline_, row);
    std::copy(from.begin(), from.end(), row_of(rows, pipeline_, int64_t(batch.indices.size())).begin());
    batch.indices.push_back(first + row);
    batch.labels.push_back(dataset_.label(first + row));
  }
  if (batch.indices.empty()) return batch;
  batch.images = image_tensor(rows.slice(0, 0, int64_t(batch.indices.size())), table_);
  return batch;
}

}  // namespace reprise::data
