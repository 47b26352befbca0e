// reprise-jepa train.
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "reprise/apps/common/memory_advice.h"
#include "reprise/apps/common/ranks.h"
#include "reprise/apps/common/shared_memory.h"
#include "reprise/apps/common/training_run.h"
#include "reprise/apps/jepa/objective.h"
#include "reprise/distributed/sharded/whole_weights.h"
#include "reprise/nn/eval_scope.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/interrupt.h"
#include "reprise/train/option_error.h"
#include "reprise/train/output.h"
#include "reprise/train/ranks/dealt_batches.h"
#include "reprise/train/run_folder.h"

namespace reprise::apps::jepa {
namespace {

// What the weights and the optimizer's state are made for.
const std::set<std::string> fixed_options = {"--model",           "--image",           "--channels",
                                             "--patch",           "--width",           "--layers",
                                             "--heads",           "--predictor-width", "--predictor-layers",
                                             "--predictor-heads", "--init-from",       "--loss",
                                             "--projector-width", "--features"};

// Features that differ less than this between images tell nothing of them.
constexpr double collapsed = 0.05;

void tell(const std::string& text) { train::warn("warning: {}\n", text); }

nn::JepaOptions ijepa_options(const TrainCommand& c) {
  nn::JepaOptions o = c.model;
  o.recompute = parse_strategy(c.recompute);
  if (!c.recompute_predictor.empty()) {
    o.recompute_predictor = parse_strategy(c.recompute_predictor);
    check(o.recompute_predictor.kind != RecomputeStrategy::Kind::automatic, "--recompute-predictor ",
          c.recompute_predictor, ": a budget is planned for the encoder alone, by --recompute");
  } else {
    o.recompute_predictor = of_predictor(o.recompute);
  }
  return o;
}

nn::LeJepaOptions lejepa_options(const TrainCommand& c) {
  nn::LeJepaOptions o = c.lejepa;
  o.image = c.model.image;
  o.patch = c.model.patch;
  o.channels = c.model.channels;
  o.width = c.model.width;
  o.layers = c.model.layers;
  o.heads = c.model.heads;
  o.drop_path = c.model.drop_path;
  o.recompute = parse_strategy(c.recompute);
  check(c.global_views + c.local_views > 1, "--global-views ", c.global_views, " and --local-views ",
        c.local_views, ": the views of an image are compared, so it takes two");
  return o;
}

Pretrained pretrained_of(const TrainCommand& c) {
  data::Statistics statistics = pixel_statistics(c.images.data, c.model.channels);
  Pretrained pretrained{
      .mean = statistics.mean, .deviation = statistics.deviation, .apply_exif = c.images.exif == "apply"};
  if (c.loss == lejepa_loss)
    pretrained.model = lejepa_options(c);
  else
    pretrained.model = ijepa_options(c);
  return pretrained;
}

void set_schedules(TrainCommand& c) {
  optim::Schedule& schedule = c.trainer.schedule;
  if (schedule.warmup == 0) schedule.start_lr = 0;  // nothing begins with it
  const double first = c.weight_decay, last = c.final_weight_decay;
  check(first > 0 || last == 0, "--weight-decay 0 and --final-weight-decay ", last,
        ": what does not decay at first never does; give 0 for both, or a first one above 0");
  if (first > 0)
    c.trainer.weight_decay = optim::Schedule{.lr = first, .min_lr = last, .steps = schedule.steps};
}

void print_header(const TrainCommand& c, Objective& objective, const ImageData& images, Device device,
                  int64_t first_step) {
  train::report("{}Data: {}: {} images to train on, {} held out; labels are not looked at\n",
                objective.title(), train::for_output(c.images.data), images.train->size(),
                images.validation->size());
  print_run(c, objective.encoder().blocks, device, fmt::format("{} images", c.batch * c.trainer.accumulate),
            first_step);
}

// Before anything is allocated.
void check_batches(const Objective& objective, const TrainCommand& c, const ImageData& images) {
  const int64_t least = objective.least_batch();
  check(c.batch >= least, "--batch ", c.batch, ": --loss ", c.loss, " needs ", least,
        " images per micro-batch");
  check(images.validation->size() >= least, "--val-fraction: --loss ", c.loss, " needs ", least,
        " images that are held out, and there are ", images.validation->size());
}

std::unique_ptr<Objective> make_objective(const TrainCommand& c, const Pretrained& pretrained,
                                          const ImageData& images, Device device) {
  std::unique_ptr<Objective> objective = c.loss == lejepa_loss
                                             ? make_lejepa(c, pretrained, device)
                                             : make_ijepa(c, pretrained, images.train->size(), device);
  check_batches(*objective, c, images);
  take_precision(objective->model(), c);
  return objective;
}

// The model of a run and what trains it. The images must outlive it.
struct Training {
  Training(const TrainCommand& the_options, const Pretrained& the_pretrained, const ImageData& the_images,
           Device the_device, bool goes_on, distributed::ProcessGroup& group)
      : c(the_options),
        pretrained(the_pretrained),
        images(the_images),
        device(the_device),
        objective(make_objective(the_options, the_pretrained, the_images, the_device)),
        parallel(objective->model(), group, buckets_of(c)),
        optimizer(make_adamw(
            parallel, optim::decay_matrices(objective->model(), c.trainer.schedule.lr, c.weight_decay), c)) {
    set_sums(parallel, c);
    if (!c.init_from.empty() && !goes_on) {
      const distributed::WholeWeights whole(parallel);
      train::under_option("--init-from", [&] { load_weights(objective->model(), c.init_from); });
    }
  }

