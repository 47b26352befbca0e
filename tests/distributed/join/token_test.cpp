// Tokens: where they are read from, and whose files are believed.
#include "reprise/distributed/hub/token.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <iostream>
#include <set>

#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/support/child.h"
#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

using testing::expect_error;
using testing::outcome_of_child;
using testing::TempFolder;

const std::string kToken = "0123456789abcdef0123456789abcdef";

// In a process of its own, since variables are read once in each.
int check_that(bool well) { return well ? 0 : 1; }

std::string file_of_mode(const TempFolder& folder, const std::string& text, mode_t mode) {
  const std::string path = folder.write("token", text);
  EXPECT_EQ(::chmod(path.c_str(), mode), 0);
  return path;
}

TEST(Token, IsThatOfTheVariableAndGoneFromThere) {
  EXPECT_EQ(outcome_of_child([] {
              ::setenv("REPRISE_JOB_TOKEN", ("  " + kToken + "\n").c_str(), 1);
              const char* where = std::getenv("REPRISE_JOB_TOKEN");
              const bool is_read = take_token("") == kToken;
              return check_that(is_read && !std::getenv("REPRISE_JOB_TOKEN") && !*where &&
                                take_token("") == kToken);
            }),
            "exit 0");
}

TEST(Token, IsNotInTheEnvironmentThatProcShows) {
  EXPECT_EQ(outcome_of_child([] {
              const char* name = "REPRISE_TEST_IS_STARTED_WITH_A_TOKEN";
              ::setenv(name, "1", 1);
              ::setenv("REPRISE_JOB_TOKEN", kToken.c_str(), 1);
              ::execl("/proc/self/exe", "token", "--gtest_filter=Token.TakenByAProgramThatIsStartedWithIt",
                      static_cast<char*>(nullptr));
              return 2;
            }),
            "exit 0");
}

TEST(Token, TakenByAProgramThatIsStartedWithIt) {
  if (!std::getenv("REPRISE_TEST_IS_STARTED_WITH_A_TOKEN")) GTEST_SKIP() << "started by the test before";
  EXPECT_EQ(take_token(""), kToken);
  std::ifstream file("/proc/self/environ", std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_NE(all.find("REPRISE_TEST_IS_STARTED_WITH_A_TOKEN"), std::string::npos);
  EXPECT_EQ(all.find(kToken), std::string::npos);
}

TEST(Token, OfAPipeWins) {
  TempFolder folder;
  const std::string path = file_of_mode(folder, "a token of a file, of another job", 0600);
  EXPECT_EQ(outcome_of_child([&] {
              int ends[2];
              if (::pipe(ends) != 0 || ::write(ends[1], kToken.data(), kToken.size()) < 0) return 2;
              ::close(ends[1]);
              ::setenv("REPRISE_TOKEN_FD", std::to_string(ends[0]).c_str(), 1);
              ::setenv("REPRISE_JOB_TOKEN", "a token of a variable, of another job", 1);
              const bool is_read = take_token(path) == kToken;
              return check_that(is_read && !std::getenv("REPRISE_TOKEN_FD") &&
                                !std::getenv("REPRISE_JOB_TOKEN") && ::fcntl(ends[0], F_GETFD) < 0);
            }),
            "exit 0");
}

TEST(Token, OfAFileIsReadWhereNoOtherMayRead) {
  TempFolder folder;
  EXPECT_EQ(take_token(file_of_mode(folder, kToken + "\n", 0600)), kToken);
  EXPECT_EQ(take_token(file_of_mode(folder, kToken, 0400)), kToken);
  for (const auto& [mode, name] : std::vector<std::pair<mode_t, std::string>>{
           {0644, "0644"}, {0640, "0640"}, {0604, "0604"}, {0620, "0620"}, {0700, "0700"}, {04600, "4600"}}) {
    const std::string path = file_of_mode(folder, kToken, mode);
    expect_error([&] { take_token(path); }, "--token-file \"" + path + "\"", "has mode " + name, "0600");
  }
}

TEST(Token, OfAnotherUsersFileIsNotRead) {
  TempFolder folder;
  const std::string path = file_of_mode(folder, kToken, 0600);
  if (::geteuid() != 0 || ::chown(path.c_str(), 65534, 65534) != 0)
    GTEST_SKIP() << "only root can give a file away";
  expect_error([&] { take_token(path); }, path, "belongs to user 65534");
}

TEST(Token, OfAFileThatIsNoneIsAnError) {
  TempFolder folder;
  expect_error([&] { take_token(folder / "none"); }, folder / "none", "No such file");
  expect_error([&] { take_token(folder / ""); }, "is no regular file");
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_error([&] { take_token(pipe); }, pipe, "is no regular file");
}

TEST(Token, HasASize) {
  TempFolder folder;
  for (const std::string& text :
       {std::string(), std::string("  \n"), std::string(15, 'x'), std::string(5000, 'x')})
    expect_error([&] { take_token(file_of_mode(folder, text, 0600)); }, "bytes, not 16 to 4096",
                 "openssl rand -hex 16");
  EXPECT_EQ(take_token(file_of_mode(folder, std::string(16, 'x'), 0600)).size(), 16u);
}

TEST(Token, MadeIsOf128Bits) {
  std::set<std::string> tokens;
  for (int i = 0; i < 100; ++i) {
    const std::string token = new_token();
    EXPECT_EQ(token.size(), 32u);
    EXPECT_EQ(token.find_first_not_of("0123456789abcdef"), std::string::npos) << token;
    tokens.insert(token);
  }
  EXPECT_EQ(tokens.size(), 100u);
}

}  // namespace
}  // namespace reprise::distributed
