#include "lab/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace mccs::lab {
namespace placement_test {

using testing::ElementsAre;
using testing::HasSubstr;

// h0 with two GPUs, h1 with one, h2 with three.
LabState Uneven() {
  LabState lab;
  lab.name = "a";
  lab.daemons = {{"controller", "", 1, "ready", "", 0},
                 {"h0", "", 1, "ready", "", 2},
                 {"h1", "", 1, "ready", "", 1},
                 {"h2", "", 1, "ready", "", 3}};
  return lab;
}

// "h0:0/2 h0:1/2": host, local rank, ranks on that host.
std::string Placed(const LabState& lab, const PlacementOptions& options) {
  absl::StatusOr<std::vector<PlacedRank>> placed = PlaceRanks(lab, options);
  if (!placed.ok()) return std::string(placed.status().message());
  std::string text;
  for (const PlacedRank& rank : *placed) {
    absl::StrAppend(&text, text.empty() ? "" : " ", rank.host->name, ":", rank.local_rank, "/",
                    rank.local_world_size);
  }
  return text;
}

TEST(Placement, OneRankForEachGpu) {
  EXPECT_EQ(Placed(Uneven(), {}), "h0:0/2 h0:1/2 h1:0/1 h2:0/3 h2:1/3 h2:2/3");
}

TEST(Placement, FewerRanksFillTheFirstHosts) {
  EXPECT_EQ(Placed(Uneven(), {.ranks = 4, .ranks_per_host = 0, .hosts = {}}),
            "h0:0/2 h0:1/2 h1:0/1 h2:0/1");
  EXPECT_EQ(Placed(Uneven(), {.ranks = 0, .ranks_per_host = 1, .hosts = {}}),
            "h0:0/1 h1:0/1 h2:0/1");
}

TEST(Placement, UsesChosenHostsInOrder) {
  EXPECT_EQ(Placed(Uneven(), {.ranks = 0, .ranks_per_host = 0, .hosts = {"h2", "h0"}}),
            "h2:0/3 h2:1/3 h2:2/3 h0:0/2 h0:1/2");
}

TEST(Placement, HostsAreNumberedInTheOrderOfTheJob) {
  const LabState lab = Uneven();
  const absl::StatusOr<std::vector<PlacedRank>> placed =
      PlaceRanks(lab, {.ranks = 4, .ranks_per_host = 0, .hosts = {"h2", "h0"}});
  ASSERT_TRUE(placed.ok()) << placed.status();
  std::vector<int32_t> indices;
  for (const PlacedRank& rank : *placed) indices.push_back(rank.host_index);
  EXPECT_THAT(indices, ElementsAre(0, 0, 0, 1));
}

TEST(Placement, RejectsTooManyRanks) {
  EXPECT_THAT(Placed(Uneven(), {.ranks = 7, .ranks_per_host = 0, .hosts = {}}),
              HasSubstr("--ranks 7: 3 hosts take at most 6"));
  EXPECT_THAT(Placed(Uneven(), {.ranks = 0, .ranks_per_host = 2, .hosts = {}}),
              HasSubstr("--ranks-per-host 2: h1 has 1 GPU"));
  EXPECT_THAT(Placed(Uneven(), {.ranks = 0, .ranks_per_host = 0, .hosts = {"h7"}}),
              HasSubstr("'h7'"));
  EXPECT_THAT(Placed(Uneven(), {.ranks = 0, .ranks_per_host = 0, .hosts = {"h0", "h0"}}),
              HasSubstr("twice"));
}

}  // namespace placement_test
}  // namespace mccs::lab