  // Says and plans what steps take, and makes their batches. With --batch auto it sets the batch of the options.
  void prepare(TrainCommand& options) {
    distributed::ProcessGroup& group = parallel.group();
    const TrainedModel trained = trained_model();
    report_memory(options, device, trained, group);
    if (shares_steps(c, trained))  // else blocks plan themselves in the first step
      plan_for_budget(c, trained, group, [&](const recompute::ProfileOptions& measured) {
        return objective->profile(c.batch, measured);
      });
    loader.emplace(*images.train, objective->training_views(), loader_options(c), device);
  }

  TrainedModel trained_model() {
    auto imagine = [this](distributed::ProcessGroup& group) -> ImaginedTraining {
      auto again = std::make_shared<Training>(c, pretrained, images, Device::cpu(), /*goes_on=*/true, group);
      again->optimizer->allocate_state();
      again->objective->begin(*again->optimizer, again->parallel);
      return {again, again->trained_model()};
    };
    return {
        .model = objective->model(),
        .optimizer = *optimizer,
        .set_recompute = [this](const RecomputeStrategy& strategy) { objective->set_recompute(strategy); },
        .row = "image",
        .loss = [this](int64_t rows) { return objective->measured_loss(rows); },
        .smallest = objective->least_batch(),
        .blocks = &objective->encoder().blocks,
        .parallel = &parallel,
        .imagine = imagine};
  }

  // Over the images held out, whose batches the ranks share.
  train::Validation validation(int64_t most_batches) {
    nn::EvalScope scope(objective->model());
    data::EvaluationBatches all(*images.validation, objective->evaluation_views(), c.batch, uint64_t(c.seed),
                                device);
    const int64_t used = most_batches > 0 ? std::min(most_batches, all.batches()) : all.batches();
    const std::vector<double> sums =
        train::sums_of_batches(parallel, used, 2, [&](int64_t i) -> std::vector<double> {
          data::EvaluationBatches::Batch batch = all.at(i * all.batches() / used);
          const auto rows = int64_t(batch.indices.size());
          if (rows < objective->least_batch()) return {0, 0};
          return {double(rows) * objective->held_out_loss(batch.images, i, batch.indices).item(),
                  double(rows)};
        });
    return {sums[1] > 0 ? sums[0] / sums[1] : 0};
  }

