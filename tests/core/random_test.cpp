// Philox against the known answers published with the paper (Random123, kat_vectors), and the generator's
// bookkeeping.
#include "reprise/core/random.h"

#include <gtest/gtest.h>

#include <thread>

namespace reprise {
namespace {

using Words = std::array<uint32_t, 4>;

TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, PutsBlockAndOffsetInTheCounterAndTheSeedInTheKey) {
  EXPECT_EQ(philox_block(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UnitFloatIsBelowOneAndExact) {
  EXPECT_EQ(to_unit_float(0), 0.0f);
  EXPECT_EQ(to_unit_float(255), 0.0f);
  EXPECT_EQ(to_unit_float(256), 0x1p-24f);
  EXPECT_EQ(to_unit_float(~0u), 1.0f - 0x1p-24f);
}

TEST(Generator, GivesEachUseItsOwnOffset) {
  Generator generator(7);
  EXPECT_EQ(generator.next(), (Generator::State{7, 0}));
  EXPECT_EQ(generator.next(), (Generator::State{7, 1}));
  EXPECT_EQ(generator.state().offset, 2u);
}

TEST(Generator, ContinuesFromARestoredState) {
  Generator generator(7);
  generator.next();
  Generator::State saved = generator.state();
  Generator::State drawn = generator.next();
  generator.set_state(saved);
  EXPECT_EQ(generator.next(), drawn);
}

TEST(Generator, DefaultBelongsToTheThread) {
  manual_seed(5);
  default_generator().next();
  std::thread([] {
    manual_seed(9);
    default_generator().next();
  }).join();
  EXPECT_EQ(default_generator().state(), (Generator::State{5, 1}));
}

}  // namespace
}  // namespace reprise
