#include "lab/link_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/lab/small_fabric.h"

namespace mccs::lab {
namespace link_commands_test {

using testing::HasSubstr;

std::string Found(const Topology& topology, const std::vector<std::string>& words) {
  absl::StatusOr<LinkId> link = FindLinkByWords(topology, words);
  return link.ok() ? topology.link(*link).name : std::string(link.status().message());
}

TEST(LinkNames, FindsLinksByNameOrByEnds) {
  const Topology topology = SmallTopology();
  EXPECT_EQ(Found(topology, {"leaf0-spine1"}), "leaf0-spine1");
  EXPECT_EQ(Found(topology, {"leaf0", "spine1"}), "leaf0-spine1");
  EXPECT_EQ(Found(topology, {"spine1", "leaf0"}), "leaf0-spine1");
  EXPECT_EQ(Found(topology, {"leaf0", "h1/nic1"}), "h1/nic1-leaf0");
  EXPECT_EQ(Found(topology, {"h2", "leaf1"}), "h2/nic0-leaf1");
}

TEST(LinkNames, RejectsAmbiguousEnds) {
  EXPECT_THAT(Found(SmallTopology(), {"h1", "leaf0"}),
              HasSubstr("name one of h1/nic0-leaf0, h1/nic1-leaf0"));
}

TEST(LinkNames, RejectsUnknownLinks) {
  EXPECT_THAT(Found(SmallTopology(), {"leaf0", "leaf1"}),
              HasSubstr("no link between 'leaf0' and 'leaf1'"));
  EXPECT_THAT(Found(SmallTopology(), {"leaf9"}), HasSubstr("link 'leaf9' does not exist"));
}

}  // namespace link_commands_test
}  // namespace mccs::lab