  std::vector<std::pair<std::string, double>> step_values() {
    if (objective->feature_std < collapsed && c.batch > 1 && !std::exchange(warned, true))
      train::warn(
          "{}warning: the features of all images are nearly the same (feature_std {:.4f}, below {}): "
          "the encoder may have collapsed\n",
          train::is_terminal() ? "\n" : "", objective->feature_std, collapsed);
    const double waited = loader->waited_seconds();
    return {{"data_seconds", waited - std::exchange(waited_before, waited)},
            {"feature_std", objective->feature_std}};
  }

  const TrainCommand& c;
  const Pretrained& pretrained;
  const ImageData& images;
  const Device device;
  const std::unique_ptr<Objective> objective;
  distributed::DataParallel parallel;
  const std::unique_ptr<optim::AdamW> optimizer;
  std::optional<data::ImageLoader> loader{};  // once its batch is known
  double waited_before = 0;
  bool warned = false;
};

train::Task task_of(Training& t, const Pretrained& pretrained) {
  const TrainCommand& c = t.c;
  train::Task task{.model = t.objective->model(), .optimizer = *t.optimizer};
  task.description = describe(pretrained);
  if (c.change) task.changeable = {"drop_path"};
  for (const auto& [key, text] : t.objective->decided()) {
    task.description[key] = text;
    if (c.change) task.changeable.insert(key);
  }
  task.begin = [&t](int64_t first_step) {
    t.objective->begin(*t.optimizer, t.parallel);
    if (is_first_rank()) keep_options(t.c, t.images, first_step);
    print_header(t.c, *t.objective, t.images, t.device, first_step);
  };
  task.unit = "images";
  task.units_per_step = c.batch * c.trainer.accumulate;
  task.loss = [&t](int64_t step, int64_t micro) {
    return t.objective->loss(t.loader->batch(step, micro).images, step, micro);
  };
  task.updated = [&t] { t.objective->updated(); };
  task.step_values = [&t] { return t.step_values(); };
  task.validation_loss = [&t](bool whole) { return t.validation(whole ? 0 : t.c.eval_batches); };
  return task;
}

int train_on(distributed::ProcessGroup& group, TrainCommand c, train::InterruptScope& interrupts) {
  Device device = apply_training_options(c);
  const train::PrecisionScope precision = precision_scope(c, device);
  std::string& folder = c.trainer.run_folder;
  std::optional<train::RunLock> lock = check_folder(c);
  bool goes_on = c.trainer.resume && train::has_checkpoint(folder);

  const ImageData images = load_images(c.images, uint64_t(c.seed));
  check_same_run(group, c, images);
  if (c.trainer.resume) check_resumed(c, fixed_options, images);
  count_steps(c, images.train->size());
  set_schedules(c);
  const Pretrained pretrained = pretrained_of(c);
  manual_seed(uint64_t(c.seed));
  Training training(c, pretrained, images, device, goes_on, group);
  training.prepare(c);
  group.barrier();  // a signal finds all ranks before their first step, or none, but for a moment
  interrupts.defer();
  std::optional<train::NewRunFolder> new_folder;
  if (!c.trainer.resume && group.rank() == 0) folder = new_folder.emplace(folder, "jepa", tell).path();
  record_calls(group, folder, c);

  train::Task task = task_of(training, pretrained);
  auto begin = std::chrono::steady_clock::now();
  const train::TrainingResult result = with_memory_advice(
      advice_case(c, device, group), [&] { return training.trained_model(); },
      [&] { return train::train(task, c.trainer, training.parallel); });
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (group.rank() == 0) keep_bad_images(folder, training.loader->bad_images());
  int code = finish(c, result, seconds, "reprise-jepa",
                    fmt::format("loss {:.4f} on held-out images, feature_std {:.3f}", result.validation_loss,
                                training.objective->feature_std),
                    "probe");
  if (code == 0 && result.step == c.trainer.schedule.steps)
    train::report("What the features are worth: reprise-jepa probe --run {}\n", folder);
  return code;
}

}  // namespace

int run_train(const TrainCommand& command) {
  train::InterruptScope interrupts(train::InterruptScope::Begin::at_once);
  return on_ranks(command,
                  [&](distributed::ProcessGroup& group) { return train_on(group, command, interrupts); });
}

}  // namespace reprise::apps::jepa
