// A loader of files takes no more memory, and no more descriptors, the longer it runs.
// labels: concurrency
#include "reprise/data/datasets/image_folder.h"
#include "reprise/data/datasets/pack.h"
#include "reprise/data/datasets/tar_shards.h"
#include "reprise/tests/data/steady_loader.h"

namespace reprise::data {
namespace {

using namespace reprise::testing;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool memory_is_given_back = false;  // the sanitizer keeps some of what was freed
#else
constexpr bool memory_is_given_back = true;
#endif

TEST(Loader, StaysInMemory) {
  TempFolder folder;
  const ImageFolder photos(made_photos(folder, 300));
  expect_steady(photos, 6, "folder", memory_is_given_back);
  folder.write("shards/packed", "");
  pack(photos, folder / "shards");
  expect_steady(TarShards(shards_in(folder / "shards")), 6, "shards", memory_is_given_back);
}

}  // namespace
}  // namespace reprise::data
