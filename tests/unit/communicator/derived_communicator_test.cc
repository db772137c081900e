// The ranks and the id of a derived communicator.
#include "service/communicator/membership/derived_communicator.h"

#include <gtest/gtest.h>

#include <climits>
#include <set>

namespace mccs {
namespace derived_communicator_test {

std::vector<int> Numbers(const std::vector<Rank>& ranks) {
  std::vector<int> numbers;
  for (Rank rank : ranks) numbers.push_back(rank.value());
  return numbers;
}

TEST(DerivedCommunicator, OrdersRanksByKeyThenRank) {
  const SplitChoice choices[] = {{1, 5}, {0, 0}, {1, INT_MIN}, {-1, 0}, {1, 5}, {1, INT_MAX}};
  EXPECT_EQ(Numbers(RanksOfColor(choices, 1)), (std::vector<int>{2, 0, 4, 5}));
  EXPECT_EQ(Numbers(RanksOfColor(choices, 0)), (std::vector<int>{1}));
  EXPECT_TRUE(RanksOfColor(choices, 2).empty());
}

TEST(DerivedCommunicator, IdsDependOnParentKindAndFacts) {
  const ParentIdentity parent{.key = {1, 2, 3}, .id = CommId(7)};
  const ParentIdentity outsider{.key = {1, 2, 4}, .id = CommId(7)};
  const ParentIdentity sibling{.key = {1, 2, 3}, .id = CommId(8)};
  const int64_t facts[] = {1, 0};
  const int64_t others[] = {0, 1};
  auto id = [](const ParentIdentity& of, std::string_view kind, std::span<const int64_t> what) {
    return DeriveId(of, kind, what).comm_id;
  };
  EXPECT_EQ(id(parent, "split", facts), id(parent, "split", facts));
  const std::set<uint64_t> all = {id(parent, "split", facts), id(parent, "split", others),
                                  id(parent, "shrink", facts), id(outsider, "split", facts),
                                  id(sibling, "split", facts)};
  EXPECT_EQ(all.size(), 5u);
  EXPECT_NE(wire::SecretOf(DeriveId(parent, "split", facts)), parent.key);
}

Membership Parent() {
  peer::Roster roster;
  roster.set_comm_id(7);
  roster.set_tenant("blue");
  const std::vector<std::vector<int>> ranks = {{1, 4}, {0, 3}, {2}};
  for (size_t h = 0; h < ranks.size(); ++h) {
    peer::HostInfo* host = roster.add_hosts();
    host->set_name("h" + std::to_string(h));
    host->set_endpoint_port(7000 + static_cast<uint32_t>(h));
    for (int rank : ranks[h]) {
      host->add_ranks()->set_rank(rank);
      host->mutable_ranks(host->ranks_size() - 1)->set_gpu("gpu of " + std::to_string(rank));
    }
  }
  RosterExpectation expected{.id = CommId(7),
                             .tenant = "blue",
                             .host = "h2",
                             .endpoint = {"", 7002},
                             .ranks = 5,
                             .locals = {Rank(2)}};
  return *CheckRoster(roster, expected);
}

TEST(DerivedCommunicator, RosterKeepsHostOrderOfParent) {
  const std::vector<Rank> ranks = {Rank(4), Rank(2), Rank(1)};
  const peer::Roster roster = RosterOf(Parent(), ranks, CommId(9));
  EXPECT_EQ(roster.comm_id(), 9u);
  EXPECT_EQ(roster.tenant(), "blue");
  ASSERT_EQ(roster.hosts_size(), 2);
  EXPECT_EQ(roster.hosts(0).name(), "h0");
  EXPECT_EQ(roster.hosts(0).endpoint_port(), 7000u);
  ASSERT_EQ(roster.hosts(0).ranks_size(), 2);
  EXPECT_EQ(roster.hosts(0).ranks(0).gpu(), "gpu of 4");
  EXPECT_EQ(roster.hosts(0).ranks(1).gpu(), "gpu of 1");
  EXPECT_EQ(roster.hosts(1).name(), "h2");
  EXPECT_EQ(roster.hosts(1).ranks(0).rank(), 1);
  const RosterExpectation expected{.id = CommId(9),
                                   .tenant = "blue",
                                   .host = "h0",
                                   .endpoint = {"", 7000},
                                   .ranks = 3,
                                   .locals = {Rank(2), Rank(0)}};
  EXPECT_TRUE(CheckRoster(roster, expected).ok());
}

TEST(DerivedCommunicator, ShrunkRanksMeetAtLowestRemainingRank) {
  const ParentIdentity parent{.key = {1}, .id = CommId(7)};
  const auto place = [&](int self, std::vector<int32_t> excluded, int64_t nth = 1) {
    return DeriveShrunk(Parent(), parent, Rank(self), std::move(excluded), nth);
  };
  const auto two = place(2, {1, 0});
  const auto four = place(4, {0, 1});
  ASSERT_TRUE(two.ok() && four.ok());
  EXPECT_EQ(two->id.comm_id, four->id.comm_id);
  EXPECT_EQ(two->ranks, 3);
  EXPECT_EQ(two->rank, Rank(0));
  EXPECT_EQ(four->rank, Rank(2));
  EXPECT_EQ(two->id.derived, 1);
  EXPECT_EQ(four->id.port, 7002) << "the host of rank 2";
  EXPECT_EQ(place(3, {4})->id.port, 7001) << "the host of rank 0";
  EXPECT_NE(two->id.comm_id, place(2, {0, 1}, 2)->id.comm_id);
  EXPECT_NE(two->id.comm_id, place(2, {0})->id.comm_id);
}

TEST(DerivedCommunicator, RejectsInvalidExcludeLists) {
  const ParentIdentity parent{.key = {1}, .id = CommId(7)};
  for (const std::vector<int32_t>& list :
       std::vector<std::vector<int32_t>>{{}, {5}, {-1}, {3, 3}, {2}, {0, 1, 2, 3, 4}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(DeriveShrunk(Parent(), parent, Rank(2), list, 1).status()));
  }
}

TEST(DerivedCommunicator, EachGrowHasItsOwnIdAtRankZero) {
  const ParentIdentity parent{.key = {1}, .id = CommId(7)};
  const wire::UniqueId id = DeriveGrownId(Parent(), parent, 1);
  EXPECT_EQ(id.port, 7001);
  EXPECT_EQ(id.derived, 1);
  EXPECT_NE(id.comm_id, DeriveGrownId(Parent(), parent, 2).comm_id);
}

}  // namespace derived_communicator_test
}  // namespace mccs
