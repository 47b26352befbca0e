// Where ranks meet: addresses that are asked for, and the file by which rank 0 says where it is.
#include "reprise/distributed/hub/meeting.h"

#include <gtest/gtest.h>

#include <chrono>

#include "reprise/distributed/hub/address.h"
#include "reprise/distributed/hub/mac.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/file.h"
#include "reprise/io/folder.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

using testing::expect_error;
using testing::TempFolder;
using namespace std::chrono_literals;

const std::string kToken = "0123456789abcdef0123456789abcdef", kOther = "another token of the same length";

class Meetings : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_mac()) GTEST_SKIP() << "this build has no libcrypto";
  }
  TempFolder folder;
  std::vector<std::string> told;
  const Meeting::Tell tell = [this](const std::string& line) { told.push_back(line); };
};

TEST_F(Meetings, AreAtTheAddressThatIsAskedFor) {
  const Meeting first({.ranks = 2, .address = "203.0.113.5", .port = 29500}, kToken, "", tell);
  EXPECT_EQ(first.listen_address(), "203.0.113.5");
  EXPECT_EQ(first.ports().front(), 29500);
  EXPECT_EQ(first.ports().size(), size_t(1 + more_ports));
  EXPECT_EQ(first.place()->address, "203.0.113.5");
  const Meeting other({.rank = 1, .ranks = 2, .address = "203.0.113.5", .port = 29500}, kToken, "10.9.9.9",
                      tell);
  EXPECT_EQ(other.place()->address, "203.0.113.5") << "--bind is rank 0's";
  EXPECT_TRUE(told.empty());
}

TEST_F(Meetings, BindSaysWhatRank0ListensOn) {
  const Meeting one({.ranks = 2, .address = "203.0.113.5", .port = 29500}, kToken, "203.0.113.6", tell);
  EXPECT_EQ(one.listen_address(), "203.0.113.6");
  EXPECT_EQ(one.place()->address, "203.0.113.6") << "where rank 0 finds its own hub";
  EXPECT_TRUE(told.empty());
  const Meeting all({.ranks = 2, .address = "203.0.113.5", .port = 29500}, kToken, "0.0.0.0", tell);
  EXPECT_EQ(all.listen_address(), "0.0.0.0");
  EXPECT_EQ(all.place()->address, "203.0.113.5");
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].find("--bind 0.0.0.0: rank 0 listens on all networks"), std::string::npos) << told[0];
}

TEST_F(Meetings, BeyondLoopbackNeedAToken) {
  expect_error([&] { Meeting({.ranks = 2, .address = "203.0.113.5"}, "", "", tell); },
               "rank 0 is at \"203.0.113.5\"", "REPRISE_JOB_TOKEN", "--token-file");
  expect_error([&] { Meeting({.rank = 1, .ranks = 2, .address = "203.0.113.5"}, "", "", tell); },
               "REPRISE_JOB_TOKEN");
  expect_error([&] { Meeting({.ranks = 2}, "", "0.0.0.0", tell); }, "REPRISE_JOB_TOKEN");
  EXPECT_EQ(Meeting({.ranks = 2, .address = "localhost"}, "", "", tell).listen_address(), "127.0.0.1");
  expect_error([&] { Meeting({.ranks = 2, .address = "no.such.host.invalid"}, "", "", tell); },
               "has no address");
}

TEST_F(Meetings, AskForANameNoLongerThanTheTimeout) {
  for (const int rank : {0, 1}) {
    const auto begin = std::chrono::steady_clock::now();
    expect_error(
        [&] {
          Meeting({.rank = rank, .ranks = 2, .address = "no.such.host.invalid"}, kToken, "", tell, 700ms);
        },
        "rank 0 is at \"no.such.host.invalid\", which has no address");
    const auto time = std::chrono::steady_clock::now() - begin;
    EXPECT_GE(time, 700ms) << "it may come up late";
    EXPECT_LT(time, 20s) << "and what the name service itself takes";
  }
}

TEST_F(Meetings, RefuseAddressesOfIPv6AtOnce) {
  for (const std::string address : {"::1", "[::1]", "fe80::1%eth0", "2001:db8::5"}) {
    const std::string said =
        "rank 0 is at \"" + address + "\", which is no name of a machine; addresses are IPv4";
    for (const std::string& token : {std::string(), kToken}) {
      const auto begin = std::chrono::steady_clock::now();
      expect_error([&] { Meeting({.rank = 1, .ranks = 2, .address = address}, token, "", tell, 10s); }, said);
      expect_error([&] { Meeting({.ranks = 2}, token, address, tell, 10s); }, said);
      EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
    }
  }
}

