// The spill file: bytes come back, room is used again, no name is left in the folder, and errors.
#include "reprise/autograd/recompute/offload/spill_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "reprise/core/error.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

std::vector<char> text(size_t bytes, char seed) {
  std::vector<char> out(bytes);
  for (size_t i = 0; i < bytes; ++i) out[i] = char(seed + char(i % 61));
  return out;
}

std::vector<char> read(const SpillFile& file, const SpillFile::Extent& extent) {
  std::vector<char> out(size_t(extent.bytes));
  file.prefetch(extent);
  file.read(extent, out.data());
  return out;
}

TEST(SpillFile, ReturnsWhatWasWrittenWhateverTheOrder) {
  SpillFile file({});
  std::vector<SpillFile::Extent> extents;
  for (size_t bytes : {1, 4096, 5000, 100000}) {
    auto data = text(bytes, char(bytes));
    extents.push_back(file.write(data.data(), bytes));
  }
  for (size_t i = extents.size(); i-- > 0;) {
    auto bytes = size_t(extents[i].bytes);
    EXPECT_EQ(read(file, extents[i]), text(bytes, char(bytes)));
  }
}

TEST(SpillFile, WritesWhereRoomWasReleased) {
  SpillFile file({});
  auto data = text(10000, 'a');
  for (int step = 0; step < 5; ++step) {
    std::vector<SpillFile::Extent> extents;
    for (int i = 0; i < 4; ++i) extents.push_back(file.write(data.data(), data.size()));
    for (int i : {1, 3, 0, 2}) file.release(extents[size_t(i)]);
  }
  EXPECT_EQ(file.size(), 4 * 12288);
  auto all = text(4 * 12288, 'b');  // pieces that touch have become one
  SpillFile::Extent extent = file.write(all.data(), all.size());
  EXPECT_EQ(file.size(), 4 * 12288);
  EXPECT_EQ(read(file, extent), all);
}

TEST(SpillFile, LeavesItsNeighboursAlone) {
  SpillFile file({});
  auto a = text(8192, 'a'), b = text(8192, 'b'), c = text(100, 'c');
  auto first = file.write(a.data(), a.size()), second = file.write(b.data(), b.size());
  file.release(first);
  auto third = file.write(c.data(), c.size()), fourth = file.write(c.data(), c.size());
  EXPECT_EQ(read(file, second), b);
  EXPECT_EQ(read(file, third), c);
  EXPECT_EQ(read(file, fourth), c);
  EXPECT_EQ(file.size(), 16384);
}

TEST(SpillFile, HasNoNameInItsFolder) {
  fs::path folder = fs::temp_directory_path() / "reprise_spill_file_test";
  fs::create_directory(folder);
  {
    SpillFile file(folder);
    auto data = text(5000, 'x');
    auto extent = file.write(data.data(), data.size());
    EXPECT_TRUE(fs::is_empty(folder));
    EXPECT_EQ(read(file, extent), data);
  }
  fs::remove(folder);
}

TEST(SpillFile, NamesTheFolderThatIsNotThere) {
  try {
    SpillFile file("/nonexistent/folder");
    FAIL() << "no Error";
  } catch (const Error& error) {
    std::string message = error.what();
    EXPECT_NE(message.find("spill file: cannot make one in \"/nonexistent/folder\""), std::string::npos)
        << message;
  }
}

}  // namespace
}  // namespace reprise
