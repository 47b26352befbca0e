// The command line of `reprise-jepa`.
#include "reprise/apps/jepa/options.h"

#include <climits>

#include "reprise/apps/common/command_line.h"
#include "reprise/apps/common/config_file.h"
#include "reprise/apps/common/models/description.h"
#include "reprise/apps/common/validators.h"

namespace reprise::apps::jepa {
namespace {

constexpr const char* ijepa_group = "I-JEPA (--loss smooth_l1)";
constexpr const char* lejepa_group = "LeJEPA (--loss lejepa)";

void add_model_options(CLI::App& app, TrainCommand& c) {
  auto* group = app.add_option_group("Model");
  nn::JepaOptions& o = c.model;
  group->add_option("--model", c.preset,
                    "Width, layers and heads of the encoder: tiny, small, base or large");
  group->add_option("--image", o.image, "Pixels of an image's side, as the model sees it")
      ->transform(whole_from(1, 1 << 14));
  group->add_option("--channels", o.channels, "1 (gray) or 3 (colour)")->check(CLI::IsMember({1, 3}));
  group->add_option("--patch", o.patch, "Pixels of a patch's side")->transform(whole_from(1, 1 << 14));
  group->add_option("--width", o.width, "Size of the encoder's residual stream")->transform(whole_from(1));
  group->add_option("--layers", o.layers, "Transformer blocks of the encoder")->transform(whole_from(1));
  group->add_option("--heads", o.heads, "Attention heads per block")->transform(whole_from(1));
  group->add_option("--drop-path", o.drop_path, "Stochastic depth of the encoder's last block")
      ->check(probability());
  group
      ->add_option(
          "--loss", c.loss,
          "smooth_l1: I-JEPA (Assran et al. 2023) predicts the features of patches it does not see;\n"
          "lejepa: LeJEPA (Balestriero and LeCun 2025) compares views of an image, without an EMA")
      ->check(CLI::IsMember({ijepa_loss, lejepa_loss}));
}

void add_ijepa_options(CLI::App& app, TrainCommand& c) {
  auto* group = app.add_option_group(ijepa_group);
  nn::JepaOptions& o = c.model;
  group->add_option("--predictor-width", o.predictor_width, "Size of the predictor's residual stream")
      ->transform(whole_from(1));
  group->add_option("--predictor-layers", o.predictor_layers, "Transformer blocks of the predictor")
      ->transform(whole_from(1));
  group->add_option("--predictor-heads", o.predictor_heads, "Attention heads per block of the predictor")
      ->transform(whole_from(1));
  group
      ->add_option("--masks", c.masks,
                   "everywhere: blocks touch every edge; reference: as the code of the paper draws them")
      ->check(CLI::IsMember({"everywhere", "reference"}));
  group->add_option("--targets", c.targets, "Blocks that are predicted of each image")
      ->transform(whole_from(1, 1000));
  group->add_option("--least-context", c.least_context, "Patches of an image that the encoder sees at least")
      ->transform(whole_from(1, INT_MAX));
  group
      ->add_option("--recompute-predictor", c.recompute_predictor,
                   "The predictor's own strategy (default: as --recompute; with auto and plan: none)")
      ->check(parsed_by(parse_strategy));
}

void add_lejepa_options(CLI::App& app, TrainCommand& c) {
  auto* group = app.add_option_group(lejepa_group);
  group->add_option("--global-views", c.global_views, "Crops of an image of 30 % of its area and more")
      ->transform(whole_from(1, 100));
  group->add_option("--local-views", c.local_views, "Crops of 5 to 30 %; the paper has 6")
      ->transform(whole_from(0, 100));
  group->add_option("--lambda", c.lejepa.lambda, "Share of SIGReg in the loss")->check(probability());
  group->add_option("--directions", c.lejepa.directions, "Along which SIGReg looks, new ones each step")
      ->transform(whole_from(1, INT_MAX));
  group->add_option("--projector-width", c.lejepa.hidden, "Hidden size of the projector")
      ->transform(whole_from(1, INT_MAX));
  group->add_option("--features", c.lejepa.features, "Numbers that the projector makes of a view")
      ->transform(whole_from(1, INT_MAX));
}

void add_schedule_options(CLI::App& app, TrainCommand& c) {
  auto* group = app.add_option_group("Schedules");
  add_epoch_options(*group, c);
  group->add_option("--start-lr", c.trainer.schedule.start_lr, "Learning rate that the warm-up begins with")
      ->check(number_from_0());
  group
      ->add_option("--final-weight-decay", c.final_weight_decay,
                   "Weight decay at the end, by a cosine from --weight-decay")
      ->check(number_from_0());
}

void add_train(CLI::App& app, TrainCommand& o) {
  auto* train = app.add_subcommand("train", "Pretrain an encoder on images, without their labels");
  add_image_options(*train, o.images);
  add_worker_options(*train, o.images);
  add_model_options(*train, o);
  add_ijepa_options(*train, o);
  add_lejepa_options(*train, o);
  add_schedule_options(*train, o);
  add_optimizer_options(*train, o, "Images");
  train->get_option("--ema")->description(
      "Decay of I-JEPA's target encoder, an average of the encoder; it rises to 1 at the end");
  add_run_options(*train, o, "jepa");
  train->get_option("--recompute")
      ->description(train->get_option("--recompute")->get_description() + "; of encoder and predictor");
  add_config_option(*train);
  train->option_defaults()->always_capture_default();
}

void add_probe(CLI::App& app, ProbeCommand& o) {
  auto* probe = app.add_subcommand(
      "probe", "What the features are worth: a linear classifier on them, trained and untrained");
  add_read_run_option(*probe, o.run);
  probe->add_option("--data", o.data, "Other images than the run's")->check(not_empty());
  probe->add_option("--batch", o.batch, "Images at once")->transform(whole_from(1));
  probe->add_option("--threads", o.threads, "Threads (0: one per CPU); results do not depend on it")
      ->transform(whole_from(0, INT_MAX));
  add_device_options(*probe, o);
  probe->add_flag("--json", o.json, "Print one JSON object");
}

// Fashion-MNIST in minutes on two CPU cores; rates and decays are the paper's.
TrainCommand default_train() {
  TrainCommand o;
  o.model = {.image = 28,
             .patch = 4,
             .channels = 1,
             .width = 128,
             .layers = 4,
             .heads = 4,
             .predictor_width = 64,
             .predictor_layers = 2,
             .predictor_heads = 4};
  o.epochs = 5;
  o.batch = 64;
  o.eval_batches = 10;
  o.beta2 = 0.999;
  o.weight_decay = 0.04;
  o.ema = 0.996;
  o.trainer.clip = 0;
  o.trainer.schedule = {.lr = 1e-3, .min_lr = 1e-6, .warmup = 0, .start_lr = 2e-4, .steps = 0};
  o.trainer.eval_every = 0;
  o.lejepa.hidden = 512;
  return o;
}

// The authors' rates and decays; weight decay is the same to the end unless it is told otherwise.
void take_lejepa_defaults(CLI::App& train, const TrainCommand& c) {
  const std::string source = std::string("--loss ") + lejepa_loss;
  take_defaults(train, {{"lr", "5e-4"}, {"min-lr", "5e-7"}, {"start-lr", "0"}, {"weight-decay", "0.05"}},
                source);
  take_defaults(train, {{"final-weight-decay", shortest(c.weight_decay)}}, source);
}

// Error naming what is given and belongs to the other loss; its options are no part of the run. Of a run that goes on with
// another loss `check_resumed` says that.
void keep_options_of_loss(CLI::App& train, const TrainCommand& c,
                          const std::map<std::string, std::string>& places) {
  for (const OptionChange& change : c.changes)
    if (change.option == "--loss") return;
  const bool lejepa = c.loss == lejepa_loss;
  CLI::App* group = train.get_option_group(lejepa ? ijepa_group : lejepa_group);
  CLI::Option* ema = train.get_option("--ema");
  std::string given;
  auto refuse = [&](const CLI::Option* option) {
    if (option->count() > 0) given += (given.empty() ? "--" : ", --") + option->get_lnames().front();
  };
  for (const CLI::Option* option : group->get_options())
    if (!option->get_lnames().empty()) refuse(option);
  if (lejepa) refuse(ema);
  check(given.empty(), with_places(given + ": --loss " + c.loss + " has no such option", places));
  train.remove_subcommand(group);
  if (!lejepa) return;
  for (CLI::App* other : train.get_subcommands([](const CLI::App* app) { return app->get_name().empty(); }))
    if (other->remove_option(ema)) return;
}

}  // namespace

Command parse_command_line(int argc, char** argv) {
  Command command;
  command.train = default_train();
  CLI::App app("reprise-jepa: learn from images without labels, and see what the features are worth",
               "reprise-jepa");
  app.option_defaults()->always_capture_default();
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  add_train(app, command.train);
  add_probe(app, command.probe);
  parse_arguments(app, argc, argv);
  if (app.got_subcommand("probe")) {
    command.kind = Command::Kind::probe;
    return command;
  }
  CLI::App& train = *app.get_subcommand("train");
  command.places = apply_config(train);
  take_run_options(train, command.train, {"--workers", "--prefetch", "--recompute-predictor"});
  if (!command.train.trainer.resume) {
    take_preset(train, command.train.preset);
    if (command.train.loss == lejepa_loss) take_lejepa_defaults(train, command.train);
  }
  keep_options_of_loss(train, command.train, command.places);
  command.train.resolved = resolved_config(train);
  return command;
}

}  // namespace reprise::apps::jepa
