// reprise-vit train.
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "reprise/apps/common/data_wait.h"
#include "reprise/apps/common/image_run.h"
#include "reprise/apps/common/memory_advice.h"
#include "reprise/apps/common/ranks.h"
#include "reprise/apps/common/shared_memory.h"
#include "reprise/apps/common/training_run.h"
#include "reprise/apps/vit/evaluate.h"
#include "reprise/apps/vit/model.h"
#include "reprise/apps/vit/model_choice.h"
#include "reprise/apps/vit/options.h"
#include "reprise/apps/vit/pipelines.h"
#include "reprise/apps/vit/report.h"
#include "reprise/autograd/ops.h"
#include "reprise/data/loader.h"
#include "reprise/distributed/sharded/evaluated_weights.h"
#include "reprise/distributed/sharded/whole_weights.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/nn/optim/lamb.h"
#include "reprise/nn/optim/sgd.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/interrupt.h"
#include "reprise/train/option_error.h"
#include "reprise/train/output.h"
#include "reprise/train/run_folder.h"

namespace reprise::apps::vit {
namespace {

using Clock = std::chrono::steady_clock;

// What the weights and the optimizer's state are made for.
const std::set<std::string> fixed_options = {
    "--model",     "--image",     "--channels", "--patch",     "--width",       "--layers",
    "--heads",     "--stem",      "--pool",     "--registers", "--layer-scale", "--no-embed-class",
    "--optimizer", "--init-from", "--norm",     "--rope",      "--qk-norm",     "--no-qkv-bias"};

void tell(const std::string& text) { train::warn("warning: {}\n", text); }

nn::ResNetOptions resnet_options(const TrainCommand& c, int64_t classes) {
  nn::ResNetOptions o = nn::resnet_preset(resnet_depth(c.preset));
  o.channels = c.model.channels;
  o.classes = classes;
  o.width = c.model.width;
  o.stem = c.stem == "cifar" ? nn::ResNetStem::cifar : nn::ResNetStem::imagenet;
  o.recompute = parse_strategy(c.recompute);
  return o;
}

// The network of the options, for these images.
ImageModelOptions model_options(const TrainCommand& c, int64_t classes) {
  if (is_resnet(c.preset)) return resnet_options(c, classes);
  nn::VitOptions o = c.model;
  o.classes = classes;
  o.stem = c.stem == "conv" ? nn::Stem::conv : nn::Stem::patch;
  o.pool = c.pool == "avg" ? nn::Pool::avg : nn::Pool::token;
  o.positions = c.positions == "learned" ? nn::Positions::learned : nn::Positions::sincos;
  o.norm = c.norm == "rms" ? nn::NormKind::rms : nn::NormKind::layer;
  o.qkv_bias = !c.no_qkv_bias;
  o.class_token = o.pool == nn::Pool::token;
  o.recompute = parse_strategy(c.recompute);
  return o;
}

void print_header(const TrainCommand& c, const ImageModel& model, const ImageData& images, Device device,
                  int64_t first_step) {
  train::report("{}\n", model.to_string());
  train::report("Data: {}: {} images to train on, {} held out, {} classes, {} x {} pixels\n",
                train::for_output(c.images.data), images.train->size(), images.validation->size(),
                images.train->classes(), c.model.image, c.model.image);
  print_run(c, model.blocks(), device, fmt::format("{} images", c.batch * c.trainer.accumulate), first_step);
}

Classifier classifier_of(const TrainCommand& c, const data::Dataset& images) {
  data::Statistics statistics = pixel_statistics(c.images.data, c.model.channels);
  return {.model = model_options(c, images.classes()),
          .image = c.model.image,
          .class_names = images.class_names(),
          .mean = statistics.mean,
          .deviation = statistics.deviation,
          .crop = c.crop,
          .apply_exif = c.images.exif == "apply"};
}

std::vector<optim::ParameterGroup> groups_of(const ImageModel& model, const TrainCommand& c) {
  return optim::layer_decay(
      model.module(), [&](const std::string& name) { return model.layer_of(name); },
      {.lr = c.trainer.schedule.lr, .weight_decay = c.weight_decay, .decay = c.layer_decay});
}

// The model, whose weights have the precision of the options from now on.
nn::Module& in_precision(const ImageModel& model, const TrainCommand& c) {
  take_precision(model.module(), c);
  return model.module();
}

std::unique_ptr<optim::Optimizer> make_optimizer(const ImageModel& model, const TrainCommand& c,
                                                 distributed::DataParallel& parallel) {
  if (c.optimizer == "sgd")
    return make_sgd(parallel, groups_of(model, c), c, {.momentum = c.momentum, .nesterov = c.nesterov});
  if (c.optimizer == "lamb")
    return std::make_unique<optim::Lamb>(groups_of(model, c),
                                         optim::LambOptions{.beta1 = c.beta1, .beta2 = c.beta2});
  return make_adamw(parallel, groups_of(model, c), c);
}

// The loss of --loss. Targets are classes, or probabilities, smoothed already, where pairs are mixed. To bce a class is
// there or not, however little of it.
Tensor loss_of(Tensor logits, const Tensor& targets, const TrainCommand& c) {
  const bool mixed = targets.dtype() != DType::i64;
  if (c.loss == "bce") {
    const Tensor there = mixed ? greater(targets, zeros(targets.shape(), DType::f32, targets.device()))
                               : one_hot(targets, logits.size(1));
    return bce_with_logits(logits, there.to(logits.dtype()));
  }
  return cross_entropy(std::move(logits), targets, {.label_smoothing = mixed ? 0 : c.smoothing});
}

// The model of a run and what trains it. The images must outlive it.
struct Training {
  Training(const TrainCommand& c, const Classifier& the_classifier, const ImageData& the_images,
           Device device, bool goes_on, distributed::ProcessGroup& group)
      : classifier(the_classifier),
        images(the_images),
        pipeline(training_pipeline(the_classifier, c.recipe, decoding_of(c.images))),
        evaluation(evaluation_pipeline(the_classifier)),
        model(the_classifier.model, device),
        parallel(in_precision(model, c), group, buckets_of(c)),
        optimizer(make_optimizer(model, c, parallel)) {
    set_sums(parallel, c);
    if (!c.init_from.empty() && !goes_on) {
      const distributed::WholeWeights whole(parallel);
      train::under_option("--init-from", [&] { load_weights(model, classifier, c.init_from); });
    }
    ema = make_averages(parallel, c.ema);
  }

