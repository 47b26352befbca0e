// --precision: runs in 16 bits learn, go on where they stopped to the bit, and say what their options are for.
// labels: end-to-end
#include "reprise/kernels/cpu/simd.h"
#include "reprise/tests/apps/gpt/program.h"
#include "reprise/train/checkpoint/manifest.h"

namespace reprise::apps {
namespace {

using namespace testing;

double first_and_last(const std::string& run_folder, const std::string& name, double* first) {
  double last = NAN;
  for (const io::RunRecord& record : io::read_run_log(run_folder + "/metrics.jsonl"))
    for (const auto& [key, value] : record.metrics)
      if (key == name) {
        if (std::isnan(last)) *first = value;
        last = value;
      }
  return last;
}

TEST(Precision, TrainsAndSamplesInEach) {
  TempFolder folder;
  folder.write("text", tiny_text());
  for (const char* precision : {"f32", "bf16", "f16", "bf16-pure", "f16-pure"}) {
    const std::string out = folder / precision;
    const std::string said =
        run(train_arguments(folder / "text", out, 40, {"--precision", precision, "--lr", "0.01"}));
    double first = NAN;
    const double last = first_and_last(out, "loss", &first);
    EXPECT_LT(last, 0.95 * first) << precision;
    EXPECT_EQ(said.find("Precision: ") == std::string::npos, std::string(precision) == "f32") << said;
    EXPECT_EQ(std::filesystem::exists(newest_checkpoint(out) + "/loss_scale.safetensors"),
              std::string(precision).starts_with("f16"));
    run({"sample", "--run", out, "--sample-tokens", "5"});
    run({"eval", "--run", out, "--data", folder / "text"});
  }
}

// On a CPU with AMX other bits and nearly the same loss; elsewhere the same bits. It is kept with the run.
TEST(Precision, ProductsOfF32MayBeLessExact) {
  TempFolder folder;
  folder.write("text", tiny_text());
  auto train = [&](const std::string& out, const Arguments& more) {
    Arguments options = {"--width", "128",     "--context",
                         "32",      "--batch", "16"};  // products that tiles are for
    options.insert(options.end(), more.begin(), more.end());
    run(train_arguments(folder / "text", out, 4, options));
    double first = 0;
    return first_and_last(out, "loss", &first);
  };
  const double highest = train(folder / "highest", {});
  EXPECT_NEAR(train(folder / "high", {"--matmul-precision", "high"}), highest, 1e-3);
  if (kernels::simd::tiles() != kernels::simd::Tiles::none)
    EXPECT_NE(measurements(folder / "high"), measurements(folder / "highest"));
  else
    expect_same_checkpoints(folder / "high", folder / "highest");
  expect_refused({"train", "--out", folder / "high", "--resume", "--matmul-precision", "highest"},
                 {"--matmul-precision high (now highest)"});
  expect_refused(train_arguments(folder / "text", folder / "no", 1, {"--matmul-precision", "low"}),
                 {"--matmul-precision", "low"});
}

TEST(Precision, F16GoesOnToTheBit) {
  TempFolder folder;
  folder.write("text", tiny_text());
  auto train = [&](const std::string& out, const Arguments& more) {
    // So large a scale overflows: the first updates are skipped until it fits.
    Arguments options = {"--precision", "f16", "--init-scale", "1073741824"};
    options.insert(options.end(), more.begin(), more.end());
    return run(train_arguments(folder / "text", out, 20, options));
  };
  train(folder / "whole", {});
  train(folder / "parts", {"--stop-after", "2"});
  run({"train", "--out", folder / "parts", "--resume", "--stop-after", "5"});
  run({"train", "--out", folder / "parts", "--resume"});
  expect_same_checkpoints(folder / "parts", folder / "whole");
  EXPECT_EQ(measurements(folder / "parts"), measurements(folder / "whole"));
  double first = 0;
  EXPECT_GE(first_and_last(folder / "whole", "skipped", &first), 1);
  EXPECT_LT(first_and_last(folder / "whole", "loss_scale", &first), 1073741824);
}

TEST(Precision, AnF16CheckpointWithoutAScaleNeedsOne) {
  TempFolder folder;
  folder.write("text", tiny_text());
  const std::string out = folder / "run";
  run(train_arguments(folder / "text", out, 6, {"--precision", "f16", "--stop-after", "2"}));
  expect_refused({"train", "--out", out, "--resume", "--init-scale", "8"}, {"--init-scale is for a new run"});
  const std::string checkpoint = newest_checkpoint(out);
  std::filesystem::remove(checkpoint + "/loss_scale.safetensors");
  train::write_manifest(checkpoint);
  expect_refused({"train", "--out", out, "--resume"}, {"has no loss scale", "--init-scale"});
  const std::string said = run({"train", "--out", out, "--resume", "--init-scale", "8"});
  EXPECT_NE(said.find("begins at 8"), std::string::npos) << said;
  double first = 0;
  EXPECT_EQ(first_and_last(out, "loss_scale", &first), 8);
}

TEST(Precision, TheScaleGrowsAfterItsInterval) {
  TempFolder folder;
  folder.write("text", tiny_text());
  const std::string out = folder / "run";
  run(train_arguments(
      folder / "text", out, 6,
      {"--precision", "f16", "--init-scale", "8", "--scale-interval", "2", "--stop-after", "3"}));
  double first = 0;
  EXPECT_EQ(first_and_last(out, "loss_scale", &first), 16);
  expect_refused({"train", "--out", out, "--resume", "--scale-interval", "3"},
                 {"--scale-interval", "--change"});
  run({"train", "--out", out, "--resume"});
  EXPECT_EQ(first_and_last(out, "loss_scale", &first), 64) << "the run's interval, and what it had counted";
}

TEST(Precision, PureModesGoOnToTheBit) {
  TempFolder folder;
  folder.write("text", tiny_text());
  const std::vector<Arguments> modes = {{"bf16-pure"},
                                        {"bf16-pure", "--master", "split", "--main-gradients", "off"},
                                        {"bf16-pure", "--master", "stochastic", "--moments", "bf16"},
                                        {"f16-pure", "--ema", "0.9"}};
  for (size_t m = 0; m < modes.size(); ++m) {
    auto train = [&](const std::string& out, const Arguments& more) {
      Arguments options = {"--precision"};
      options.insert(options.end(), modes[m].begin(), modes[m].end());
      options.insert(options.end(), more.begin(), more.end());
      return run(train_arguments(folder / "text", out, 8, options));
    };
    const std::string whole = folder / ("whole" + std::to_string(m)),
                      parts = folder / ("parts" + std::to_string(m));
    const std::string said = train(whole, {});
    EXPECT_NE(said.find("Precision: " + modes[m][0] + "; master "), std::string::npos) << said;
    train(parts, {"--stop-after", "3"});
    run({"train", "--out", parts, "--resume"});
    expect_same_checkpoints(parts, whole);
    EXPECT_EQ(measurements(parts), measurements(whole));
  }
}

TEST(Precision, ChangesOnlyWhereThatIsSaid) {
  TempFolder folder;
  folder.write("text", tiny_text());
  const std::string out = folder / "run";
  run(train_arguments(folder / "text", out, 6, {"--stop-after", "2"}));
  expect_refused({"train", "--out", out, "--resume", "--precision", "f16"}, {"--precision", "--change"});
  expect_refused({"train", "--out", out, "--resume", "--precision", "f16", "--change"}, {"--init-scale"});
  const std::string said =
      run({"train", "--out", out, "--resume", "--precision", "f16", "--change", "--init-scale", "65536"});
  EXPECT_NE(said.find("Loss scale: "), std::string::npos) << said;
  EXPECT_NE(said.find("begins at 65536"), std::string::npos) << said;
}

TEST(Precision, RefusesWhatItDoesNotMean) {
  TempFolder folder;
  folder.write("text", tiny_text());
  auto refused = [&](const Arguments& more, const std::vector<std::string>& parts) {
    expect_refused(train_arguments(folder / "text", folder / "run", 2, more), parts);
    EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  };
  refused({"--precision", "fp16"}, {"--precision", "f32, bf16, f16, bf16-pure or f16-pure, not fp16"});
  refused({"--precision", "f16", "--init-scale", "1000"}, {"--init-scale", "a power of two of at least 1"});
  refused({"--precision", "f16", "--init-scale", "0.5"}, {"--init-scale", "a power of two of at least 1"});
  refused({"--precision", "f16", "--init-scale", "inf"}, {"--init-scale"});
  refused({"--precision", "bf16", "--init-scale", "4"}, {"--init-scale is for --precision f16"});
  refused({"--precision", "bf16-pure", "--init-scale", "4"}, {"--init-scale is for --precision f16"});
  refused({"--precision", "bf16", "--scale-interval", "4"}, {"--scale-interval is for --precision f16"});
  refused({"--precision", "f16", "--scale-interval", "0"}, {"--scale-interval"});
  refused({"--master", "split"}, {"--master split", "bf16-pure", "not f32"});
  refused({"--precision", "bf16", "--moments", "bf16"}, {"--moments bf16", "bf16-pure"});
  refused({"--precision", "bf16", "--main-gradients", "off"}, {"--main-gradients off", "bf16-pure"});
  refused({"--precision", "f16-pure", "--master", "split"}, {"--master split is for --precision bf16-pure"});
  refused({"--precision", "f16-pure", "--master", "stochastic"}, {"--master stochastic", "bf16-pure"});
  refused({"--precision", "bf16-pure", "--master", "kahan"}, {"--master", "kahan"});
}

}  // namespace
}  // namespace reprise::apps
