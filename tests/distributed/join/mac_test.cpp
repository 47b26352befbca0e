// HMAC-SHA-256 against RFC 4231, and comparing.
#include "reprise/distributed/hub/mac.h"

#include <gtest/gtest.h>

#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

std::string bytes_of(const std::string& digits) {
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2) bytes += char(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

// RFC 4231, sections 4.2 to 4.8; the fifth is cut to 128 bits there.
struct Vector {
  std::string key, text, mac;
};
const std::vector<Vector> kVectors{
    {std::string(20, '\x0b'), "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
    {"Jefe", "what do ya want for nothing?",
     "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
    {std::string(20, '\xaa'), std::string(50, '\xdd'),
     "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
    {bytes_of("0102030405060708090a0b0c0d0e0f10111213141516171819"), std::string(50, '\xcd'),
     "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
    {std::string(20, '\x0c'), "Test With Truncation", "a3b6167473100ee06e0c796c2955552b"},
    {std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First",
     "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
    {std::string(131, '\xaa'),
     "This is a test using a larger than block-size key and a larger than block-size data. The key needs to "
     "be hashed before being used by the HMAC algorithm.",
     "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"}};

TEST(Mac, IsThatOfRfc4231) {
  if (!has_mac()) GTEST_SKIP() << "this build has no libcrypto";
  for (const Vector& vector : kVectors) {
    const std::string want = bytes_of(vector.mac), mac = hmac_sha256(vector.key, vector.text);
    EXPECT_EQ(mac.size(), mac_size);
    EXPECT_EQ(mac.substr(0, want.size()), want) << vector.text;
  }
}

TEST(Mac, NeedsLibcrypto) {
  if (has_mac()) GTEST_SKIP() << "this build has libcrypto";
  testing::expect_error([] { hmac_sha256("key", "text"); }, "libssl-dev");
}

TEST(Mac, IsComparedToItsLastByte) {
  const std::string mac(32, 'm');
  EXPECT_TRUE(is_same_secret(mac, mac));
  EXPECT_TRUE(is_same_secret("", ""));
  for (size_t i = 0; i < mac.size(); ++i) {
    std::string other = mac;
    other[i] ^= 1;
    EXPECT_FALSE(is_same_secret(mac, other)) << "byte " << i;
    EXPECT_FALSE(is_same_secret(mac, mac.substr(0, i))) << "a part is not the whole";
    EXPECT_FALSE(is_same_secret(mac.substr(0, i), mac));
  }
}

}  // namespace
}  // namespace reprise::distributed
