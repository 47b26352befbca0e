// One line when a run waits for its data.
#include "reprise/apps/common/data_wait.h"

#include <gtest/gtest.h>

namespace reprise::apps {
namespace {

// The lines of `steps` steps, with the number of the step in front.
std::string lines_of(DataWait& wait, int steps, double seconds, double waited) {
  std::string lines;
  for (int i = 1; i <= steps; ++i)
    if (std::string line = wait.add(seconds, waited, 10); !line.empty())
      lines += std::to_string(i) + " " + line + "\n";
  return lines;
}

TEST(DataWait, SaysWhatIsReachedAndWanted) {
  DataWait wait("images", "take more workers");
  EXPECT_EQ(lines_of(wait, 100, 0.5, 0.3),
            "21 waiting for images takes 60 % of a step: 20 images/s, without it 50; take more workers\n");
}

TEST(DataWait, AFifthIsTolerable) {
  DataWait wait("images", "");
  EXPECT_EQ(lines_of(wait, 101, 0.5, 0.0999), "");
  EXPECT_EQ(lines_of(wait, 100, 0.5, 0.11).substr(0, 3), "20 ") << "the next 20 steps, though not the first";
}

TEST(DataWait, TheFirstStepDoesNotCount) {
  DataWait wait("images", "");
  EXPECT_EQ(wait.add(100, 99, 10), "");
  EXPECT_EQ(lines_of(wait, 100, 0.5, 0.05), "");
}

}  // namespace
}  // namespace reprise::apps
