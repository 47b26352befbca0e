// How CUDA kernels cut rows and channels: a wrong answer gives the right numbers, slowly.
#include "reprise/kernels/cuda/rows.cuh"
#include "reprise/kernels/norm/channels.cuh"
#include "reprise/tests/kernels/views.h"

namespace reprise::kernels {
namespace {

using namespace testing;
using device::Fit;
using device::fit_of;

TEST(CudaRows, FitPacksWholeShiftedOrNotAtAll) {
  Array memory({4096}, DType::f16);
  auto rows = [&](int64_t offset, int64_t count, int64_t width, int64_t stride, int64_t column = 1) {
    TensorView view = memory.view();
    view.data = static_cast<char*>(view.data) + offset * 2;
    view.shape = {count, width};
    view.strides = {stride, column};
    return view;
  };
  const int64_t start = int64_t(reinterpret_cast<uintptr_t>(memory.view().data) % 16 / 2);
  const int64_t at = (8 - start) % 8;  // a 16-byte boundary
  const TensorView whole = rows(at, 3, 64, 64), absent;
  EXPECT_EQ(fit_of({&whole}), Fit::whole);
  EXPECT_EQ(fit_of({&whole, &absent}), Fit::whole);
  const TensorView odd = rows(at, 3, 63, 63), odd_too = rows(at + 256, 3, 63, 63);
  EXPECT_EQ(fit_of({&odd}), Fit::shifted)
      << "rows of one view start equally far behind a boundary as its own";
  EXPECT_EQ(fit_of({&odd, &odd_too, &absent}), Fit::shifted);
  const TensorView behind = rows(at + 256 + 1, 3, 63, 63), wider = rows(at + 256, 3, 63, 64),
                   packed_apart = rows(at + 256, 3, 63, 71), columns = rows(at, 3, 63, 126, 2);
  EXPECT_EQ(fit_of({&odd, &behind}), Fit::none) << "another distance from the boundary";
  EXPECT_EQ(fit_of({&odd, &wider}), Fit::none) << "from the second row on";
  EXPECT_EQ(fit_of({&odd, &packed_apart}), Fit::shifted) << "eight columns more per row are a pack";
  EXPECT_EQ(fit_of({&columns}), Fit::none);
}

struct Cut {
  bool warp, shifted;
  int N, K, max_block;
  bool operator==(const Cut&) const = default;
};

template <class T>
Cut cut_of(int64_t rows, int64_t width, Fit fit) {
  Cut result{};
  device::dispatch_rows<T, 32, true>(rows, width, fit, [&]<class C>(const device::RowGrid& grid) {
    result = {C::Team::is_warp, C::shifted, C::N, C::K, C::max_block};
    const int64_t teams = C::Team::is_warp ? grid.block.x / device::warp_threads : 1;
    EXPECT_LE(int(grid.block.x), C::max_block);
    EXPECT_GE(int64_t(grid.grid.x) * teams, std::min(rows, kRowBlocks));
    if (C::K > 0) {
      EXPECT_GE(int64_t(C::Team::is_warp ? device::warp_threads : grid.block.x) * C::N * C::K, width);
    }
  });
  return result;
}

TEST(CudaRows, AreCutByTheirLengthAndFit) {
  EXPECT_EQ(cut_of<float>(9, 256, Fit::whole), (Cut{true, false, 4, 2, 128}));
  EXPECT_EQ(cut_of<float>(9, 260, Fit::whole), (Cut{true, false, 4, 4, 128}));
  EXPECT_EQ(cut_of<float>(9, 516, Fit::whole), (Cut{true, false, 4, 6, 128}));
  EXPECT_EQ(cut_of<float>(9, 772, Fit::whole), (Cut{true, false, 4, 8, 128}));
  EXPECT_EQ(cut_of<float>(9, 1028, Fit::whole), (Cut{false, false, 4, 8, 512}));
  EXPECT_EQ(cut_of<float>(9, 16384, Fit::whole), (Cut{false, false, 4, 8, 512}));
  EXPECT_EQ(cut_of<float>(9, 16388, Fit::whole), (Cut{false, false, 4, 0, 1024}));
  EXPECT_EQ(cut_of<float>(9, 1025, Fit::shifted), (Cut{false, true, 4, 0, 512}));
  EXPECT_EQ(cut_of<float>(9, 1023, Fit::shifted), (Cut{true, false, 1, 0, 128}));
  EXPECT_EQ(cut_of<float>(9, 1025, Fit::none), (Cut{false, false, 1, 0, 512}));
  EXPECT_EQ(cut_of<double>(9, 1024, Fit::whole), (Cut{true, false, 1, 0, 128}));
  EXPECT_EQ(cut_of<double>(70'000, 1025, Fit::whole), (Cut{false, false, 1, 0, 512}));
}

template <class Cut>
device::ChannelPlan plan_of(const ChannelShape& shape) {
  return device::channel_plan<Cut>(shape, {});
}

TEST(CudaChannels, AreCutIntoPiecesThatFillAGpuAndKeepSumsShort) {
  using Places = device::ChannelCut<4, false>;
  using Columns = device::ChannelCut<4, true>;
  // 256 channels of 65,536 packs: four pieces each are 1,024 blocks, whose threads take 64 packs.
  EXPECT_EQ(plan_of<Places>({64, 256, 4096}).pieces, 4);
  EXPECT_EQ(plan_of<Places>({64, 256, 4096}).piece, 16384);
  // Twice as many samples: more blocks, as a chain is no longer than 64 packs.
  EXPECT_EQ(plan_of<Places>({128, 256, 4096}).pieces, 8);
  // One channel of 3,072 packs: four packs for a thread at least.
  EXPECT_EQ(plan_of<Places>({3, 1, 4096}).pieces, 3);
  EXPECT_EQ(plan_of<Places>({1, 5, 8}).pieces, 1);
  EXPECT_EQ(plan_of<Places>({0, 5, 8}).pieces, 0);
  // A block of columns has 128 channels and 8 threads for each.
  EXPECT_EQ(plan_of<Columns>({1024, 128, 1}).pieces, 32);
  EXPECT_EQ(plan_of<Columns>({1024, 128, 1}).piece, 32);
}

}  // namespace
}  // namespace reprise::kernels
