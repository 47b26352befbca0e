// What the emulator makes of mistakes with the instructions of simt/ptx.h. A GPU makes a mess of them.
#include <gtest/gtest.h>

#include <string>

#include "reprise/core/error.h"
#include "reprise/tests/simt/ptx_kernels.h"
#include "reprise/tests/support/errors.h"

namespace reprise::simt::testing {
namespace {

class PtxMisuse : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::is_emulated()) GTEST_SKIP() << "only the emulator reports misuse";
    for (size_t i = 0; i < from_.size(); ++i) from_[i] = static_cast<unsigned char>(i % 251);
  }
  void run(Misuse misuse) {
    run_misuse(stream_, misuse, from_.data(), to_.data());
    synchronize(stream_);
  }
  size_t wrong_bytes() {
    size_t wrong = 0;
    for (size_t i = 0; i < to_.size(); ++i) wrong += to_[i] != from_[i];
    return wrong;
  }
  std::string error_of(Misuse misuse) {
    return reprise::testing::error_of([&] { run(misuse); });
  }
  void expect_misuse(Misuse misuse, const char* instruction, const char* fact) {
    reprise::testing::expect_error([&] { run(misuse); }, instruction, fact, "ptx_kernels.cu:");
  }

  Stream stream_{Device::cuda(0)};
  PinnedArray<unsigned char> from_{32 * 16 + 16}, to_{32 * 16};
};

TEST_F(PtxMisuse, CorrectUsePasses) {
  run(Misuse::none);
  EXPECT_EQ(wrong_bytes(), 0u);
}

/// Plain builds report the load of what is not there yet; under sanitizers its bytes are wrong.
TEST_F(PtxMisuse, CopiesThatWereNotWaitedForAreNotThere) {
  for (Misuse misuse : {Misuse::no_wait, Misuse::lax_wait, Misuse::no_commit}) {
    try {
      run(misuse);
      EXPECT_GE(wrong_bytes(), 510u) << int(misuse);  // bytes lost are 255; two of 512 may be so by chance
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("shared memory"), std::string::npos) << error.what();
    }
  }
}

TEST_F(PtxMisuse, UnalignedAddressesAreReported) {
  expect_misuse(Misuse::unaligned_destination, "cp.async", "16-byte aligned");
  expect_misuse(Misuse::unaligned_source, "cp.async", "16-byte aligned");
  expect_misuse(Misuse::unaligned_row, "ldmatrix", "16-byte aligned");
}

TEST_F(PtxMisuse, RowsOutsideSharedMemoryAreReported) {
  expect_misuse(Misuse::row_in_global_memory, "ldmatrix", "shared memory");
}

TEST_F(PtxMisuse, PartsOfWarpsAreReported) {
  expect_misuse(Misuse::partial_warp, "ldmatrix", "not complete");
  expect_misuse(Misuse::barrier_of_part_of_a_warp, "bar.sync", "24 threads");
  expect_misuse(Misuse::barrier_id, "bar.sync", "barrier 16");
}

}  // namespace
}  // namespace reprise::simt::testing
