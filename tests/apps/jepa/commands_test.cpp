// reprise-jepa from end to end: what training leaves behind, going on to the bit, the probe, and what is refused.
// labels: end-to-end
#include <map>

#include "reprise/apps/common/config_file.h"
#include "reprise/io/json.h"
#include "reprise/io/safetensors.h"
#include "reprise/tests/apps/jepa/program.h"
#include "reprise/train/checkpoint.h"

namespace reprise::apps {
namespace {

using namespace testing;
namespace fs = std::filesystem;

TEST(JepaRun, LearnsWithoutLabelsAndIsProbed) {
  TempFolder folder;
  std::string data = tiny_images(folder), out = folder / "run";
  std::string printed = run_jepa(jepa_arguments(data, out, 30, {"--lr", "0.005", "--ema", "0.9"}));
  for (const char* part : {"I-JEPA: 8 x 8 pixels in patches of 2", "labels are not looked at",
                           "Done: step 30", "reprise-jepa probe --run"})
    EXPECT_NE(printed.find(part), std::string::npos) << part << " in " << printed;
  std::vector<double> losses = recorded(out, "val_loss");
  ASSERT_EQ(losses.size(), 10u);
  EXPECT_LT(losses.back(), losses.front());
  EXPECT_EQ(recorded(out, "feature_std").size(), 30u);
  EXPECT_GT(recorded(out, "feature_std").back(), 0.05);

  std::set<std::string> parts;
  for (const auto& [name, tensor] : train::load_checkpoint(out, false).parameters)
    parts.insert(name.substr(0, name.find('.')));
  EXPECT_EQ(parts, (std::set<std::string>{"encoder", "predictor", "target_encoder"}));

  std::string text = run_jepa({"probe", "--run", out});
  EXPECT_NE(text.find("\ntrained   encoder: top-1 "), std::string::npos) << text;
  EXPECT_NE(text.find("\nuntrained encoder: top-1 "), std::string::npos) << text;
  std::string json_text = run_jepa({"probe", "--run", out, "--json"});
  std::map<std::string, double> values;
  io::JsonReader json(json_text, "probe");
  json.object([&](const std::string& key) { values[key] = json.number(); });
  EXPECT_EQ(values.at("images"), 30);
  EXPECT_GT(values.at("top1"), 0.4) << "a third would be chance";
}

// Images without a difference have features without one.
TEST(JepaRun, WarnsOnceOfFeaturesThatCollapsed) {
  TempFolder folder;
  std::string data = tiny_images(folder);
  folder.write("train-images-idx3-ubyte", idx_file({90, 8, 8}, std::string(90 * 64, char(100))));
  Program program(jepa_arguments(data, folder / "run", 3), "", jepa_program());
  EXPECT_EQ(program.wait(), 0) << program.err();
  const std::string told = program.err(), mark = "the encoder may have collapsed";
  EXPECT_NE(told.find("feature_std 0.00"), std::string::npos) << told;
  EXPECT_EQ(told.find(mark), told.rfind(mark)) << told;
}

TEST(JepaRun, StartsFromItsWeights) {
  TempFolder folder;
  std::string data = tiny_images(folder), out = folder / "run", next = folder / "next";
  const Arguments still = {"--lr", "0", "--min-lr", "0", "--start-lr", "0"};
  run_jepa(jepa_arguments(data, out, 3));
  run_jepa(with(jepa_arguments(data, next, 1, {"--init-from", out, "--seed", "7"}), still));
  auto weights = [](const std::string& run) {
    for (const auto& [name, tensor] : train::load_checkpoint(run, false).parameters)
      if (name == "predictor.predictor_proj.weight") return tensor.to_vector<float>();
    return std::vector<float>();
  };
  EXPECT_FALSE(weights(out).empty());
  EXPECT_EQ(weights(next), weights(out));
  expect_jepa_refused(jepa_arguments(data, folder / "other", 1, {"--init-from", out, "--width", "32"}),
                      {"--init-from", "encoder.blocks.0.attn.qkv.weight"});
}

// The untrained encoder is the one that the run began with: after a step at a rate of 0 both are the same but for the
// rounding of the average.
TEST(JepaRun, IsComparedWithTheEncoderItBeganWith) {
  TempFolder folder;
  std::string data = tiny_images(folder), out = folder / "run";
  run_jepa(jepa_arguments(data, out, 1, {"--lr", "0", "--min-lr", "0", "--start-lr", "0", "--seed", "9"}));
  std::string text = run_jepa({"probe", "--run", out});
  const std::string mark = "encoder: top-1";
  size_t first = text.find(mark), second = text.find(mark, first + 1);
  ASSERT_NE(second, std::string::npos) << text;
  EXPECT_EQ(text.substr(first, text.find(',', first) - first),
            text.substr(second, text.find(',', second) - second));
}

// 90 images less the held-out ones, 12 per step: the end of an epoch lies inside.
TEST(JepaResume, AtAnyStepGivesTheBitsOfAnUninterruptedRun) {
  constexpr int steps = 9;
  TempFolder folder;
  std::string data = tiny_images(folder), whole = folder / "whole";
  const Arguments options = {"--accumulate", "2", "--drop-path", "0.2", "--layers", "2", "--ema", "0.9"};
  run_jepa(jepa_arguments(data, whole, steps, options));
  for (int k : {1, 7}) {
    std::string part = folder / std::to_string(k);
    Arguments arguments = jepa_arguments(data, part, steps, options);
    run_jepa(with(arguments, {"--stop-after", std::to_string(k)}));
    EXPECT_EQ(train::load_checkpoint(part, true).step, k);
    run_jepa(with(arguments, {"--resume", "--workers", "3", "--prefetch", "1"}));
    expect_same_checkpoints(part, whole);
    EXPECT_EQ(measurements(part), measurements(whole)) << "stopped after " << k;
  }
}

// Updates below a digit of a weight's 16 bits change its copy in f32, and so the target.
TEST(JepaRun, TheTargetFollowsTheDigitsBesideWeightsOf16Bits) {
  TempFolder folder;
  const std::string data = tiny_images(folder);
  for (const char* master : {"f32", "split"}) {
    auto trained = [&](const std::string& lr) {
      const std::string out = folder / (master + lr);
      run_jepa(jepa_arguments(
          data, out, 3,
          {"--precision", "bf16-pure", "--master", master, "--lr", lr, "--min-lr", "0", "--start-lr", lr,
           "--warmup", "0", "--weight-decay", "0", "--final-weight-decay", "0"}));
      return train::load_checkpoint(out, true).parameters;
    };
    const auto still = trained("0"), moved = trained("1e-7");
    const std::string name = "encoder.blocks.0.attn.qkv.weight";
    auto value = [](const nn::NamedTensors& parameters, const std::string& of) {
      const auto found = std::ranges::find(parameters, of, &nn::NamedTensors::value_type::first);
      return found == parameters.end() ? std::vector<double>()
                                       : found->second.to(DType::f64).to_vector<double>();
    };
    auto share_that_moved = [&](const std::string& of) {
      const std::vector<double> before = value(still, of), after = value(moved, of);
      size_t count = 0;
      for (size_t i = 0; i < before.size(); ++i) count += before[i] != after.at(i);
      return double(count) / double(before.size());
    };
    EXPECT_LT(share_that_moved(name), 0.02) << "too small for most numbers of 16 bits";
    EXPECT_GT(share_that_moved("target_" + name), 0.1) << master;
  }
}

TEST(JepaResume, AfterASignalToo) {
  TempFolder folder;
  std::string data = tiny_images(folder), whole = folder / "whole", part = folder / "part";
  Arguments arguments = jepa_arguments(data, part, 60, {"--eval-every", "100"});
  Program program(arguments, "", jepa_program());
  while (program.is_running() && !fs::exists(part + "/metrics.jsonl"))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  program.signal(SIGINT);
  EXPECT_EQ(program.wait(), 3) << program.err();
  EXPECT_NE(program.out().find("Stopped"), std::string::npos) << program.out();
  if (fs::exists(part + "/checkpoints/LATEST") && train::load_checkpoint(part, true).step < 60)
    run_jepa({"train", "--out", part, "--resume"});
  else if (!fs::exists(part + "/checkpoints/LATEST"))
    run_jepa(arguments);  // it came before the first step
  run_jepa(jepa_arguments(data, whole, 60, {"--eval-every", "100"}));
  expect_same_checkpoints(part, whole);
}

TEST(JepaResume, NoBitDependsOnThreadsWorkersOrRecompute) {
  TempFolder folder;
  std::string data = tiny_images(folder);
  run_jepa(jepa_arguments(data, folder / "plain", 3));
  run_jepa(jepa_arguments(data, folder / "threads", 3, {"--threads", "3", "--workers", "0"}));
  run_jepa(jepa_arguments(data, folder / "full", 3, {"--recompute", "full"}));
  run_jepa(jepa_arguments(data, folder / "predictor", 3, {"--recompute-predictor", "selective"}));
  run_jepa(jepa_arguments(data, folder / "auto", 3, {"--recompute", "auto:64MiB"}));
  for (const char* run : {"threads", "full", "predictor", "auto"}) {
    SCOPED_TRACE(run);
    expect_same_checkpoints(folder / run, folder / "plain");
  }
}

TEST(JepaResume, BatchAndRecomputeAreChosenTogether) {
  TempFolder folder;
  const std::string data = tiny_images(folder);
  const std::pair<const char*, Arguments> losses[] = {{"i-jepa", jepa_arguments(data, "", 2)},
                                                      {"lejepa", lejepa_arguments(data, "", 2)}};
  for (const auto& [name, defaults] : losses) {
    SCOPED_TRACE(name);
    auto train = [&, base = defaults](const std::string& out, const Arguments& more) {
      Arguments all = base;
      *(std::ranges::find(all, "--out") + 1) = out;
      *(std::ranges::find(all, "--layers") + 1) = "3";
      const auto batch = std::ranges::find(all, "--batch");
      all.erase(batch, batch + 2);
      return run_jepa(with(all, more));
    };
    const std::string out = folder / name, written = folder / (std::string(name) + "-written");
    const std::string said = train(out, {"--batch", "auto", "--recompute", "auto:2MiB"});
    std::map<std::string, std::string> kept = read_config(out + "/config.toml");
    EXPECT_EQ(std::stoll(kept["batch"]) * std::stoll(kept["accumulate"]), 64) << said;
    EXPECT_NE(said.find(" micro-batches per update, --recompute " + kept["recompute"] + ": "),
              std::string::npos)
        << said;
    train(written,
          {"--batch", kept["batch"], "--accumulate", kept["accumulate"], "--recompute", kept["recompute"]});
    expect_same_checkpoints(out, written);
  }
}

// --model fills what is left open and no more, and what it filled is kept. The tests' defaults give width and heads.
TEST(JepaOptions, ModelLeavesRoomForWhatIsGiven) {
  TempFolder folder;
  const std::string data = tiny_images(folder), out = folder / "run";
  const std::string said = run_jepa(jepa_arguments(data, out, 1, {"--model", "tiny", "--layers", "2"}));
  EXPECT_NE(said.find("encoder of 2 layers, 2 heads, width 16"), std::string::npos) << said;
  Arguments open = jepa_arguments(data, folder / "open", 1, {"--model", "tiny", "--layers", "1"});
  for (const char* option : {"--width", "--heads"}) {
    const auto at = std::find(open.begin(), open.end(), option);
    open.erase(at, at + 2);
  }
  EXPECT_NE(run_jepa(open).find("encoder of 1 layers, 3 heads, width 192"), std::string::npos);
  const std::string config = io::read_file(folder / "open/config.toml");
  for (const char* line : {"\nwidth = 192\n", "\nlayers = 1\n", "\nheads = 3\n"})
    EXPECT_NE(config.find(line), std::string::npos) << line << " in " << config;
}

TEST(JepaOptions, MasksOfTheReferenceArePartOfTheRun) {
  TempFolder folder;
  const std::string data = tiny_images(folder), out = folder / "run";
  const Arguments reference = {"--masks", "reference", "--least-context", "4"};
  run_jepa(with(jepa_arguments(data, out, 4, reference), {"--stop-after", "2"}));
  EXPECT_NE(train::load_checkpoint(out, false).model.at("masks").find("as the reference"), std::string::npos);
  expect_jepa_refused({"train", "--out", out, "--resume", "--masks", "everywhere"}, {"--masks reference"});
  run_jepa({"train", "--out", out, "--resume"});
  run_jepa(jepa_arguments(data, folder / "whole", 4, reference));
  expect_same_checkpoints(out, folder / "whole");
}

TEST(JepaOptions, AreRefusedBeforeARunFolderIsMade) {
  TempFolder folder;
  std::string data = tiny_images(folder), out = folder / "run";
  auto refused = [&](const Arguments& more, const std::vector<std::string>& parts) {
    expect_jepa_refused(jepa_arguments(data, out, 1, more), parts);
  };
  refused({"--image", "9"}, {"image 9 is not a multiple of patch 2"});
  refused({"--patch", "4"}, {"masks: a 2 x 2 grid leaves 3 context patches, 10 wanted"});
  refused({"--predictor-heads", "3"}, {"predictor_width 8 is not a multiple of 3 heads"});
  refused({"--recompute-predictor", "auto:1GiB"}, {"--recompute-predictor auto:1GiB"});
  refused({"--weight-decay", "0"}, {"--weight-decay 0 and --final-weight-decay 0.4"});
  EXPECT_FALSE(fs::exists(out));
}

TEST(JepaOptions, OfAnotherRunAreRefused) {
  TempFolder folder;
  std::string data = tiny_images(folder), out = folder / "run";
  run_jepa(with(jepa_arguments(data, out, 4), {"--stop-after", "2"}));
  expect_jepa_refused({"train", "--out", out, "--resume", "--targets", "2"}, {"--targets 4 (now 2)"});
  expect_jepa_refused({"train", "--out", out, "--resume", "--change", "--predictor-width", "16"},
                      {"--predictor-width 8 (now 16)", "that cannot change"});
  std::string vit = folder / "vit";
  run_vit(vit_arguments(data, vit, 1));
  expect_jepa_refused({"probe", "--run", vit}, {"--run", "lacks \"predictor_width\""});
}

}  // namespace
}  // namespace reprise::apps
