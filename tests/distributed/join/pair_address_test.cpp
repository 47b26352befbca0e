// Addresses of Gloo's pairs in frames of the hub.
#include "reprise/distributed/gloo/pair_address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstring>

#include "reprise/distributed/hub/frame.h"

namespace reprise::distributed {
namespace {

std::vector<char> address_bytes(const char* host, int port, ssize_t number) {
  sockaddr_storage storage{};
  auto& at = reinterpret_cast<sockaddr_in&>(storage);
  at.sin_family = AF_INET;
  at.sin_port = htons(uint16_t(port));
  inet_pton(AF_INET, host, &at.sin_addr);
  std::vector<char> bytes(sizeof(storage) + sizeof(number));
  std::memcpy(bytes.data(), &storage, sizeof(storage));
  std::memcpy(bytes.data() + sizeof(storage), &number, sizeof(number));
  return bytes;
}

TEST(PairAddress, ComesBackFromFewBytes) {
  for (const auto& bytes : {address_bytes("10.0.0.7", 65535, 1 << 20), address_bytes("0.0.0.0", 0, -1),
                            address_bytes("255.255.255.255", 1, 0)}) {
    EXPECT_EQ(packed_address(bytes).size(), 16u);
    EXPECT_EQ(unpacked_address(packed_address(bytes)), bytes);
  }
  std::vector<char> other = address_bytes("10.0.0.7", 5, 5);
  other[40] = 1;  // an IPv6 address may be there
  EXPECT_EQ(unpacked_address(packed_address(other)), other);
  EXPECT_EQ(unpacked_address(""), std::vector<char>());  // of a rank with itself
}

// What the hub sends without a token is the longest frame: per rank an address and two proofs.
TEST(PairAddress, ThoseOfAllRanksFitIntoAFrame) {
  const std::string address = packed_address(address_bytes("10.0.0.7", 65535, 1 << 20)), proof(16, 'x');
  Frame welcome{FrameKind::welcome};
  for (int r = 0; r < most_ranks; ++r) welcome.fields.insert(welcome.fields.end(), {address, proof, proof});
  EXPECT_LE(encode(welcome).size(), longest_frame + 5);
}

}  // namespace
}  // namespace reprise::distributed
