// reprise-jepa train.
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "reprise/apps/common/training_run.h"
#include "reprise/apps/jepa/model.h"
#include "reprise/apps/jepa/options.h"
#include "reprise/autograd/ops.h"
#include "reprise/data/masks.h"
#include "reprise/data/order.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/ema.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/interrupt.h"
#include "reprise/train/option_error.h"
#include "reprise/train/output.h"
#include "reprise/train/run_folder.h"

namespace reprise::apps::jepa {
namespace {

// What the weights and the optimizer's state are made for.
const std::set<std::string> fixed_options = {
    "--model", "--image",           "--channels",         "--patch",           "--width",    "--layers",
    "--heads", "--predictor-width", "--predictor-layers", "--predictor-heads", "--init-from"};

// Features that differ less than this between images tell nothing of them.
constexpr double collapsed = 0.05;

void tell(const std::string& text) { train::warn("warning: {}\n", text); }

nn::JepaOptions model_options(const TrainCommand& c) {
  nn::JepaOptions o = c.model;
  o.recompute = recompute_strategy(c);
  if (!c.recompute_predictor.empty()) {
    o.recompute_predictor = parse_strategy(c.recompute_predictor);
    check(o.recompute_predictor.kind != RecomputeStrategy::Kind::automatic,
          "--recompute-predictor auto: a budget is planned for the encoder alone, by --recompute auto");
  } else if (o.recompute.kind != RecomputeStrategy::Kind::automatic) {
    o.recompute_predictor = o.recompute;
  }
  return o;
}

Pretrained pretrained_of(const TrainCommand& c) {
  data::Statistics statistics = pixel_statistics(c.images.data, c.model.channels);
  return {.model = model_options(c),
          .mean = statistics.mean,
          .deviation = statistics.deviation,
          .apply_exif = c.images.exif == "apply"};
}

data::MaskOptions mask_options(const TrainCommand& c) {
  const int64_t side = c.model.image / c.model.patch;
  return {.rows = side, .columns = side, .targets = c.targets, .least_context = c.least_context};
}

void set_schedules(TrainCommand& c) {
  optim::Schedule& schedule = c.trainer.schedule;
  if (schedule.warmup == 0) schedule.start_lr = 0;  // nothing begins with it
  const double first = c.weight_decay, last = c.final_weight_decay;
  check((first > 0) == (last > 0), "--weight-decay ", first, " and --final-weight-decay ", last,
        ": give 0 for both, or for neither");
  if (first > 0)
    c.trainer.weight_decay = optim::Schedule{.lr = first, .min_lr = last, .steps = schedule.steps};
}

void print_header(const TrainCommand& c, const nn::Jepa& model, const ImageData& images, Device device,
                  int64_t first_step) {
  const nn::JepaOptions& o = model.options();
  train::report(
      "I-JEPA: {} x {} pixels in patches of {}; encoder of {} layers, {} heads, width {}: {:.2f} M "
      "parameters; "
      "predictor of {} layers, width {}: {:.2f} M\n",
      o.image, o.image, o.patch, o.layers, o.heads, o.width, double(model.encoder.parameter_count()) / 1e6,
      o.predictor_layers, o.predictor_width, double(model.predictor.parameter_count()) / 1e6);
  train::report("Data: {}: {} images to train on, {} held out; labels are not looked at\n",
                train::for_output(c.images.data), images.train->size(), images.validation->size());
  if (model.predictor.predictor_blocks.strategy() != RecomputeStrategy())
    train::report("Recompute of the predictor: {}\n", to_string(model.predictor.predictor_blocks.strategy()));
  print_run(c, model.encoder.blocks, device, fmt::format("{} images", c.batch * c.trainer.accumulate),
            first_step);
}

// The model of a run and what trains it. The images must outlive it.
struct Training {
  // With --batch auto it sets the batch of the options.
  Training(TrainCommand& the_options, const Pretrained& pretrained, const ImageData& the_images,
           Device the_device, bool goes_on)
      : c(the_options),
        images(the_images),
        device(the_device),
        pipeline(training_pipeline(pretrained)),
        evaluation(evaluation_pipeline(pretrained)),
        masks(mask_options(c), uint64_t(c.seed)),
        order(the_images.train->size(), uint64_t(c.seed)),
        model(pretrained.model, device),
        optimizer(optim::decay_matrices(model, c.trainer.schedule.lr, c.weight_decay),
                  {.beta1 = c.beta1, .beta2 = c.beta2}),
        target(model.encoder.named_parameters(), model.target_encoder.named_parameters(),
               [this](int64_t update) { return momentum(update); }) {
    if (!c.init_from.empty() && !goes_on)
      train::under_option("--init-from", [&] { load_weights(model, c.init_from); });
    if (!c.trainer.resume) report_memory(the_options, device, trained_model());
    loader.emplace(*the_images.train, pipeline, loader_options(c), device);
  }

  // A step's masks differ in size from the next one's; these are the first step's.
  TrainedModel trained_model() {
    auto loss_of = [this](int64_t rows) {
      std::vector<uint64_t> keys = keys_of(0);
      keys.resize(std::max(keys.size(), size_t(rows)), keys.front());
      const data::BatchMasks mask = masks.batch(0, keys, 0, rows, device);
      const nn::JepaOptions& o = model.options();
      const Tensor pixels = zeros({rows, o.channels, o.image, o.image}, DType::f32, device);
      return model.loss(pixels, model.target_features(pixels), mask.context, mask.targets);
    };
    auto set_recompute = [this](const RecomputeStrategy& strategy) {
      model.encoder.blocks.set_recompute(strategy);
      const bool automatic = strategy.kind == RecomputeStrategy::Kind::automatic;  // plans the encoder alone
      if (c.recompute_predictor.empty())
        model.predictor.predictor_blocks.set_recompute(automatic ? RecomputeStrategy() : strategy);
    };
    return {.model = model,
            .optimizer = optimizer,
            .set_recompute = set_recompute,
            .row = "image",
            .loss = loss_of};
  }

