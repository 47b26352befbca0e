// Sizes in bytes.
#include "reprise/apps/common/sizes.h"

#include <gtest/gtest.h>

#include "reprise/tests/support/compare.h"

namespace reprise::apps {
namespace {

TEST(ParseBytes, KnowsDecimalAndBinaryUnits) {
  EXPECT_EQ(parse_bytes("1000000"), 1'000'000u);
  EXPECT_EQ(parse_bytes("12B"), 12u);
  EXPECT_EQ(parse_bytes("3kB"), 3000u);
  EXPECT_EQ(parse_bytes("3KiB"), 3072u);
  EXPECT_EQ(parse_bytes("512MiB"), 512u << 20);
  EXPECT_EQ(parse_bytes("1.5GB"), 1'500'000'000u);
  EXPECT_EQ(parse_bytes("2GiB"), size_t{2} << 30);
  EXPECT_EQ(parse_bytes("1TiB"), size_t{1} << 40);
}

TEST(ParseBytes, RefusesAnythingElseAndSaysWhatIsWanted) {
  for (const char* text :
       {"", "GiB", "0", "0.3", "-1GiB", "2 GiB", "2gib", "2GiBs", "nan", "inf", "1e30", "12,5MB"})
    testing::expect_error([=] { parse_bytes(text); }, {"'" + std::string(text) + "'", "512MiB"});
}

}  // namespace
}  // namespace reprise::apps
