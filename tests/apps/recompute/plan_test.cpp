// plan: the frontier, and a plan that keeps to its budget.
// labels: end-to-end
#include <sstream>

#include "reprise/tests/apps/recompute/program.h"
#include "reprise/tests/plot/no_overlaps.h"

namespace reprise::testing {
namespace {

// The first number in the text after `label`.
double number_after(const std::string& text, const std::string& label) {
  size_t at = text.find(label);
  EXPECT_NE(at, std::string::npos) << text << "lacks: " << label;
  return at == std::string::npos ? 0 : std::strtod(text.c_str() + at + label.size(), nullptr);
}

TEST(Plan, PrintsAFrontierFromTheLeastMemoryToNoRecompute) {
  TempFolder folder;
  ProgramResult result = run_recompute(recompute_arguments("plan", {"--out", folder / "out"}));
  ASSERT_EQ(result.code, 0) << result.err;
  size_t table = result.out.find("predicted"), end = result.out.find("written to");
  std::istringstream lines(result.out.substr(result.out.find('\n', table) + 1, end - table));
  std::vector<double> peaks, seconds;
  std::string line, last;
  while (std::getline(lines, line) && line.find("MiB") != std::string::npos) {
    double peak = 0, ms = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "%lf MiB %lf ms", &peak, &ms), 2) << line;
    peaks.push_back(peak);
    seconds.push_back(ms);
    last = line;
  }
  ASSERT_GE(peaks.size(), 2u) << result.out;
  EXPECT_TRUE(std::is_sorted(peaks.begin(), peaks.end()));
  EXPECT_TRUE(std::is_sorted(seconds.rbegin(), seconds.rend()));
  EXPECT_NE(last.find("   0-3"), std::string::npos) << "the fastest plan recomputes nothing: " << last;
  std::string page = bytes_of_file(folder / "out/plan.html");
  for (const char* part :
       {"</html>", "The fastest step for each memory budget", ">none</text>", ">full</text>"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  expect_readable(page);
}

TEST(Plan, TrainsWithinItsBudgetAndAsPredicted) {
  for (const char* precision : {"f32", "bf16"}) {
    TempFolder folder;
    ProgramResult result =
        run_recompute(recompute_arguments("plan", {"--precision", precision, "--recompute", "auto:1.3MiB",
                                                   "--rounds", "1", "--out", folder / "out"}));
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_LE(number_after(result.out, "for auto:1.3MiB"), 1.3) << precision;
    EXPECT_LE(number_after(result.out, "measured:"), 1.3) << precision;
    EXPECT_LT(number_after(result.out, "the predicted peak is"), 1.0) << precision;
    EXPECT_NE(bytes_of_file(folder / "out/plan.html").find(">chosen</text>"), std::string::npos);
  }
}

}  // namespace
}  // namespace reprise::testing
