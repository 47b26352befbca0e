// explain: the bytes are those that a Gpt's shapes give.
// labels: end-to-end
#include <map>
#include <regex>

#include "reprise/tests/apps/recompute/program.h"

namespace reprise::testing {
namespace {

/// The bytes and the dtypes of a line, such as "21.0 MiB f32, 242.0 MiB bf16".
std::string line_of(const std::string& out, const std::string& what) {
  const size_t begin = out.find("\n" + what);
  return begin == std::string::npos ? "" : out.substr(begin + 1, out.find('\n', begin + 1) - begin - 1);
}

// Run once for each precision: every test reads other lines of the same answer.
const std::string& explained(const std::string& precision) {
  static std::map<std::string, std::string> known;
  if (auto found = known.find(precision); found != known.end()) return found->second;
  // Blocks large enough that a tenth of a MiB says something: 8 x 64 tokens of width 256, so 0.5 MiB a number in f32.
  const ProgramResult result = run_recompute({"explain", "--model", "tiny", "--threads", "1", "--precision",
                                              precision, "--layers", "2", "--width", "256", "--heads", "4",
                                              "--context", "64", "--length", "64", "--batch", "8"});
  EXPECT_EQ(result.code, 0) << result.err;
  return known[precision] = result.out;
}

// 65 x 256 + 64 x 256 + 2 (12 x 256^2 + 13 x 256) + 2 x 256 parameters.
constexpr double parameters = 65 * 256 + 64 * 256 + 2 * (12 * 256 * 256 + 13 * 256) + 2 * 256;

std::string mib(double bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f MiB", bytes / 1024 / 1024);
  return text;
}

TEST(Explain, KnowsWhatStaysFromStepToStep) {
  for (const char* precision : {"f32", "bf16"}) {
    const std::string out = explained(precision);
    EXPECT_NE(line_of(out, "parameters").find(mib(4 * parameters) + " f32"), std::string::npos) << out;
    EXPECT_NE(line_of(out, "their gradients").find(mib(4 * parameters) + " f32"), std::string::npos) << out;
    EXPECT_NE(line_of(out, "the optimizer's state").find(mib(8 * parameters) + " f32"), std::string::npos)
        << out;
  }
}

// Weights of 16 bits with gradients and copies in f32; gamma and beta of norms, 2 x 512 for each of two blocks and 512 at
// the end, stay f32.
TEST(Explain, KnowsWeightsOf16Bits) {
  constexpr double of_norms = 5 * 2 * 256, weights = parameters - of_norms;
  for (const char* precision : {"bf16-pure", "f16-pure"}) {
    const std::string out = explained(precision),
                      dtype = std::string(precision).substr(0, precision[0] == 'b' ? 4 : 3);
    EXPECT_NE(line_of(out, "parameters").find(mib(2 * weights) + " " + dtype), std::string::npos) << out;
    EXPECT_NE(line_of(out, "their gradients").find(mib(4 * parameters) + " f32"), std::string::npos) << out;
    EXPECT_NE(line_of(out, "the optimizer's state").find(mib(8 * parameters + 4 * weights) + " f32"),
              std::string::npos)
        << out;
    EXPECT_EQ(line_of(out, "shadows"), "") << out;
  }
}

// bf16-pure by how AdamW's state is kept: 16 more bits of each weight for --master split and none for stochastic, moments in 2
// bytes each or in one, and those of the norms in f32 with all of it.
TEST(Explain, KnowsHowTheStateIsKept) {
  constexpr double of_norms = 5 * 2 * 256, weights = parameters - of_norms;
  auto state_of = [](const std::vector<std::string>& storage) {
    std::vector<std::string> arguments = {"explain",     "--model",   "tiny",     "--threads", "1",
                                          "--precision", "bf16-pure", "--layers", "2",         "--width",
                                          "256",         "--heads",   "4",        "--context", "64",
                                          "--length",    "64",        "--batch",  "8"};
    arguments.insert(arguments.end(), storage.begin(), storage.end());
    const ProgramResult result = run_recompute(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return line_of(result.out, "the optimizer's state");
  };
  EXPECT_NE(state_of({"--master", "split"}).find(mib(8 * parameters) + " f32"), std::string::npos);
  EXPECT_NE(state_of({"--master", "split"}).find(mib(2 * weights) + " "), std::string::npos);
  const std::string stochastic = state_of({"--master", "stochastic", "--moments", "bf16"});
  EXPECT_NE(stochastic.find(mib(4 * parameters) + " bf16"), std::string::npos) << stochastic;
  const ProgramResult refused = run_recompute({"explain", "--model", "tiny", "--master", "split"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("--master split is for --precision bf16-pure, not f32"), std::string::npos)
      << refused.err;
}

// Under autocast the weights of products, of which the head is the embedding, are read in 16 bits.
TEST(Explain, KnowsShadows) {
  EXPECT_EQ(line_of(explained("f32"), "shadows"), "");
  const double weights = 65 * 256 + 2 * 12 * 256 * 256;
  EXPECT_NE(line_of(explained("bf16"), "shadows").find(mib(2 * weights)), std::string::npos);
  const ProgramResult llama = run_recompute({"explain", "--model", "llama_tiny", "--precision", "f32"});
  EXPECT_EQ(line_of(llama.out, "shadows"), "") << "a table of angles is none: " << llama.out << llama.err;
}

// A block keeps 12 numbers for each channel of a token (docs/recompute.md): in f32 48 bytes, under autocast 28,
// with weights of 16 bits 24.
TEST(Explain, CountsWhatABlockKeeps) {
  const std::regex of_block("\n( {22}|h\\.0 \\.\\. h\\.1, each)[^\n]* ([0-9.]+) MiB");
  for (auto [precision, bytes] : {std::pair{"f32", 48.0}, {"bf16", 28.0}, {"bf16-pure", 24.0}}) {
    const std::string out = explained(precision);
    const size_t begin = out.find("h.0 .. h.1, each");
    ASSERT_NE(begin, std::string::npos) << out;
    std::string block = "\n" + out.substr(begin);
    block = block.substr(0, block.find("\noutside"));
    double sum = 0;
    for (auto it = std::sregex_iterator(block.begin(), block.end(), of_block); it != std::sregex_iterator();
         ++it)
      sum += std::stod((*it)[2]);
    EXPECT_NEAR(sum, bytes * 8 * 64 * 256 / 1024 / 1024, 0.4)
        << out;  // each line is rounded to a tenth; statistics of rows
  }
}

}  // namespace
}  // namespace reprise::testing
