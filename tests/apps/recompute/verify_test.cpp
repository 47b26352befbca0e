// verify: the bits are the same with every strategy, and the report says what was gained.
// labels: end-to-end
#include "reprise/tests/apps/recompute/program.h"

namespace reprise::testing {
namespace {

TEST(Verify, PassesAndPrintsPeaksAndBitEqualityForEveryStrategy) {
  for (const char* strategy :
       {"full", "every:2", "keep:3", "sqrt", "layers:1,2", "offload", "selective", "auto:50%"}) {
    ProgramResult result = run_recompute(
        recompute_arguments("verify", {"--recompute", strategy, "--steps", "2", "--dropout", "0.1"}));
    EXPECT_EQ(result.code, 0) << result.out << result.err;
    for (const char* part :
         {"peak memory", "peak of activations + recompute", "held for backward", "time of a step",
          "PASS: losses, gradients, weights and buffers are bit-equal in all 2 steps"})
      EXPECT_NE(result.out.find(part), std::string::npos) << result.out << "lacks: " << part;
    EXPECT_NE(result.out.find(strategy), std::string::npos);
    EXPECT_EQ(result.out.find("to gain"), std::string::npos) << result.out;
  }
}

TEST(Verify, PassesInEveryPrecision) {
  for (const char* precision : {"bf16", "f16", "bf16-pure", "f16-pure"})
    for (const char* strategy : {"full", "selective", "auto:50%"}) {
      const ProgramResult result = run_recompute(recompute_arguments(
          "verify", {"--recompute", strategy, "--steps", "2", "--dropout", "0.1", "--precision", precision}));
      EXPECT_EQ(result.code, 0) << result.out << result.err;
      EXPECT_NE(result.out.find("PASS: losses, gradients, weights and buffers are bit-equal in all 2 steps"),
                std::string::npos)
          << precision << result.out;
    }
}

TEST(Verify, PassesForALlama) {
  for (const char* strategy : {"full", "every:2", "selective", "offload", "auto:50%"}) {
    const ProgramResult result = run_recompute(
        {"verify", "--model", "llama_tiny", "--recompute", strategy, "--steps", "2", "--threads", "1"});
    EXPECT_EQ(result.code, 0) << result.out << result.err;
    EXPECT_NE(result.out.find("Llama: 4 layers, 4 heads, width 32"), std::string::npos) << result.out;
    EXPECT_NE(result.out.find("PASS: losses, gradients, weights and buffers are bit-equal in all 2 steps"),
              std::string::npos)
        << result.out;
  }
}

TEST(Verify, PassesOnAText) {
  TempFolder folder;
  std::string text = folder.write("text", tiny_text());
  ProgramResult result = run_recompute(recompute_arguments("verify", {"--data", text, "--steps", "2"}));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("vocabulary 10"), std::string::npos) << result.out;
}

TEST(Verify, SaysSoWhenTheModelIsTooSmallToGain) {
  for (const Arguments& more :
       {Arguments{"--layers", "1", "--vocab-size", "20000"}, Arguments{"--recompute", "none"}}) {
    ProgramResult result = run_recompute(recompute_arguments("verify", more));
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_NE(result.out.find("too small, or the strategy too weak, to gain"), std::string::npos)
        << result.out;
  }
}

}  // namespace
}  // namespace reprise::testing
