// The shape of the tree that spreads a roster.

#include "service/communicator/membership/roster_relay.h"

#include <gtest/gtest.h>

#include <vector>

namespace mccs {
namespace roster_relay_test {

TEST(RosterChildren, ReachAllHostsOnce) {
  for (const int hosts : {1, kDirectRosters, kDirectRosters + 1, 1024, 8192}) {
    std::vector<int> parents(static_cast<size_t>(hosts));
    for (int h = 0; h < hosts; ++h) {
      for (const HostIndex child : RosterChildren(HostIndex(h), hosts)) {
        EXPECT_GT(child.value(), h);
        ++parents[static_cast<size_t>(child.value())];
      }
    }
    for (int h = 0; h < hosts; ++h)
      EXPECT_EQ(parents[static_cast<size_t>(h)], h < kDirectRosters ? 0 : 1) << h;
  }
}

}  // namespace roster_relay_test
}  // namespace mccs