  // Says and plans what steps take, and makes their batches. With --batch auto it sets the batch of `c`.
  void prepare(TrainCommand& c, Device device) {
    distributed::ProcessGroup& group = parallel.group();
    report_memory(c, device, trained_model(c, device), group);
    first_micro = own_share(c).begin;
    loader.emplace(*images.train, pipeline, loader_options(c, c.smoothing), device);
    plan_for_budget(c, trained_model(c, device), group, [&](const recompute::ProfileOptions& options) {
      return model.blocks().profile(loader->batch(0, first_micro).images, options);
    });
  }

  Tensor loss(int64_t step, int64_t micro, const TrainCommand& c) {
    if (micro == first_micro) step_began = Clock::now();
    data::ImageBatch batch = loader->batch(step, micro);
    return loss_of(model(batch.images), batch.targets, c);
  }

  TrainedModel trained_model(const TrainCommand& c, Device device) {
    const bool mixes = pipeline.options().mixing.has_value();
    auto loss = [this, device, mixes, &c](int64_t rows) {
      const Shape targets = mixes ? Shape{rows, model.classes()} : Shape{rows};
      const int64_t channels = classifier.channels(), image = classifier.image;
      return loss_of(model(zeros({rows, channels, image, image}, DType::f32, device)),
                     zeros(targets, mixes ? DType::f32 : DType::i64, device), c);
    };
    auto imagine = [this, &c](distributed::ProcessGroup& group) -> ImaginedTraining {
      auto again = std::make_shared<Training>(c, classifier, images, Device::cpu(), /*goes_on=*/true, group);
      again->optimizer->allocate_state();
      if (again->ema) again->ema->follow_masters(*again->optimizer);  // as training begins
      return {again, again->trained_model(c, Device::cpu())};
    };
    return {.model = model.module(),
            .optimizer = *optimizer,
            .set_recompute =
                [this](const RecomputeStrategy& strategy) { model.blocks().set_recompute(strategy); },
            .row = "image",
            .loss = loss,
            .smallest = mixes ? 2 : model.least_rows(),
            .blocks = &model.blocks(),
            .parallel = &parallel,
            .ema = ema.get(),
            .imagine = imagine};
  }

  // Of a step just done, with so many images: the seconds that it waited for them.
  double finish_step(int64_t rows) {
    const double now = loader->waited_seconds(), waited = now - std::exchange(waited_before, now);
    notice = data_wait.add(std::chrono::duration<double>(Clock::now() - step_began).count(), waited, rows);
    return waited;
  }

