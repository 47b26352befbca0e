// What the main functions share: what was thrown as an exit code and one line.
#include "reprise/apps/common/program.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <map>
#include <new>
#include <stdexcept>
#include <system_error>

#include "reprise/core/error.h"
#include "reprise/core/memory.h"
#include "reprise/io/file.h"
#include "reprise/io/json.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::apps {
namespace {

struct Ended {
  int code;
  std::string line;
};

template <class Thrown>
Ended after(const Thrown& thrown) {
  ::testing::internal::CaptureStderr();
  int code = run_program("prog", 0, nullptr, [&]() -> int { throw thrown; });
  return {code, ::testing::internal::GetCapturedStderr()};
}

TEST(RunProgram, GivesTheExitCodeOfItsBody) {
  EXPECT_EQ(run_program("prog", 0, nullptr, [] { return 0; }), 0);
  EXPECT_EQ(run_program("prog", 0, nullptr, [] { return 3; }), 3);
}

TEST(RunProgram, LeavesItsMessageForTorchrun) {
  testing::TempFolder folder;
  const std::string file = folder / "error.json";
  setenv("TORCHELASTIC_ERROR_FILE", file.c_str(), 1);
  EXPECT_EQ(run_program("prog", 0, nullptr, [] { return 3; }), 3);
  EXPECT_FALSE(std::filesystem::exists(file)) << "no error";
  after(Error("rank 1: \"why\""));
  unsetenv("TORCHELASTIC_ERROR_FILE");
  const std::string text = io::read_file(file);
  std::map<std::string, std::string> left;
  io::JsonReader json(text, file);
  std::function<void()> read = [&] {
    json.object([&](const std::string& key) {
      if (json.peek() == io::JsonReader::Kind::object) return read();
      left[key] = json.string();
    });
  };
  read();
  json.end();
  EXPECT_EQ(left.at("message"), "rank 1: \"why\"");
  EXPECT_NEAR(double(std::stoll(left.at("timestamp"))), double(std::time(nullptr)), 60);
  EXPECT_EQ(text.find("{\"message\": {\"message\": \""), 0u) << text;
  EXPECT_NE(text.find(", \"extraInfo\": {\"timestamp\": \""), std::string::npos) << text;
}

TEST(RunProgram, LeavesALackOfMemoryForTorchrun) {
  testing::TempFolder folder;
  const std::string file = folder.write(
      "error.json", "what an earlier attempt has left, which is longer than what follows is to be: " +
                        std::string(200, 'x'));
  setenv("TORCHELASTIC_ERROR_FILE", file.c_str(), 1);
  EXPECT_EQ(after(std::bad_alloc()).code, 2);
  unsetenv("TORCHELASTIC_ERROR_FILE");
  const std::string text = io::read_file(file);
  const std::string begin =
      "{\"message\": {\"message\": \"prog: out of memory; what would have fitted is not known\", "
      "\"extraInfo\": "
      "{\"timestamp\": \"";
  ASSERT_EQ(text.substr(0, begin.size()), begin);
  size_t digits = 0;
  EXPECT_NEAR(double(std::stoll(text.substr(begin.size()), &digits)), double(std::time(nullptr)), 60);
  EXPECT_EQ(text.substr(begin.size() + digits), "\"}}}\n");
}

TEST(RunProgramDeathTest, NoMemoryWhereNothingMayBeThrownIsToldToo) {
  auto throws_no_memory = [] { throw std::bad_alloc(); };
  auto throws = [] { throw std::logic_error("why"); };
  auto starved = [&]() noexcept { throws_no_memory(); };
  auto broken = [&]() noexcept { throws(); };
  EXPECT_EXIT(run_program("prog", 0, nullptr,
                          [&] {
                            starved();
                            return 0;
                          }),
              ::testing::ExitedWithCode(2), "prog: out of memory");
  EXPECT_EXIT(run_program("prog", 0, nullptr,
                          [&] {
                            broken();
                            return 0;
                          }),
              ::testing::KilledBySignal(SIGABRT), "why");
}

TEST(RunProgram, LineBreaksOfArgumentsAreShown) {
  std::string name = "prog", option = "--data=a\nb", run = "c\nd";
  char* typed[] = {name.data(), option.data(), run.data()};
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run_program("prog", 3, typed, []() -> int { throw Error("--data: a\nb: c\nd, a\nb:\na list"); }),
            2);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "prog: --data: a\\nb: c\\nd, a\\nb:\na list\n");
}

TEST(RunProgram, WhatACallerCanReactToEndsWithTwo) {
  Ended ended = after(Error("--lr: no"));
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(ended.line, "prog: --lr: no\n");
  ended = after(std::filesystem::filesystem_error("status", "some/path",
                                                  std::make_error_code(std::errc::permission_denied)));
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(ended.line, "prog: some/path: Permission denied\n");
  ended = after(std::bad_alloc());
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(ended.line, "prog: out of memory; what would have fitted is not known\n");
  ended = after(OutOfMemory("out of memory on cpu: all of it"));
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(ended.line, "prog: out of memory on cpu: all of it; what would have fitted is not known\n");
  EXPECT_EQ(after(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again))).code,
            2);
}

TEST(RunProgram, ADefectEndsWithOneAndSaysThatItIsOne) {
  Ended ended = after(Bug("broken"));
  EXPECT_EQ(ended.code, 1);
  EXPECT_EQ(ended.line, "prog: internal error: broken\n");
}

TEST(RunProgram, ATerminalIsNotGivenTheControlCharactersOfAName) {
  EXPECT_EQ(after(Error("open: \x1b[2J")).line, "prog: open: \\x1b[2J\n");
}

}  // namespace
}  // namespace reprise::apps
