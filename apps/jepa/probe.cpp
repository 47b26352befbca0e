// reprise-jepa probe.
#include <fmt/core.h>

#include "reprise/apps/common/config_file.h"
#include "reprise/apps/common/logistic_regression.h"
#include "reprise/apps/common/memory_advice.h"
#include "reprise/apps/common/training_run.h"
#include "reprise/apps/jepa/model.h"
#include "reprise/apps/jepa/options.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/number_in.h"
#include "reprise/core/parallel.h"
#include "reprise/data/loader.h"
#include "reprise/nn/eval_scope.h"
#include "reprise/train/output.h"

namespace reprise::apps::jepa {
namespace {

struct Features {
  Tensor values;  // (N, width)
  Tensor labels;  // i64 (N)
};

// Of each image that can be read, the mean over its patches.
Features features_of(const Network& network, const data::Dataset& images, const data::Pipeline& pipeline,
                     int64_t batch_size, Device device) {
  data::EvaluationBatches batches(images, pipeline, batch_size, device);
  TensorList parts;
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < batches.batches(); ++i) {
    data::EvaluationBatches::Batch batch = batches.at(i);
    if (batch.indices.empty()) continue;
    const nn::EvalScope scope(*network.model);
    parts.push_back(with_evaluation_advice(
        *network.model, batch_size, device,
        [&](int64_t rows) {
          Shape shape = batch.images.shape();
          shape[0] = rows;
          return mean((*network.encoder)(zeros(shape, DType::f32, device)), {1});
        },
        [&] { return mean((*network.encoder)(batch.images), {1}); }));
    labels.insert(labels.end(), batch.labels.begin(), batch.labels.end());
  }
  for (const std::string& reason : batches.bad_images()) train::warn("warning: {}\n", reason);
  check(!parts.empty(), "probe: no image of the data can be read");
  return {.values = concat(parts, 0), .labels = Tensor::from(labels, {int64_t(labels.size())}, device)};
}

// Mean 0 and deviation 1 in training; a feature of ones for the bias.
struct Standard {
  explicit Standard(const Tensor& training)
      : shift(mean(training, {0}, true)), scale(rsqrt(variance(training, {0}, true) + 1e-12)) {}
  Tensor operator()(const Tensor& x) const {
    return concat({(x - shift) * scale, ones({x.size(0), 1}, x.dtype(), x.device())}, 1);
  }
  Tensor shift, scale;
};

struct Result {
  double top1 = 0, training_top1 = 0;
  int iterations = 0;
};

Result probe(const Network& network, const data::Dataset& training, const data::Dataset& test,
             const data::Pipeline& pipeline, const ProbeCommand& c, Device device) {
  Features seen = features_of(network, training, pipeline, c.batch, device);
  Features unseen = features_of(network, test, pipeline, c.batch, device);
  const Standard standard(seen.values);
  const Tensor inputs = standard(seen.values);
  Regression regression = logistic_regression(inputs, seen.labels, training.classes());
  return {.top1 = accuracy(regression, standard(unseen.values), unseen.labels),
          .training_top1 = accuracy(regression, inputs, seen.labels),
          .iterations = regression.iterations};
}

uint64_t seed_of(const std::string& run_folder) {
  std::map<std::string, std::string> config = read_config(run_folder + "/config.toml");
  return uint64_t(number_in<int64_t>(config["seed"]).value_or(0));
}

}  // namespace

int run_probe(const ProbeCommand& c) {
  if (c.threads > 0) set_num_threads(c.threads);
  const Device device = Device::parse(c.device);
  use_attention(c.attention, device);
  LoadedRun run = load_run(c.run, device);
  const train::PrecisionScope precision = precision_scope(c, device, run.folder);
  take_precision(*run.network.model, c, run.folder);
  const ImageData images = images_of_run(run.folder, c.data);
  const data::Dataset& test = images.test ? *images.test : *images.validation;
  const data::Pipeline pipeline = evaluation_pipeline(run.pretrained);
  if (!c.json)
    train::report("Linear probe of {}: {} images to learn from, {} to test with\n",
                  train::for_output(run.folder), images.train->size(), test.size());
  const Result trained = probe(run.network, *images.train, test, pipeline, c, device);
  manual_seed(seed_of(run.folder));  // as the run began
  const Network untrained_network = make_network(run.pretrained, device);
  take_precision(*untrained_network.model, c, run.folder);
  const Result untrained = probe(untrained_network, *images.train, test, pipeline, c, device);
  if (c.json) {
    train::print("{{\"images\": {}, \"top1\": {:.6f}, \"untrained_top1\": {:.6f}}}\n", test.size(),
                 trained.top1, untrained.top1);
    return 0;
  }
  for (auto [name, result] : {std::pair{"trained", trained}, {"untrained", untrained}})
    train::print("{:<9} encoder: top-1 {:.2f} % ({:.2f} % in training, {} iterations)\n", name,
                 100 * result.top1, 100 * result.training_top1, result.iterations);
  return 0;
}

}  // namespace reprise::apps::jepa
