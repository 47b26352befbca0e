// Who may train in a run folder.
#include "reprise/train/run_lock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/support/child.h"

namespace reprise::train {
namespace {

using testing::expect_error;
using testing::TempFolder;
namespace fs = std::filesystem;

const RunLock::Tell no_warning = [](const std::string& text) { ADD_FAILURE() << text; };

TEST(RunLock, IsHeldOnceAndNamesItsHolder) {
  TempFolder run;
  {
    RunLock held(run.path(), no_warning);
    std::string holder = "process " + std::to_string(::getpid()) + " on ";
    expect_error([&] { RunLock(run.path(), no_warning); }, run.path(), holder);
    TempFolder other;
    RunLock elsewhere(other.path(), no_warning);
  }
  RunLock again(run.path(), no_warning);
}

TEST(RunLock, AFileThatWasLeftBehindMeansNothing) {
  TempFolder run;
  run.write("lock", "process 1 on nowhere\n");
  RunLock held(run.path(), no_warning);
}

TEST(RunLock, GoesWithTheProcessThatIsKilled) {
  TempFolder run;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  pid_t child = testing::fork_at_rest();
  if (child == 0) {
    RunLock held(run.path(), no_warning);
    if (::write(ready[1], "x", 1) == 1) ::pause();
    ::_exit(1);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  expect_error([&] { RunLock(run.path(), no_warning); }, "process " + std::to_string(child));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  RunLock held(run.path(), no_warning);
  ::close(ready[0]);
  ::close(ready[1]);
}

// A link could make the holder's name replace the contents of a file elsewhere.
TEST(RunLock, ALinkOrFolderInItsPlaceIsAnError) {
  TempFolder run;
  std::string victim = run.write("victim", "text");
  fs::create_symlink(victim, run / "lock");
  expect_error([&] { RunLock(run.path(), no_warning); }, run / "lock");
  EXPECT_EQ(fs::file_size(victim), 4u);
  fs::remove(run / "lock");
  fs::create_directory(run / "lock");
  expect_error([&] { RunLock(run.path(), no_warning); }, run / "lock");
  expect_error([&] { RunLock(run / "none", no_warning); }, run / "none");
}

}  // namespace
}  // namespace reprise::train
