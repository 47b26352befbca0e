// A bit that differs on one rank is found, and told on all by name.
// labels: concurrency
#include "reprise/distributed/data_parallel/same_on_ranks.h"

#include <gtest/gtest.h>

#include <functional>

#include "reprise/tests/distributed/ranks.h"

namespace reprise::distributed {
namespace {

using testing::Ranks;

nn::NamedTensors some() {
  return {{"a", Tensor::from<float>({1, 2, 3}, {3})},
          {"b", Tensor::from<float>({4, 5, 6, 7}, {2, 2}).to(DType::bf16)},
          {"c", Tensor::from<float>({8, 9}, {2})}};
}

void flip_a_bit(const Tensor& x, int64_t byte) { static_cast<unsigned char*>(x.view().data)[byte] ^= 0x10; }

// What each of four ranks says.
std::vector<std::string> compare(const std::function<void(int rank, nn::NamedTensors& tensors)>& change) {
  return run_ranks(Ranks::threads, 4, [&](ProcessGroup& group) -> std::string {
    nn::NamedTensors tensors = some();
    change(group.rank(), tensors);
    check_same_on_ranks(group, tensors, "after step 7");
    return "";
  });
}

TEST(SameOnRanks, NamesTheTensorAndTheRanks) {
  for (int at_fault : {0, 2, 3}) {
    const auto told = compare([&](int rank, nn::NamedTensors& tensors) {
      if (rank == at_fault) flip_a_bit(tensors[1].second, 5), flip_a_bit(tensors[2].second, 0);
    });
    for (const std::string& one : told) {
      EXPECT_TRUE(one.starts_with("mismatch: ranks have other bits in b after step 7: CRC-32C ")) << one;
      EXPECT_NE(one.find(" on rank " + std::to_string(at_fault)), std::string::npos) << one;
      EXPECT_NE(one.find(at_fault == 2 ? " on ranks 0 1 3" : " 1 2"), std::string::npos) << one;
      EXPECT_EQ(one, told[0]);
    }
  }
}

TEST(SameOnRanks, FindsNothingWhereAllAreAlikeOrOneAloneIsWhole) {
  for (const std::string& one : compare([](int, nn::NamedTensors&) {})) EXPECT_EQ(one, "");
  const auto hollow = compare([](int rank, nn::NamedTensors& tensors) {
    const Tensor x = tensors[0].second;
    if (rank > 0) tensors[0].second = Tensor::hollow({nullptr, x.shape(), {1}, x.dtype(), x.device()});
    if (rank == 0) flip_a_bit(tensors[0].second, 3);
  });
  for (const std::string& one : hollow) EXPECT_EQ(one, "");
}

TEST(SameOnRanks, IsAMismatchWithItsExitCode) {
  run_ranks(Ranks::threads, 2, [](ProcessGroup& group) -> std::string {
    nn::NamedTensors tensors = some();
    if (group.rank() == 1) flip_a_bit(tensors[0].second, 11);
    try {
      check_same_on_ranks(group, tensors, "now");
      ADD_FAILURE() << "no error";
    } catch (const DistributedError& error) {
      EXPECT_EQ(error.kind(), FailureKind::mismatch);
      EXPECT_EQ(error.exit_code(), 5);
      EXPECT_EQ(error.tensor(), "a");
    }
    return "";
  });
}

// The check value of CRC-32C, however the tensor lies in memory.
TEST(SameOnRanks, ChecksumIsOfTheElementsInRowMajorOrder) {
  std::vector<uint8_t> digits;
  for (char c : std::string("147258369")) digits.push_back(uint8_t(c));
  const Tensor x = Tensor::from(digits, {3, 3});
  EXPECT_EQ(checksum_of(x.transpose(0, 1)), 0xE3069283u);
  EXPECT_NE(checksum_of(x), 0xE3069283u);
}

}  // namespace
}  // namespace reprise::distributed