TEST_F(Meetings, FileSaysWhereRank0Is) {
  const Environment first{
      .ranks = 2, .job = "a/b c", .address = "127.0.0.1", .rendezvous_folder = folder / ""};
  Environment second = first;
  second.rank = 1;
  second.address = "";
  const Meeting other(second, kToken, "", tell);
  EXPECT_FALSE(other.place()) << "not yet";
  {
    Meeting meeting(first, kToken, "", tell);
    EXPECT_EQ(meeting.ports(), std::vector{0});
    meeting.announce(31234);
    ASSERT_TRUE(other.place());
    EXPECT_EQ(other.place()->address, "127.0.0.1");
    EXPECT_EQ(other.place()->ports, std::vector{31234});
    EXPECT_EQ(io::names_in(folder / "").size(), 1u);
    second.job = "a/b_c";
    EXPECT_FALSE(Meeting(second, kToken, "", tell).place()) << "another job";
  }
  EXPECT_FALSE(other.place()) << "it is gone with the meeting";
  EXPECT_TRUE(io::names_in(folder / "").empty());
}

TEST_F(Meetings, FileOfAnotherJobOrAStrangerIsNotBelieved) {
  RendezvousFile file(folder / "", "job", kToken);
  for (const std::string& token : {kOther, std::string()}) {
    RendezvousFile strangers(folder / "", "job", token);
    strangers.write("203.0.113.5", 1234);
    io::write_file(file.path(), io::read_file(strangers.path()));
    EXPECT_FALSE(file.read()) << token;
  }
  file.write("203.0.113.5", 1234);
  const std::string good = io::read_file(file.path());
  ASSERT_TRUE(file.read());
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 2;
    io::write_file(file.path(), bad);
    EXPECT_FALSE(file.read()) << "byte " << i;
    io::write_file(file.path(), good.substr(0, i));
    EXPECT_FALSE(file.read()) << "cut at byte " << i;
  }
  file.write("203.0.113.6", 1235);
  EXPECT_EQ(file.read()->address, "203.0.113.6") << "a newer attempt has replaced it";
}

// As two jobs of one folder that no launcher gives a name.
TEST_F(Meetings, FilesOfTwoTokensDoNotMeet) {
  Environment first{.ranks = 2, .address = "127.0.0.1", .rendezvous_folder = folder / ""};
  Environment second = first;
  second.rank = 1;
  second.address = "";
  Meeting ours(first, kToken, "", tell);
  ours.announce(31234);
  const Meeting looks(second, kToken, "", tell);
  {
    Meeting theirs(first, kOther, "", tell);
    theirs.announce(31235);
    ASSERT_TRUE(looks.place()) << "the other job has replaced it";
    EXPECT_EQ(looks.place()->ports, std::vector{31234});
    EXPECT_EQ(Meeting(second, kOther, "", tell).place()->ports, std::vector{31235});
  }
  EXPECT_TRUE(looks.place()) << "the other job has removed it";
  const std::string name = io::names_in(folder / "").at(0);
  EXPECT_EQ(name.size(), std::string("reprise--0-01234567.address").size()) << name;
  EXPECT_EQ(name.substr(0, 11), "reprise--0-");
}

TEST(RendezvousFiles, AreRemovedByWhoWroteThemAlone) {
  TempFolder folder;
  RendezvousFile first(folder / "", "", ""), second(folder / "", "", "");
  first.write("127.0.0.1", 1234);
  second.write("127.0.0.1", 1235);
  first.remove();
  ASSERT_TRUE(second.read()) << "a later attempt's is gone";
  EXPECT_EQ(second.read()->ports, std::vector{1235});
  second.remove();
  EXPECT_TRUE(io::names_in(folder / "").empty());
  second.remove();
}

TEST(RendezvousFiles, WithoutATokenLeadToLoopbackAlone) {
  TempFolder folder;
  RendezvousFile file(folder / "", "job", "");
  file.write("127.0.0.1", 1234);
  EXPECT_EQ(file.read()->ports, std::vector{1234});
  file.write("203.0.113.5", 1234);
  EXPECT_FALSE(file.read());
}

}  // namespace
}  // namespace reprise::distributed
