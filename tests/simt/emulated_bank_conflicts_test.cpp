// The emulator counts the bank conflicts of ldmatrix: what a missing swizzle costs on a GPU, where results do
// not show it.
#include <gtest/gtest.h>

#include "reprise/simt/emulator/options.h"
#include "reprise/tests/simt/ptx_kernels.h"

namespace reprise::simt::testing {
namespace {

/// Conflicts of an ldmatrix_x4 whose lane l reads row_of(l) of 64 rows of 16 bytes.
template <class RowOf>
uint64_t conflicts(const RowOf& row_of) {
  const Stream stream{Device::cuda(0)};
  PinnedArray<uint16_t> memory(64 * 8);
  PinnedArray<int> rows(32);
  PinnedArray<uint32_t> r(32 * 4);
  for (int lane = 0; lane < 32; ++lane) rows[size_t(lane)] = row_of(lane);
  run_ldmatrix(stream, 4, false, memory.data(), rows.data(), r.data());
  synchronize(stream);
  EXPECT_EQ(last_launch_stats().matrix_row_phases, 4u);
  return last_launch_stats().matrix_bank_conflicts;
}

TEST(EmulatedBankConflicts, RowsSideBySideHaveNone) {
  EXPECT_EQ(conflicts([](int lane) { return lane; }), 0u);
}

TEST(EmulatedBankConflicts, OneRowForAllLanesIsABroadcast) {
  EXPECT_EQ(conflicts([](int) { return 5; }), 0u);
}

/// Eight rows of 128 bytes: every row's piece 0 is in the same banks.
TEST(EmulatedBankConflicts, AColumnOfPiecesFallsOnTheSameBanks) {
  EXPECT_EQ(conflicts([](int lane) { return lane % 8 * 8; }), 4u * 7);
}

TEST(EmulatedBankConflicts, ASwizzledColumnHasNone) {
  EXPECT_EQ(conflicts([](int lane) { return lane % 8 * 8 + (lane / 8 ^ lane % 8); }), 0u);
}

}  // namespace
}  // namespace reprise::simt::testing
