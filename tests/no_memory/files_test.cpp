// Files where memory lacks: what was not written whole is not there, and nothing stays open.
#include <gtest/gtest.h>

#include <filesystem>

#include "reprise/io/atomic_file.h"
#include "reprise/io/folder.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/no_memory/failing_new.h"

namespace reprise::io {
namespace {

int64_t open_descriptors() { return int64_t(names_in("/proc/self/fd").size()); }

TEST(NoMemoryForFiles, LeavesNoneBehind) {
  testing::TempFolder folder;
  const std::string path = folder / "a file whose name is too long to lie within a string";
  const int64_t open_before = open_descriptors();
  for (int64_t k = 0;; ++k) {
    testing::fail_allocation(k, testing::Failing::one);
    bool is_written = true;
    try {
      write_file(path, "words");
    } catch (const std::bad_alloc&) { is_written = false; }
    const bool has_failed = testing::failed_allocations() > 0;
    testing::fail_no_allocation();
    EXPECT_EQ(open_descriptors(), open_before) << "allocation " << k;
    // It may be there already, whole, when the memory to make its name durable lacks.
    const std::vector<std::string> names = names_in(folder / "");
    EXPECT_LE(names.size(), 1u) << "allocation " << k;
    if (!names.empty()) {
      EXPECT_EQ(folder / names.front(), path) << "allocation " << k;
      EXPECT_EQ(read_file(path), "words");
    }
    std::filesystem::remove(path);
    if (has_failed) continue;
    EXPECT_TRUE(is_written && !names.empty());
    return;
  }
}

}  // namespace
}  // namespace reprise::io
