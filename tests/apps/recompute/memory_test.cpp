// memory: what it says of machines that are not here, against arithmetic and against what training measures here.
// labels: end-to-end
// not in asan: Memory.CountsThePublishedParameters
#include <regex>

#include "reprise/tests/apps/recompute/program.h"

namespace reprise::testing {
namespace {

ProgramResult run_memory(Arguments more) {
  more.insert(more.begin(), "memory");
  return run_recompute(more);
}

// The number behind `label`, in GiB.
double gib_behind(const std::string& text, const std::string& label) {
  std::smatch found;
  const bool is_there = std::regex_search(text, found, std::regex(label + " +([0-9.]+) GiB"));
  EXPECT_TRUE(is_there) << label << " in:\n" << text;
  return is_there ? std::stod(found[1]) : 0;
}

// GPT-2's largest, as published: 1,557,611,200 parameters. Bytes of ZeRO by its paper's formulas (Rajbhandari et al. 2020), with
// gradients in f32.
TEST(Memory, OfGpt2IsThePublishedArithmetic) {
  constexpr double gib = double(1 << 30), parameters = 1557611200;
  for (const auto& [ranks, stage] : {std::pair(1, 0), {8, 1}, {8, 2}, {2, 3}}) {
    const ProgramResult result =
        run_memory({"--model", "gpt2_1.5b", "--batch", "1", "--precision", "bf16-pure", "--recompute", "full",
                    "--ranks", std::to_string(ranks), "--zero", std::to_string(stage)});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_NE(result.out.find("1557611200 parameters"), std::string::npos) << result.out;
    const double shared = stage > 0 ? ranks : 1;
    // At stage 3 a part of the 48 blocks and one whole, beside the tables and the last norm.
    constexpr double around = (50257 + 1024 + 2) * 1600, blocks = parameters - around;
    const double weights = stage == 3 ? around + blocks / ranks + blocks / 48 : parameters;
    EXPECT_NEAR(gib_behind(result.out, "weights"), 2 * weights / gib, 0.01 * 2 * weights / gib);
    EXPECT_NEAR(gib_behind(result.out, "optimizer"), 12 * parameters / gib / shared,
                0.01 * 12 * parameters / gib);
  }
}

// Four bytes per parameter, where ranks have gradients whole.
TEST(Memory, SaysWhatNcclsWindowsHold) {
  const Arguments gpt2 = {"--model", "gpt2_1.5b", "--batch", "1", "--recompute", "full"};
  const std::string mark = "NCCL's windows, 5.80 GiB, while forward runs";
  const std::vector<std::pair<Arguments, bool>> jobs = {{{"--ranks", "2"}, true},
                                                        {{"--ranks", "8", "--zero", "1"}, true},
                                                        {{"--ranks", "8", "--zero", "2"}, false},
                                                        {{"--ranks", "8", "--zero", "3"}, false},
                                                        {{"--ranks", "1"}, false}};
  for (const auto& [more, has_windows] : jobs) {
    Arguments all = gpt2;
    all.insert(all.end(), more.begin(), more.end());
    const ProgramResult result = run_memory(all);
    EXPECT_EQ(result.out.find(mark) != std::string::npos, has_windows) << result.out << result.err;
    EXPECT_EQ(result.out.find("windows") != std::string::npos, has_windows) << result.out;
  }
}

TEST(Memory, CountsThePublishedParameters) {
  const std::pair<const char*, const char*> published[] = {
      {"gpt2_124m", "124439808"},   {"gpt2_355m", "354823168"},  {"gpt2_774m", "774030080"},
      {"llama_1.1b", "1100048384"}, {"llama2_7b", "6738415616"}, {"llama3_8b", "8030261248"},
      {"mistral_7b", "7241732096"}, {"qwen3_0.6b", "596049920"}};
  for (const auto& [model, count] : published) {
    const ProgramResult result = run_memory({"--model", model, "--length", "64", "--recompute", "full"});
    EXPECT_NE(result.out.find(std::string("\n") + count + " parameters"), std::string::npos)
        << result.out << result.err;
  }
}

// What `max-batch` finds by trying is what shapes say, or one row less: here gradients are clipped too.
TEST(Memory, BatchIsTheOneThatFits) {
  const Arguments gpt = {"--model", "tiny", "--memory-limit", "4MiB"},
                  vit = {"--model", "vit_tiny", "--layers",       "4",    "--width", "48",
                         "--image", "32",       "--memory-limit", "12MiB"};
  const Arguments llama = {"--model", "llama_tiny", "--memory-limit", "4MiB"};
  for (const Arguments& sizes : {gpt, vit, llama}) {
    Arguments tried = {"max-batch", "--device", "cpu",         "--threads", "1",
                       "--steps",   "1",        "--recompute", "full"},
              said = {"--recompute", "none", "full"};
    tried.insert(tried.end(), sizes.begin(), sizes.end());
    said.insert(said.end(), sizes.begin(), sizes.end());
    const ProgramResult real = run_recompute(tried), shapes = run_memory(said);
    ASSERT_EQ(real.code, 0) << real.err;
    ASSERT_EQ(shapes.code, 0) << shapes.err;
    for (const char* strategy : {"none", "full"}) {
      std::smatch trial, said_so;
      ASSERT_TRUE(
          std::regex_search(real.out, trial, std::regex(std::string("\n") + strategy + " +([0-9]+) ")))
          << real.out;
      ASSERT_TRUE(
          std::regex_search(shapes.out, said_so, std::regex(std::string("\n") + strategy + " .* ([0-9]+)\n")))
          << shapes.out;
      EXPECT_LE(std::stol(said_so[1]), std::stol(trial[1])) << real.out << shapes.out;
      EXPECT_GE(double(std::stol(said_so[1])), 0.98 * double(std::stol(trial[1])) - 1)
          << real.out << shapes.out;
    }
  }
}

// A velocity in f32, and of weights of 16 bits what is kept beside them: 4 bytes, 2 or nothing.
TEST(Memory, OfSgdIsAVelocity) {
  constexpr double mib = 1 << 20, parameters = 124439808;
  const std::vector<std::pair<Arguments, double>> kinds = {
      {{}, 4},
      {{"--precision", "bf16-pure"}, 8},
      {{"--precision", "bf16-pure", "--master", "split"}, 6},
      {{"--precision", "bf16-pure", "--master", "stochastic"}, 4}};
  for (const auto& [more, bytes] : kinds)
    for (const int ranks : {1, 4}) {
      Arguments all = {"--model",     "gpt2_124m",
                       "--length",    "64",
                       "--recompute", "full",
                       "--ranks",     std::to_string(ranks),
                       "--zero",      ranks > 1 ? "1" : "0",
                       "--optimizer", "sgd"};
      all.insert(all.end(), more.begin(), more.end());
      const ProgramResult result = run_memory(all);
      ASSERT_EQ(result.code, 0) << result.err;
      std::smatch found;
      ASSERT_TRUE(std::regex_search(result.out, found, std::regex("optimizer +([0-9.]+) MiB"))) << result.out;
      EXPECT_NEAR(std::stod(found[1]), bytes * parameters / ranks / mib,
                  0.01 * bytes * parameters / ranks / mib)
          << result.out;
    }
}

TEST(Memory, SaysWhatDoesNotGoTogether) {
  EXPECT_NE(run_memory({"--optimizer", "sgd", "--precision", "bf16-pure", "--moments", "u8"})
                .err.find("--moments u8 is for --optimizer adamw, not sgd"),
            std::string::npos);
  EXPECT_NE(run_memory({"--zero", "1"}).err.find("--zero 1 shares between ranks: give --ranks too"),
            std::string::npos);
  EXPECT_NE(
      run_memory({"--master", "split"}).err.find("--master split is for --precision bf16-pure, not f32"),
      std::string::npos);
  EXPECT_NE(run_memory({"--moments", "u8"}).err.find("--moments u8 is for a pure --precision, not f32"),
            std::string::npos);
  EXPECT_NE(run_memory({"--recompute", "auto:50%"}).err.find("a plan needs a batch to be made for"),
            std::string::npos);
  EXPECT_NE(run_memory({"--recompute", "none", "offload"})
                .err.find("--recompute offload: nothing is computed here"),
            std::string::npos);
  EXPECT_EQ(run_memory({"--device", "cuda"}).code, 2);
}

}  // namespace
}  // namespace reprise::testing
