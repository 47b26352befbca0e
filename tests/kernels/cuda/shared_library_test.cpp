// Libraries that are opened at run time: their functions, and what is said of those that are missing.
#include "reprise/kernels/cuda/shared_library.h"

#include <gtest/gtest.h>

#include "reprise/tests/support/errors.h"

namespace reprise::kernels::device {
namespace {

TEST(SharedLibrary, GivesFunctionsOfALibrary) {
  const SharedLibrary library("libm.so", 6);
  double (*cosine)(double) = nullptr;
  library.find("cos", cosine);
  EXPECT_EQ(cosine(0), 1);
  testing::expect_error([&] { library.find("cublasLtMatmul", cosine); }, "libm.so.6: has no cublasLtMatmul");
}

TEST(SharedLibrary, IsAnErrorThatNamesItIfItIsMissing) {
  testing::expect_error([] { SharedLibrary("libnone.so", 13); }, "libnone.so.13: cannot open shared object");
}

}  // namespace
}  // namespace reprise::kernels::device
