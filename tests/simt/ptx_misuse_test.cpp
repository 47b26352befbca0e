// What the emulator makes of mistakes with the instructions of simt/ptx.h. A GPU makes a mess of them.
#include <gtest/gtest.h>

#include <string>

#include "reprise/core/error.h"
#include "reprise/tests/simt/ptx_kernels.h"

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
  /// The error's text; fails if there is none.
  std::string error_of(Misuse misuse) {
    try {
      run(misuse);
    } catch (const Error& error) { return error.what(); }
    ADD_FAILURE() << "no error";
    return "";
  }
  void expect_error(Misuse misuse, const char* instruction, const char* fact) {
    const std::string text = error_of(misuse);
    EXPECT_NE(text.find(instruction), std::string::npos) << text;
    EXPECT_NE(text.find(fact), std::string::npos) << text;
    EXPECT_NE(text.find("ptx_kernels.cu:"), std::string::npos) << text;
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
  expect_error(Misuse::unaligned_destination, "cp.async", "16-byte aligned");
  expect_error(Misuse::unaligned_source, "cp.async", "16-byte aligned");
  expect_error(Misuse::unaligned_row, "ldmatrix", "16-byte aligned");
}

TEST_F(PtxMisuse, RowsOutsideSharedMemoryAreReported) {
  expect_error(Misuse::row_in_global_memory, "ldmatrix", "shared memory");
}

TEST_F(PtxMisuse, PartsOfWarpsAreReported) {
  expect_error(Misuse::partial_warp, "ldmatrix", "not complete");
  expect_error(Misuse::barrier_of_part_of_a_warp, "bar.sync", "24 threads");
  expect_error(Misuse::barrier_id, "bar.sync", "barrier 16");
}

}  // namespace
}  // namespace reprise::simt::testing