  const Classifier& classifier;
  const ImageData& images;
  const data::Pipeline pipeline, evaluation;
  const ImageModel model;
  distributed::DataParallel parallel;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::Ema> ema{};
  std::optional<data::ImageLoader> loader{};  // once its batch is known
  int64_t first_micro = 0;                    // of a step, on this rank
  double waited_before = 0;
  Clock::time_point step_began{};
  DataWait data_wait{"images", "more --workers help, and smaller images: reprise-vit pack"};
  std::string notice{};  // of the step just done
};

train::Task task_of(Training& t, const TrainCommand& c, Device device) {
  train::Task task{.model = t.model.module(), .optimizer = *t.optimizer, .ema = t.ema.get()};
  task.description = describe(t.classifier);
  task.description["pipeline"] = t.pipeline.text();
  if (c.change) task.changeable = {"dropout", "drop_path", "pipeline"};
  task.begin = [&t, &c, device](int64_t first_step) {
    if (is_first_rank()) keep_options(c, t.images, first_step);
    print_header(c, t.model, t.images, device, first_step);
  };
  task.unit = "images";
  task.units_per_step = c.batch * c.trainer.accumulate;
  task.loss = [&t, &c](int64_t step, int64_t micro) { return t.loss(step, micro, c); };
  task.step_values = [&t, rows = task.units_per_step] {
    return std::vector{std::pair<std::string, double>{"data_seconds", t.finish_step(rows)}};
  };
  task.notice = [&t] { return t.notice; };
  task.validation_loss = [&t, &c](bool whole) {
    return validate(t.parallel, t.model, *t.images.validation, t.evaluation, c.batch,
                    whole ? 0 : c.eval_batches);
  };
  return task;
}

// Looks at the test images, once.
int finish_with_report(Training& t, const TrainCommand& c) {
  const data::Dataset& last = t.images.test ? *t.images.test : *t.images.validation;
  try {
    Evaluation e = evaluate(t.model, last, t.evaluation, c.batch);
    train::report("{}: top-1 {:.2f} %, top-5 {:.2f} %, loss {:.4f} over {} images\n",
                  t.images.test ? "Test" : "Held out", 100 * e.top1(), 100 * e.top5(), e.loss, e.images);
    write_report(c.trainer.run_folder, t.model, t.classifier, last, t.evaluation, e);
  } catch (const train::Interrupted&) { return train::interrupted_exit_code; }
  train::report("Pictures: {}/report.html\n", c.trainer.run_folder);
  return 0;
}

void check_optimizer(const TrainCommand& c) {
  const bool pure = train::is_pure(train::parse_precision(c.precision));
  check(c.optimizer != "lamb" || !pure, "--optimizer lamb keeps no master copies, which --precision ",
        c.precision, " needs; adamw and sgd do");
  check(c.optimizer == "adamw" || c.moments == "f32", "--moments ", c.moments,
        " is for --optimizer adamw, not ", c.optimizer);
  check(c.optimizer != "lamb" || c.zero == 0, "--zero ", c.zero,
        " is for --optimizer adamw and sgd, not lamb, which needs whole tensors");
}

int train_on(distributed::ProcessGroup& group, TrainCommand c, train::InterruptScope& interrupts) {
  check_optimizer(c);
  check(c.loss != "bce" || c.smoothing == 0, "--smoothing ", c.smoothing, ": --loss bce has none; give 0");
  Device device = apply_training_options(c);
  const train::PrecisionScope precision = precision_scope(c, device);
  std::string& folder = c.trainer.run_folder;
  std::optional<train::RunLock> lock = check_folder(c);
  bool goes_on = c.trainer.resume && train::has_checkpoint(folder);

  const ImageData images = load_images(c.images, uint64_t(c.seed));
  check_same_run(group, c, images);
  if (c.trainer.resume) check_resumed(c, fixed_options, images);
  count_steps(c, images.train->size());
  const Classifier classifier = classifier_of(c, *images.train);
  manual_seed(uint64_t(c.seed));
  Training training(c, classifier, images, device, goes_on, group);
  training.prepare(c, device);
  group.barrier();  // a signal finds all ranks before their first step, or none, but for a moment
  interrupts.defer();
  std::optional<train::NewRunFolder> new_folder;
  if (!c.trainer.resume && group.rank() == 0) folder = new_folder.emplace(folder, "vit", tell).path();
  record_calls(group, folder, c);

  train::Task task = task_of(training, c, device);
  auto begin = Clock::now();
  const auto trained = [&] { return training.trained_model(c, device); };
  const AdviceCase asked = advice_case(c, device, group);
  const train::TrainingResult result =
      with_memory_advice(asked, trained, [&] { return train::train(task, c.trainer, training.parallel); });
  double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (group.rank() == 0) keep_bad_images(folder, training.loader->bad_images());
  int code =
      finish(c, result, seconds, "reprise-vit",
             fmt::format("validation accuracy {:.2f} %", 100 * result.validation_accuracy.value_or(0)));
  if (code != 0 || result.step < c.trainer.schedule.steps) return code;
  const distributed::EvaluatedWeights weights(training.parallel, training.ema.get());
  if (group.rank() == 0)
    code = with_memory_advice(asked, trained, [&] {
      return train::in_phase(train::Phase::evaluation, [&] { return finish_with_report(training, c); });
    });
  distributed::gather_for_others(training.parallel);
  return code;
}

}  // namespace

int run_train(const TrainCommand& command) {
  train::InterruptScope interrupts(train::InterruptScope::Begin::at_once);
  return on_ranks(command,
                  [&](distributed::ProcessGroup& group) { return train_on(group, command, interrupts); });
}

}  // namespace reprise::apps::vit
