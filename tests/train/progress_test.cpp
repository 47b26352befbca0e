// Numbers as the progress line shows them.
#include "reprise/train/progress.h"

#include <gtest/gtest.h>

#include <cmath>

namespace reprise::train {
namespace {

TEST(FitLine, DropsWhatMattersLeastAndNeverIsLongerThanTheColumns) {
  std::vector<LinePart> parts = {{"step 123/4000", 0}, {"loss 1.2345", 1}, {"lr 1e-3", 4}, {"eta 1:02", 2}};
  std::string whole = "step 123/4000  loss 1.2345  lr 1e-3  eta 1:02";
  EXPECT_EQ(fit_line(parts, 1000), whole);
  EXPECT_EQ(fit_line(parts, whole.size()), whole);
  EXPECT_EQ(fit_line(parts, whole.size() - 1), "step 123/4000  loss 1.2345  eta 1:02");
  EXPECT_EQ(fit_line(parts, 35), "step 123/4000  loss 1.2345");
  EXPECT_EQ(fit_line(parts, 20), "step 123/4000");
  EXPECT_EQ(fit_line(parts, 6), "step 1");
  EXPECT_EQ(fit_line(parts, 0), "");
}

TEST(FormatDuration, ShowsMinutesAndHours) {
  EXPECT_EQ(format_duration(0), "0:00");
  EXPECT_EQ(format_duration(59.6), "1:00");
  EXPECT_EQ(format_duration(75), "1:15");
  EXPECT_EQ(format_duration(3600 + 62), "1:01:02");
  EXPECT_EQ(format_duration(-5), "0:00");
  EXPECT_EQ(format_duration(INFINITY), "0:00");
}

}  // namespace
}  // namespace reprise::train
