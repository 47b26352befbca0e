// reprise-vit and reprise-jepa on ranks: the bits of one process, whatever is drawn of images, masks and layers.
// not in asan: ImagesOnRanks.AVitRecipeThatMixesImagesDoesToo:ImagesOnRanks.LeJepaHasTheBitsOfOneProcess
// labels: end-to-end
#include "reprise/distributed/gloo/gloo_transport.h"
#include "reprise/tests/apps/jepa/program.h"

namespace reprise::apps {
namespace {

using namespace testing;

struct ImagesOnRanks : ::testing::Test {
  void SetUp() override {
    if (!distributed::has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  }
  // 12 rows per step of 81 images: the end of an epoch lies inside.
  static constexpr int steps = 9;

  using Make = Arguments (*)(const std::string&, const std::string&, int, const Arguments&);
  using Run = std::string (*)(const Arguments&, int);

  static double largest(const std::vector<double>& numbers) {
    return numbers.empty() ? 0 : *std::ranges::max_element(numbers);
  }

  // Trains as 1, 2 and 4 processes, and on 2 after it was stopped on one.
  void expect_the_same_bits(Make make, Run run, const Arguments& options) {
    const TempFolder folder;
    const std::string data = tiny_images(folder), one = folder / "1";
    auto arguments = [&](const std::string& out) { return make(data, out, steps, options); };
    run(arguments(one), 0);
    for (const char* ranks : {"2", "4"}) {
      SCOPED_TRACE(ranks);
      run(with(arguments(folder / ranks), {"--ranks", ranks}), 0);
      expect_same_checkpoints(folder / ranks, one);
      EXPECT_EQ(measurements(folder / ranks), measurements(one));
    }
    const std::string part = folder / "part";
    run(with(arguments(part), {"--stop-after", "4"}), 0);
    run({"train", "--out", part, "--resume", "--ranks", "2"}, 0);
    expect_same_checkpoints(part, one);
    EXPECT_EQ(measurements(part), measurements(one));
  }
};

TEST_F(ImagesOnRanks, VitHasTheBitsOfOneProcess) {
  expect_the_same_bits(vit_arguments, run_vit,
                       {"--batch", "4", "--accumulate", "4", "--ema", "0.9", "--drop-path", "0.2",
                        "--dropout", "0.1", "--recompute", "full"});
}

TEST_F(ImagesOnRanks, AVitRecipeThatMixesImagesDoesToo) {
  expect_the_same_bits(vit_arguments, run_vit,
                       {"--batch", "4", "--accumulate", "4", "--recipe", "deit", "--precision", "bf16"});
}

TEST_F(ImagesOnRanks, JepaHasTheBitsOfOneProcess) {
  expect_the_same_bits(jepa_arguments, run_jepa,
                       {"--batch", "4", "--accumulate", "4", "--drop-path", "0.2", "--layers", "2"});
}

TEST_F(ImagesOnRanks, LeJepaHasTheBitsOfOneProcess) {
  expect_the_same_bits(lejepa_arguments, run_jepa,
                       {"--batch", "4", "--accumulate", "4", "--local-views", "1"});
}

TEST_F(ImagesOnRanks, ThatReadOtherImagesAreToldInWhat) {
  const TempFolder folder, other;
  const std::string out = folder / "run";
  const auto start = [&](int rank, const std::string& data) {
    return start_rank(rank, vit_arguments(data, out, 2, {"--accumulate", "2"}), "portable", vit_program());
  };
  const auto rank_0 = start(0, tiny_images(folder)), rank_1 = start(1, tiny_images(other, 80));
  for (Program* rank : {rank_0.get(), rank_1.get()}) {
    EXPECT_NE(rank->wait(), 0) << rank->out();
    EXPECT_NE(rank->err().find("train: ranks differ: rank 0 has train-crc32c = "), std::string::npos)
        << rank->err();
  }
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST_F(ImagesOnRanks, LambNeedsWholeTensors) {
  const TempFolder folder;
  expect_vit_refused(
      vit_arguments(tiny_images(folder), folder / "run", 1, {"--zero", "1", "--optimizer", "lamb"}),
      {"--zero 1 is for --optimizer adamw and sgd, not lamb, which needs whole tensors"});
}

// What ranks share is counted as a rank has it, and plans are made so.
TEST_F(ImagesOnRanks, SharedStepsArePredictedAndPlanned) {
  const TempFolder folder;
  const std::string data = tiny_images(folder);
  auto number_after = [](const std::string& text, const std::string& words) {
    const size_t at = text.find(words);
    EXPECT_NE(at, std::string::npos) << words << " in " << text;
    return at == std::string::npos ? 0 : std::atof(text.c_str() + at + words.size());
  };
  auto expect_fits = [&](const std::string& name, Make make, Run run, const Arguments& options,
                         double tolerance, bool is_planned = true) {
    SCOPED_TRACE(name);
    auto arguments = [&](const std::string& out, const Arguments& more) {
      return with(make(data, folder / (name + out), 3, options), more);
    };
    const Arguments shared = {"--ranks", "2", "--zero", "3"};
    const std::string said = run(arguments("none", shared), 0);
    const std::string step = said.substr(said.find("\nA step of 8: "));
    const double none = number_after(step, "\nA step of 8: "), full = number_after(step, "(selective), "),
                 measured = largest(recorded(folder / (name + "none"), "peak_bytes")) / (1 << 20);
    EXPECT_NEAR(none, measured, tolerance * measured) << said;
    if (!is_planned) return;
    ASSERT_LT(full, none) << said;
    const std::string budget = std::to_string((none + full) / 2) + "MiB";
    const std::string plan = run(with(arguments("plan", shared), {"--recompute", "auto:" + budget}), 0);
    EXPECT_NE(plan.find('[', plan.find("Recompute: auto:" + budget)), std::string::npos) << plan;
    EXPECT_LE(largest(recorded(folder / (name + "plan"), "peak_bytes")),
              (1 + tolerance) * std::stod(budget) * (1 << 20));
    run(arguments("one", {}), 0);
    expect_same_checkpoints(folder / (name + "plan"), folder / (name + "one"));
  };
  const Arguments sizes = {"--batch", "8", "--accumulate", "4", "--width", "96", "--layers", "4"};
  expect_fits("vit", vit_arguments, run_vit, sizes, 0.03);
  const Arguments sgd = {"--optimizer", "sgd", "--precision", "bf16-pure"};
  expect_fits("sgd", vit_arguments, run_vit, with(sizes, sgd), 0.03,
              false);                                          // little else than what ranks share
  expect_fits("jepa", jepa_arguments, run_jepa, sizes, 0.06);  // masks differ from step to step
  expect_fits("lejepa", lejepa_arguments, run_jepa, with(sizes, {"--local-views", "1"}), 0.03);
}

// Running statistics are folded in the order of the micro-batches; f16 skips steps, which change none.
TEST_F(ImagesOnRanks, AResNetHasTheBitsOfOneProcess) {
  const Arguments micro_batches = {"--batch", "4", "--accumulate", "4"};
  expect_the_same_bits(resnet_arguments, run_vit,
                       with(micro_batches, {"--recompute", "full", "--ema", "0.9"}));
  expect_the_same_bits(resnet_arguments, run_vit,
                       with(micro_batches, {"--precision", "f16", "--init-scale", "1048576"}));
}

// Blocks whose weights ranks share: those of a ViT, and residual blocks with running statistics, of several sizes.
TEST_F(ImagesOnRanks, SharedWeightsHaveTheBitsOfOneProcess) {
  const TempFolder folder;
  const std::string data = tiny_images(folder);
  run_jepa(lejepa_arguments(data, folder / "encoder", 1, {"--width", "64", "--seed", "3"}), 0);
  auto expect_the_same = [&](const std::string& name, Make make, Run run, const Arguments& options) {
    SCOPED_TRACE(name);
    auto arguments = [&](const std::string& out) { return make(data, folder / out, 3, options); };
    run(arguments(name), 0);
    run(with(arguments(name + "2"), {"--ranks", "2", "--zero", "3"}), 0);
    expect_same_checkpoints(folder / (name + "2"), folder / name);
    EXPECT_EQ(measurements(folder / (name + "2")), measurements(folder / name));
  };
  const Arguments rows = {"--batch", "4", "--accumulate", "4"};
  expect_the_same(
      "vit", vit_arguments, run_vit,
      with(rows, {"--width", "64", "--layers", "3", "--drop-path", "0.2", "--recompute", "full"}));
  expect_the_same("resnet", resnet_arguments, run_vit, with(rows, {"--width", "16", "--optimizer", "adamw"}));
  expect_the_same("resnet by sgd", resnet_arguments, run_vit,
                  with(rows, {"--width", "16", "--optimizer", "sgd", "--ema", "0.9"}));
  expect_the_same("lejepa", lejepa_arguments, run_jepa,
                  with(rows, {"--local-views", "1", "--width", "64", "--init-from", folder / "encoder"}));
}

// The target encoder, which each forward pass reads, follows weights, or the digits beside their 16 bits, that ranks share.
TEST_F(ImagesOnRanks, AnIJepaThatFollowsSharedWeightsDoesToo) {
  const TempFolder folder;
  const std::string data = tiny_images(folder);
  const Arguments options = {"--batch",  "4", "--accumulate", "4",  "--width", "64",
                             "--layers", "2", "--ema",        "0.9"};
  for (const std::string precision : {"f32", "bf16-pure"}) {
    const std::string one = folder / precision;
    auto arguments = [&](const std::string& out) {
      return with(jepa_arguments(data, out, 4, options), {"--precision", precision});
    };
    run_jepa(arguments(one));
    for (const std::string stage : {"1", "3"}) {
      SCOPED_TRACE(precision + ", stage " + stage);
      const std::string two = one + "-" + stage;
      run_jepa(with(arguments(two), {"--ranks", "2", "--zero", stage, "--stop-after", "2"}));
      run_jepa({"train", "--out", two, "--resume", "--ranks", stage == "1" ? "4" : "2"});
      expect_same_checkpoints(two, one);
      EXPECT_EQ(measurements(two), measurements(one));
    }
  }
}

}  // namespace
}  // namespace reprise::apps
