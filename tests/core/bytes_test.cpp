// Sizes of memory, read and written.

#include <gtest/gtest.h>

#include "reprise/core/bytes.h"
#include "reprise/tests/support/compare.h"

namespace reprise {
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

TEST(FormatBytes, WritesMiBAndGiB) {
  const std::pair<size_t, const char*> cases[] = {{0, "0.0 MiB"},
                                                  {1, "0.00000095 MiB"},
                                                  {8000, "0.0076 MiB"},
                                                  {100'000, "0.095 MiB"},
                                                  {size_t(1) << 19, "0.50 MiB"},
                                                  {size_t(1) << 20, "1.0 MiB"},
                                                  {12'900'000, "12.3 MiB"},
                                                  {(size_t(1) << 30) - 1, "1024.0 MiB"},
                                                  {size_t(5) << 28, "1.25 GiB"},
                                                  {size_t(3) << 50, "3145728.00 GiB"}};
  for (auto [bytes, text] : cases) EXPECT_EQ(format_bytes(bytes), text);
  EXPECT_EQ(format_bytes(1e30), "931322574615478534144.00 GiB");
}

TEST(TwoDigits, ShowsWhatIsSmallAndNotZero) {
  const std::pair<double, const char*> cases[] = {{0, "0.0"},         {123.45, "123.5"}, {9.96, "10.0"},
                                                  {1, "1.0"},         {0.45, "0.45"},    {-0.031, "-0.031"},
                                                  {3e-6, "0.0000030"}};
  for (auto [value, text] : cases) EXPECT_EQ(two_digits(value), text);
  EXPECT_EQ(two_digits(std::nan("")), "-");
}

}  // namespace
}  // namespace reprise
