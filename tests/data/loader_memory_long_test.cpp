// The same over as many images as a small set of photographs has.
// labels: concurrency long
#include "reprise/data/datasets/image_folder.h"
#include "reprise/tests/data/steady_loader.h"

namespace reprise::data {
namespace {

using namespace reprise::testing;

TEST(LoaderOf20000Images, StaysInMemory) {
  TempFolder folder;
  const ImageFolder photos(made_photos(folder, 20'000));
  expect_steady(photos, 3, "folder");
}

}  // namespace
}  // namespace reprise::data
