// CRC-32C against the examples of RFC 3720, appendix B.4, and the customary check value.
#include "reprise/io/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace reprise::io {
namespace {

TEST(Crc32c, AgreesWithTheRfc) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  std::string ascending, descending;
  for (char c = 0; c < 32; ++c) {
    ascending += c;
    descending += char(31 - c);
  }
  EXPECT_EQ(crc32c(ascending), 0x46DD794Eu);
  EXPECT_EQ(crc32c(descending), 0x113FDB5Cu);
}

TEST(Crc32c, ContinuesOverPieces) { EXPECT_EQ(crc32c("6789", crc32c("12345")), 0xE3069283u); }

TEST(Crc32c, MaskRotatesAndAdds) {
  // rotr(0xE3069283, 15) = 0x2507C60D, and 0x2507C60D + 0xA282EAD8 = 0xC78AB0E5.
  EXPECT_EQ(masked_crc32c("123456789"), 0xC78AB0E5u);
}

}  // namespace
}  // namespace reprise::io
