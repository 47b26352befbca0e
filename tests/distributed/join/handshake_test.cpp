// What a rank and the hub prove to each other, and the seals of their frames: nothing that was heard on another connection, sent
// back or changed is taken.
#include "reprise/distributed/hub/handshake.h"

#include <gtest/gtest.h>

#include <set>

#include "reprise/distributed/hub/mac.h"
#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

using testing::expect_error;

const std::string kToken = "0123456789abcdef0123456789abcdef", kOther = "another token of the same length";
const std::string kNonce(16, 'n'), kOtherNonce(16, 'o');
const Hello kHello{.rank = 1, .ranks = 3, .pid = 4711, .host = "a"};

class Join : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_mac()) GTEST_SKIP() << "this build has no libcrypto";
  }
};

TEST_F(Join, TakesARankOfTheJob) {
  const Handshake handshake(kToken, "job", kNonce);
  const Hello hello = handshake.proved(kHello);
  EXPECT_TRUE(handshake.admits(hello));
  const Hello got = hello_in(frame_of(hello));
  EXPECT_TRUE(handshake.admits(got)) << "it arrives as it was sent";
  EXPECT_EQ(got.pid, 4711);
  EXPECT_EQ(got.host, "a");
}

TEST_F(Join, TakesNoOtherTokenJobOrNonce) {
  const Hello hello = Handshake(kToken, "job", kNonce).proved(kHello);
  EXPECT_FALSE(Handshake(kOther, "job", kNonce).admits(hello));
  EXPECT_FALSE(Handshake(kToken, "job.2", kNonce).admits(hello)) << "another attempt";
  EXPECT_FALSE(Handshake(kToken, "job", kOtherNonce).admits(hello)) << "one that was heard before";
  EXPECT_FALSE(Handshake(kToken, "job", kNonce).admits(kHello)) << "no proof";
  EXPECT_FALSE(Handshake("", "job", "").admits(hello)) << "a hub without a token";
  EXPECT_TRUE(Handshake("", "job", "").admits(kHello)) << "none on both sides";
}

TEST_F(Join, ProvesAllThatTheHelloSays) {
  const Handshake handshake(kToken, "job", kNonce);
  const Hello hello = handshake.proved(kHello);
  auto changed = [&](auto&& change) {
    Hello other = hello;
    change(other);
    return handshake.admits(other);
  };
  EXPECT_FALSE(changed([](Hello& h) { h.rank = 2; }));
  EXPECT_FALSE(changed([](Hello& h) { h.ranks = 4; }));
  EXPECT_FALSE(changed([](Hello& h) { h.pid = 1; }));
  EXPECT_FALSE(changed([](Hello& h) { h.host = "b"; }));
  EXPECT_FALSE(changed([](Hello& h) { h.nonce = kNonce; }));
  EXPECT_FALSE(changed([](Hello& h) { h.proof.pop_back(); })) << "a part of the proof";
  for (size_t i = 0; i < mac_size; ++i)
    EXPECT_FALSE(changed([&](Hello& h) { h.proof[i] ^= 1; })) << "byte " << i;
}

TEST_F(Join, TakesNoProofThatIsSentBack) {
  const Handshake handshake(kToken, "job", kNonce);
  Hello hello = handshake.proved(kHello);
  EXPECT_NE(handshake.hub_proof(hello), hello.proof);
  EXPECT_FALSE(handshake.hub_proof(hello).empty());
  hello.proof = handshake.hub_proof(hello);
  EXPECT_FALSE(handshake.admits(hello));
}

TEST_F(Join, HasAKeyPerPurposeAndConnection) {
  std::set<std::string> made;
  for (const std::string& nonce : {kNonce, kOtherNonce}) {
    const Handshake handshake(kToken, "job", nonce);
    const Hello hello = handshake.proved(kHello);
    made.insert(
        {hello.proof, handshake.hub_proof(hello), handshake.key_to_hub(hello), handshake.key_to_rank(hello)});
  }
  EXPECT_EQ(made.size(), 8u);
  std::set<std::string> nonces;
  for (int i = 0; i < 1000; ++i) nonces.insert(Handshake(kToken, "job", kNonce).proved(kHello).nonce);
  EXPECT_EQ(nonces.size(), 1000u) << "a nonce was used again";
}

TEST_F(Join, PairsProveThemselvesInOneDirection) {
  std::set<std::string> made;
  for (const auto& [from, to] : std::vector<std::pair<int, int>>{{0, 1}, {1, 0}, {1, 10}, {11, 0}})
    made.insert(pair_proof(kToken, from, to, kNonce, kOtherNonce));
  made.insert(pair_proof(kToken, 0, 1, kOtherNonce, kNonce));
  made.insert(pair_proof(kOther, 0, 1, kNonce, kOtherNonce));
  EXPECT_EQ(made.size(), 6u);
}

TEST(Hello, OfWrongFormIsRefused) {
  const Frame good = frame_of(kHello);
  EXPECT_EQ(hello_in(good).rank, 1);
  for (size_t i = 0; i < good.fields.size(); ++i) {
    Frame bad = good;
    bad.fields.erase(bad.fields.begin() + std::ptrdiff_t(i));
    expect_error([&] { hello_in(bad); }, "hub: a ");
  }
  Frame beyond = good;
  beyond.fields[0] = "3";
  expect_error([&] { hello_in(beyond); }, "no number from 0 to 2 in field 0");
}

class Sealed : public Join {
 protected:
  static std::string sealed(Seal& seal, const Frame& frame) {
    const std::string bytes = encode(frame) + seal.mac_of(encode(frame));
    seal.advance();
    return bytes;
  }
  static FrameReader reader(const std::string& key, const std::string& bytes) {
    FrameReader made;
    made.seal(Seal(key));
    made.feed(bytes);
    return made;
  }
  const Frame beat{FrameKind::beat}, left{FrameKind::left, {"1"}};
};

TEST_F(Sealed, FramesArriveInTheirOrder) {
  Seal seal("key");
  std::string bytes;
  for (const Frame& frame : {beat, left, beat}) bytes += sealed(seal, frame);
  FrameReader got = reader("key", bytes);
  EXPECT_EQ(got.next()->kind, FrameKind::beat);
  EXPECT_EQ(got.next()->fields, left.fields);
  EXPECT_EQ(got.next()->kind, FrameKind::beat);
  EXPECT_FALSE(got.next());
}

TEST_F(Sealed, FrameThatIsSentAgainOrLeftOutIsNone) {
  Seal seal("key");
  const std::string first = sealed(seal, beat), second = sealed(seal, beat);
  EXPECT_NE(first, second) << "the same frame has another MAC";
  FrameReader again = reader("key", first + first);
  EXPECT_TRUE(again.next());
  expect_error([&] { again.next(); }, "MAC");
  FrameReader later = reader("key", second);
  expect_error([&] { later.next(); }, "MAC");
}

TEST_F(Sealed, FrameOfAnotherDirectionOrChangedIsNone) {
  Seal seal("key");
  const std::string bytes = sealed(seal, left);
  FrameReader other = reader("the key of the other direction", bytes);
  expect_error([&] { other.next(); }, "MAC");
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] ^= 1;
    FrameReader got = reader("key", changed);
    bool is_taken = false;
    try {
      is_taken = got.next().has_value();
    } catch (const Error&) {}
    EXPECT_FALSE(is_taken) << "byte " << i;
  }
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(reader("key", bytes.substr(0, size)).next()) << "not whole";
}

}  // namespace
}  // namespace reprise::distributed
