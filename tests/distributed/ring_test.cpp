// Sums around a ring, or on GPUs of NCCL: within the bound of sums in f64, and whole ones of the same bits on all ranks.
// labels: concurrency
// not in tsan: Transports/Ring.Sums*/threads:Transports/Ring.Parts*/nccl
#include <gtest/gtest.h>

#include <cmath>

#include "reprise/core/hash.h"
#include "reprise/distributed/data_parallel/same_on_ranks.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/support/compare.h"

namespace reprise::distributed {
namespace {

using testing::expect_error;
using testing::Ranks;

// Element i of a rank, of any sign and of sizes far apart; exact in every dtype.
double element(int rank, int64_t i) {
  const uint64_t random = mix(mix(uint64_t(rank) + 77, uint64_t(i)));
  return (double(random % 256) - 128) * double(1 << (random >> 32) % 7);
}

Tensor elements(DType dtype, int rank, int64_t count) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(element(rank, i));
  return Tensor::from(values, {count}).to(dtype);
}

// Where a part of the sum over all ranks, which begins at element `first`, is off by too much.
// n - 1 additions in any order are off by (n - 1) u / (1 - (n - 1) u) of the sum of magnitudes at most (Higham 2002, 4.4). Half
// types are added in f32 first, whose roundoff is a thousandth of theirs at most.
std::string beyond_bound(int n, const Tensor& part, int64_t first) {
  const DType dtype = part.dtype();
  const std::vector<double> got = part.to(DType::f64).to_vector<double>();
  const double u = is_floating(dtype) ? 1.001 * testing::unit_roundoff(dtype) * (n - 1) : 0,
               bound = u / (1 - u);
  for (int64_t i = 0; i < part.numel(); ++i) {
    double want = 0, magnitudes = 0;
    for (int rank = 0; rank < n; ++rank) {
      want += element(rank, first + i);
      magnitudes += std::abs(element(rank, first + i));
    }
    if (std::abs(got[size_t(i)] - want) <= bound * magnitudes) continue;
    return detail::join(dtype, " of ", part.numel(), ", element ", first + i, ": got ", got[size_t(i)],
                        ", want ", want, "; ");
  }
  return "";
}

std::string check_sum(ProcessGroup& group, DType dtype, int64_t count) {
  const Tensor x = elements(dtype, group.rank(), count).to(group.device());
  group.ring_sum(x, "x").wait();
  if (const std::string wrong = beyond_bound(group.size(), x, 0); !wrong.empty()) return wrong;
  const std::string own = std::to_string(checksum_of(x));
  for (const std::string& other : group.gather_text(own))
    if (other != own) return detail::join(dtype, " of ", count, ": ranks have different bits");
  return "";
}

// `count` elements for each rank.
std::string check_scattered(ProcessGroup& group, DType dtype, int64_t count, bool in_place) {
  const int64_t first = group.rank() * count;
  const Tensor given = elements(dtype, group.rank(), count * group.size()),
               in = given.clone().to(group.device()),
               out = in_place ? in.slice(0, first, first + count)
                              : Tensor::zeros({count}, dtype, group.device());
  group.ring_scatter(out, in, "x").wait();
  if (!in_place && checksum_of(in) != checksum_of(given)) return "what is given has changed; ";
  const std::string wrong = beyond_bound(group.size(), out, first);
  return wrong.empty() ? "" : (in_place ? "in place, " : "apart, ") + wrong;
}

class Ring : public ::testing::TestWithParam<Ranks> {};

TEST_P(Ring, SumsAreWithinTheBoundOfSumsInF64) {
  for (int ranks : {1, 2, 3, 5})
    testing::expect_ranks_well(GetParam(), ranks, [](ProcessGroup& group) {
      std::string wrong;
      for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32})
        for (int64_t count : {0, 1, 33, 70, 1027, 65539}) wrong += check_sum(group, dtype, count);
      return wrong;
    });
}

TEST_P(Ring, PartsAreWithinTheBoundOfSumsInF64) {
  for (int ranks : {1, 2, 3, 5})
    testing::expect_ranks_well(GetParam(), ranks, [](ProcessGroup& group) {
      std::string wrong;
      for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32})
        for (int64_t count : {0, 1, 33, 70, 16387})
          for (bool in_place : {false, true}) wrong += check_scattered(group, dtype, count, in_place);
      return wrong;
    });
}

INSTANTIATE_TEST_SUITE_P(Transports, Ring, ::testing::ValuesIn(testing::kinds_with_devices()),
                         [](const auto& of) { return name_of(of.param); });

// Part p, of whole cache lines, is added from rank p on.
TEST(Ring, AddsEachPartFromItsOwnRankOn) {
  testing::expect_ranks_well(Ranks::threads, 3, [](ProcessGroup& group) -> std::string {
    const float values[] = {1, std::ldexp(1.0f, 24), -std::ldexp(1.0f, 24)};
    const Tensor x = Tensor::empty({48}).fill_(values[group.rank()]);
    group.ring_sum(x).wait();
    const std::vector<float> got = x.to_vector<float>();
    // (1 + 2^24) - 2^24 rounds to 0, (2^24 - 2^24) + 1 is 1, (-2^24 + 1) + 2^24 is 1.
    if (got[0] != 0 || got[15] != 0 || got[16] != 1 || got[31] != 1 || got[32] != 1 || got[47] != 1)
      return detail::join(got[0], ' ', got[16], ' ', got[32]);
    return "";
  });
}

// Part p is added from rank p + 1 on, and ends at rank p.
TEST(Ring, ScattersEachPartFromTheNextRankOn) {
  testing::expect_ranks_well(Ranks::threads, 3, [](ProcessGroup& group) -> std::string {
    const float values[] = {1, std::ldexp(1.0f, 24), -std::ldexp(1.0f, 24)};
    const Tensor out = Tensor::empty({5});
    group.ring_scatter(out, Tensor::empty({15}).fill_(values[group.rank()])).wait();
    // (2^24 - 2^24) + 1 is 1, (-2^24 + 1) + 2^24 is 1, (1 + 2^24) - 2^24 rounds to 0.
    const float want[] = {1, 1, 0};
    const std::vector<float> got = out.to_vector<float>();
    return got == std::vector<float>(5, want[group.rank()]) ? "" : detail::join(got[0], ' ', got[4]);
  });
}

TEST(Ring, RefusesWhatHasNoSum) {
  auto group = ProcessGroup::alone();
  expect_error([&] { group->ring_sum(Tensor::zeros({2}, DType::boolean)); }, "ring_sum: bool has no sum");
  const Tensor flags = Tensor::zeros({2}, DType::boolean), x = Tensor::zeros({8});
  expect_error([&] { group->ring_scatter(flags, flags); }, "ring_scatter: bool has no sum");
  expect_error([&] { group->ring_scatter(x, Tensor::zeros({9})); },
               "ring_scatter: in has 9 elements, 1 parts of out's 8 are 8");
  expect_error([&] { group->ring_scatter(x, Tensor::zeros({8}, DType::f64)); },
               "ring_scatter: in is f64, out is f32");
  expect_error([&] { group->ring_scatter(x.slice(0, 1, 5), x.slice(0, 0, 4)); }, "in and out overlap");
  expect_error([&] { group->ring_sum(Tensor::zeros({2, 3}).transpose(0, 1)); }, "is not contiguous");
}

}  // namespace
}  // namespace reprise::distributed
