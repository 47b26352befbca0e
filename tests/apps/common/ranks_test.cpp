// What the header of a run on ranks says.
#include "reprise/apps/common/ranks.h"

#include <gtest/gtest.h>

namespace reprise::apps {
namespace {

TEST(HostsLine, NamesEachHostWithItsRanks) {
  EXPECT_EQ(hosts_line({"a", "a"}), "Hosts: 1: a with ranks 0 1\n");
  EXPECT_EQ(hosts_line({"b", "b", "a", "b", "c"}),
            "Hosts: 3: b with ranks 0 1 3, a with rank 2, c with rank 4\n");
}

}  // namespace
}  // namespace reprise::apps
