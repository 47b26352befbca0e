// Text corpora: files, folders, standard input, and what is refused.
#include "reprise/io/text/text.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "reprise/io/file_calls.h"
#include "reprise/io/text/char_tokenizer.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::io {
namespace {

using testing::expect_error;
using testing::TempFolder;

// Standard input comes from a file while it lives.
class StandardInput {
 public:
  explicit StandardInput(const std::string& path) : saved_(dup(STDIN_FILENO)) {
    int descriptor = ::open(path.c_str(), O_RDONLY);
    dup2(descriptor, STDIN_FILENO);
    close(descriptor);
  }
  ~StandardInput() {
    dup2(saved_, STDIN_FILENO);
    close(saved_);
  }

 private:
  int saved_;
};

TEST(Text, ReadsAFile) {
  TempFolder folder;
  EXPECT_EQ(read_text(folder.write("a.txt", "hé\n")), "hé\n");
}

TEST(Text, TakesTheTextFilesOfAFolderSortedAndRecursively) {
  TempFolder folder;
  folder.write("b.txt", "second");
  folder.write("a.txt", "first\n");
  folder.write("sub/c.txt", "third");
  folder.write("notes.md", "not this");
  EXPECT_EQ(read_text(folder.path()), "first\nsecond\nthird");
}

TEST(Text, TakesAllFilesOfAFolderWithoutTextFiles) {
  TempFolder folder;
  folder.write("x/one", "1\n");
  folder.write("x/two", "2\n");
  EXPECT_EQ(read_text(folder.path()), "1\n2\n");
}

TEST(Text, ReadsStandardInput) {
  TempFolder folder;
  std::string long_text(300001, 'x');
  StandardInput input(folder.write("in", long_text));
  EXPECT_EQ(read_text("-"), long_text);
}

TEST(Text, RefusesNothing) {
  TempFolder folder;
  expect_error([&] { read_text(folder / "absent.txt"); }, "absent.txt", "No such file");
  expect_error([&] { read_text(folder.path()); }, folder.path(), "no regular file");
  expect_error([&] { read_text(folder.write("empty.txt", "")); }, "empty.txt", "no text");
  StandardInput input(folder / "empty.txt");
  expect_error([&] { read_text("-"); }, "standard input", "no text");
}

TEST(Text, NamesTheFirstByteThatIsNotUtf8) {
  TempFolder folder;
  expect_error([&] { read_text(folder.write("a.txt", "ab\xC3(")); }, "a.txt", "byte 2", "195");
}

TEST(Text, SplitsByCharacters) {
  auto [train, validation] = split_text("éééééééééx", 0.9);  // ten characters, nineteen bytes
  EXPECT_EQ(train, "ééééééééé");
  EXPECT_EQ(validation, "x");
  expect_error([] { split_text("x", 0.9); }, "too few");
  expect_error([] { split_text("text", 1.0); }, "between 0 and 1");
}

TEST(Text, KnowsTheFileAndByteOfEveryPosition) {
  TempFolder folder;
  std::string first = folder.write("1.txt", "abc"), second = folder.write("2.txt", "d\u00e9Z");
  std::vector<TextPart> parts;
  std::string text = read_text(folder.path(), &parts);
  ASSERT_EQ(text, "abc\nd\u00e9Z");
  TextOrigin whole{parts}, tail{parts, 5};
  EXPECT_EQ(whole.describe(0), "at byte 0 of " + first);
  EXPECT_EQ(whole.describe(4), "at byte 0 of " + second);
  EXPECT_EQ(tail.describe(2), "at byte 3 of " + second) << "the text at hand begins at byte 5";
  EXPECT_EQ(TextOrigin().describe(7), "at byte 7");

  CharTokenizer letters = CharTokenizer::from_text("abcd\u00e9\n");
  expect_error([&] { letters.encode(std::string_view(text).substr(5), tail); },
               "U+005A 'Z' at byte 3 of " + second);
  expect_error([&] { letters.encode("ab\xff", {parts}); }, "not UTF-8 at byte 2 of " + first);
}

TEST(Text, ReadsStandardInputThroughInterruptionsAndTellsFailures) {
  class Calls : public FileCalls {
   public:
    int reason = EINTR;
    ssize_t read(int descriptor, void* data, size_t bytes) override {
      if (++calls_ % 2 == 1) return errno = reason, -1;
      return FileCalls::read(descriptor, data, std::min<size_t>(bytes, 3));
    }

   private:
    int calls_ = 0;
  } calls;
  TempFolder folder;
  StandardInput input(folder.write("text", "0123456789"));
  FileCallsScope scope(calls);
  EXPECT_EQ(read_text("-"), "0123456789");
  calls.reason = EIO;
  expect_error([] { read_text("-"); }, "standard input", std::strerror(EIO));
}

TEST(Text, ReadsAPipeOfManyPieces) {
  TempFolder folder;
  std::string text;
  for (int i = 0; text.size() < 700000; ++i) text += std::to_string(i) + "\n";
  std::string path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(path) << text; });
  {
    StandardInput input(path);
    EXPECT_EQ(read_text("-"), text);
  }
  writer.join();
}

}  // namespace
}  // namespace reprise::io
