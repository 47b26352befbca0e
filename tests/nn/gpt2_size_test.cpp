// The size of GPT-2: its smallest model takes half a gigabyte and a second to make.
// labels: slow
#include <gtest/gtest.h>

#include "reprise/nn/models/gpt.h"

namespace reprise::nn {
namespace {

TEST(Gpt2, SmallestHas124Point4MillionParameters) {
  // 12 layers of 12 C^2 + 13 C, tables of 50257 and 1024 rows of C, a last norm of 2 C, with C = 768. Radford
  // et al.'s checkpoint has as many.
  Gpt model({});
  EXPECT_EQ(model.parameter_count(), 124'439'808);
  EXPECT_EQ(model.parameters().size(), 148u);
}

}  // namespace
}  // namespace reprise::nn
