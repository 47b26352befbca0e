// The progress line on a terminal: one row that is rewritten, and never longer than the terminal is wide.
#include <pty.h>
#include <termios.h>

#include "reprise/distributed/gloo/gloo_transport.h"
#include "reprise/tests/apps/gpt/program.h"

namespace reprise {
namespace {

using testing::Arguments;
using testing::TempFolder;

// All that the program writes to a terminal of this width.
std::string on_terminal(const Arguments& arguments, unsigned short columns, bool stops_writers = false) {
  std::vector<const char*> argv = {testing::gpt_program()};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  argv.push_back(nullptr);
  winsize size{24, columns, 0, 0};
  int terminal = -1;
  pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    setenv("TERM", "xterm", 1);
    termios modes{};
    tcgetattr(STDOUT_FILENO, &modes);
    if (stops_writers) modes.c_lflag |= TOSTOP;
    tcsetattr(STDOUT_FILENO, TCSANOW, &modes);
    execv(argv[0], const_cast<char* const*>(argv.data()));
    _exit(127);
  }
  std::string text;
  char piece[4096];
  for (ssize_t got; (got = read(terminal, piece, sizeof piece)) > 0;) text.append(piece, size_t(got));
  close(terminal);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << text;
  return text;
}

TEST(Terminal, TheProgressLineFitsIntoOneRow) {
  TempFolder folder;
  std::string data = folder.write("t.txt", testing::tiny_text());
  for (unsigned short columns : {1, 12, 40, 80, 200}) {
    std::string text =
        on_terminal(testing::train_arguments(data, folder / ("w" + std::to_string(columns)), 20), columns);
    constexpr std::string_view rewritten = "\r\x1b[K";
    size_t lines = 0;
    std::string last;
    for (size_t at = text.find(rewritten); at != std::string::npos; at = text.find(rewritten, at + 1)) {
      size_t begin = at + rewritten.size(), end = text.find_first_of("\r\n", begin);
      last = text.substr(begin, end - begin);
      EXPECT_LT(last.size(), columns) << last;
      ++lines;
    }
    EXPECT_GE(lines, 1u) << text;
    EXPECT_TRUE(columns < 40 || last.starts_with("step 20/20  loss ")) << last;
    EXPECT_TRUE(columns < 80 || last.find("eta 0:00") != std::string::npos) << last;
  }
}

// As `stty tostop` says, for programs in the background: of ranks that are no matter of the user's.
TEST(Terminal, RanksWriteWhereBackgroundProgramsAreStopped) {
  if (!distributed::has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  TempFolder folder;
  const std::string data = folder.write("t.txt", testing::tiny_text());
  const Arguments arguments =
      testing::train_arguments(data, folder / "run", 4, {"--accumulate", "2", "--ranks", "2"});
  EXPECT_NE(on_terminal(arguments, 80, true).find("Done: step 4"), std::string::npos);
}

}  // namespace
}  // namespace reprise