  double momentum(int64_t update) const {
    return c.ema + (1 - c.ema) * double(update) / double(c.trainer.schedule.steps);
  }

  // Keys of all images of a step, on any rank: the shortest context of all decides.
  std::vector<uint64_t> keys_of(int64_t step) const {
    const int64_t rows = c.batch * c.trainer.accumulate;
    std::vector<uint64_t> keys;
    for (int64_t row = 0; row < rows; ++row) keys.push_back(order.at(step * rows + row).key);
    return keys;
  }

  Tensor loss(int64_t step, int64_t micro) {
    Tensor pixels = loader->batch(step, micro).images;
    data::BatchMasks mask = masks.batch(step, keys_of(step), micro * c.batch, c.batch, device);
    Tensor features = model.target_features(pixels);
    if (micro == 0) std_of_features = nn::feature_std(features);
    return model.loss(pixels, features, mask.context, mask.targets);
  }

  // Over the images held out, with masks that are the same at each evaluation.
  train::Validation validation(int64_t most_batches) {
    EvalScope scope(model);
    data::EvaluationBatches all(*images.validation, evaluation, c.batch, device);
    const int64_t used = most_batches > 0 ? std::min(most_batches, all.batches()) : all.batches();
    double total = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < used; ++i) {
      train::stop_if_interrupted();
      data::EvaluationBatches::Batch batch = all.at(i * all.batches() / used);
      const auto rows = int64_t(batch.indices.size());
      if (rows == 0) continue;
      const std::vector<uint64_t> keys(batch.indices.begin(), batch.indices.end());
      data::BatchMasks mask = masks.batch(i, keys, 0, rows, device);
      Tensor features = model.target_features(batch.images);
      total += double(rows) * model.loss(batch.images, features, mask.context, mask.targets).item();
      count += rows;
    }
    return {count > 0 ? total / double(count) : 0};
  }

  std::vector<std::pair<std::string, double>> step_values() {
    if (std_of_features < collapsed && c.batch > 1 && !std::exchange(warned, true))
      train::warn(
          "{}warning: the features of all images are nearly the same (feature_std {:.4f}, below {}): "
          "the encoder may have collapsed\n",
          train::is_terminal() ? "\n" : "", std_of_features, collapsed);
    const double waited = loader->waited_seconds();
    return {{"data_seconds", waited - std::exchange(waited_before, waited)},
            {"feature_std", std_of_features}};
  }

  const TrainCommand& c;
  const ImageData& images;
  const Device device;
  const data::Pipeline pipeline, evaluation;
  const data::Masks masks;
  const data::Order order;
  nn::Jepa model;
  optim::AdamW optimizer;
  optim::Ema target;
  std::optional<data::ImageLoader> loader{};  // once its batch is known
  double std_of_features = 0, waited_before = 0;
  bool warned = false;
};

train::Task task_of(Training& t, const Pretrained& pretrained) {
  const TrainCommand& c = t.c;
  train::Task task{.model = t.model, .optimizer = t.optimizer};
  task.description = describe(pretrained);
  task.description["pipeline"] = t.pipeline.text();
  task.description["masks"] = t.masks.text();
  if (c.change) task.changeable = {"drop_path", "pipeline", "masks"};
  task.begin = [&t](int64_t first_step) {
    t.target.set_updates(first_step);
    keep_options(t.c, t.images, first_step);
    print_header(t.c, t.model, t.images, t.device, first_step);
  };
  task.unit = "images";
  task.units_per_step = c.batch * c.trainer.accumulate;
  task.loss = [&t](int64_t step, int64_t micro) { return t.loss(step, micro); };
  task.updated = [&t] { t.target.update(); };
  task.step_values = [&t] { return t.step_values(); };
  task.validation_loss = [&t](bool whole) { return t.validation(whole ? 0 : t.c.eval_batches); };
  return task;
}

}  // namespace

int run_train(const TrainCommand& given) {
  train::InterruptScope interrupts(train::InterruptScope::Begin::at_once);
  TrainCommand c = given;
  Device device = apply_training_options(c);
  std::string& folder = c.trainer.run_folder;
  std::optional<train::RunLock> lock = check_folder(c);
  bool goes_on = c.trainer.resume && train::has_checkpoint(folder);

  const ImageData images = load_images(c.images, uint64_t(c.seed));
  if (c.trainer.resume) check_resumed(c, fixed_options, images);
  count_steps(c, images.train->size());
  set_schedules(c);
  const Pretrained pretrained = pretrained_of(c);
  manual_seed(uint64_t(c.seed));
  Training training(c, pretrained, images, device, goes_on);
  interrupts.defer();
  std::optional<train::NewRunFolder> new_folder;
  if (!c.trainer.resume) folder = new_folder.emplace(folder, "jepa", tell).path();

  train::Task task = task_of(training, pretrained);
  auto begin = std::chrono::steady_clock::now();
  train::TrainingResult result = train::train(task, c.trainer);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  keep_bad_images(folder, training.loader->bad_images());
  int code = finish(c, result, seconds, "reprise-jepa",
                    fmt::format("loss {:.4f} on held-out images, feature_std {:.3f}", result.validation_loss,
                                training.std_of_features),
                    "probe");
  if (code == 0 && result.step == c.trainer.schedule.steps)
    train::report("What the features are worth: reprise-jepa probe --run {}\n", folder);
  return code;
}

}  // namespace reprise::apps::jepa
