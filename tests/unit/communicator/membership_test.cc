// Rosters come from any daemon that a tenant's unique id names, so they are not trusted.
#include "service/communicator/membership/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/mentions.h"

namespace mccs {
namespace membership_test {

using testing::HasSubstr;

peer::Roster Roster(const std::vector<std::vector<int>>& ranks) {
  peer::Roster roster;
  roster.set_comm_id(42);
  roster.set_tenant("blue");
  for (size_t h = 0; h < ranks.size(); ++h) {
    peer::HostInfo* host = roster.add_hosts();
    host->set_name("h" + std::to_string(h));
    host->set_endpoint_host("10.0.0.1");
    host->set_endpoint_port(7400);
    for (int rank : ranks[h]) host->add_ranks()->set_rank(rank);
  }
  return roster;
}

RosterExpectation Expect(int ranks, const std::vector<int>& locals) {
  RosterExpectation expected{.id = CommId(42),
                             .tenant = "blue",
                             .host = "h0",
                             .endpoint = {"10.0.0.1", 7400},
                             .ranks = ranks,
                             .locals = {}};
  for (int rank : locals) expected.locals.push_back(Rank(rank));
  return expected;
}

std::string Rejection(const peer::Roster& roster, const RosterExpectation& expected) {
  const auto members = CheckRoster(roster, expected);
  return members.ok() ? "accepted" : std::string(members.status().message());
}

TEST(Membership, MapsRanksToHosts) {
  RosterExpectation expected = Expect(4, {2});
  expected.host = "h2";
  const auto members = CheckRoster(Roster({{1, 3}, {0}, {2}}), expected);
  ASSERT_TRUE(members.ok()) << members.status();
  EXPECT_EQ(members->self, HostIndex(2));
  EXPECT_EQ(members->leader, HostIndex(1));
  EXPECT_EQ(members->hosts(), 3);
  EXPECT_EQ(members->ranks(), 4);
  EXPECT_EQ(members->HostOf(Rank(0)), HostIndex(1));
  EXPECT_EQ(members->HostOf(Rank(1)), HostIndex(0));
  EXPECT_EQ(members->HostOf(Rank(2)), HostIndex(2));
  EXPECT_EQ(members->HostOf(Rank(3)), HostIndex(0));
  EXPECT_EQ(members->HostNames({HostIndex(0), HostIndex(2)}), "h0, h2");
}

TEST(Membership, TheKeyFollowsFromTheSecretAndTheRostersKey) {
  const Secret secret = {1, 2, 3};
  peer::Roster roster = Roster({{0}});
  EXPECT_EQ(KeyOf(secret, roster), secret) << "of a split";
  roster.set_key(std::string(sizeof(Secret), 'a'));
  const Secret key = KeyOf(secret, roster);
  EXPECT_NE(key, secret);
  EXPECT_EQ(KeyOf(secret, roster), key);
  EXPECT_NE(KeyOf({1, 2, 4}, roster), key);
  roster.set_key(std::string(sizeof(Secret), 'b'));
  EXPECT_NE(KeyOf(secret, roster), key);
  roster.set_key("short");
  EXPECT_THAT(Rejection(roster, Expect(1, {0})), HasSubstr("its key has 5 bytes"));
}

TEST(Membership, AcceptsAnyJoinOrder) {
  EXPECT_EQ(Rejection(Roster({{0, 2}, {1}}), Expect(3, {2, 0})), "accepted");
}

TEST(Membership, RejectsMissingAndDuplicateRanks) {
  EXPECT_THAT(Rejection(Roster({{0}, {0}}), Expect(2, {0})), HasSubstr("duplicate"));
  EXPECT_THAT(Rejection(Roster({{0}, {2}}), Expect(2, {0})), HasSubstr("out of range"));
  EXPECT_THAT(Rejection(Roster({{0}, {-1}}), Expect(2, {0})), HasSubstr("out of range"));
  EXPECT_THAT(Rejection(Roster({{0}}), Expect(2, {0})), HasSubstr("1 ranks, expected 2"));
  EXPECT_THAT(Rejection(Roster({{1, 0}}), Expect(2, {0, 1})), HasSubstr("out of order"));
}

TEST(Membership, ChecksAddressesOfRdma) {
  peer::Roster roster = Roster({{0}, {1}});
  RosterExpectation expected = Expect(2, {0});
  expected.rdma_addresses = {"10.0.0.1", "10.1.0.1"};
  roster.mutable_hosts(0)->add_rdma_addresses("10.1.0.1");
  ASSERT_EQ(Rejection(roster, expected), "accepted");
  EXPECT_THAT(CheckRoster(roster, expected)->HostsWithoutRdma(),
              testing::ElementsAre(HostIndex(1)));
  roster.mutable_hosts(1)->add_rdma_addresses("name");
  EXPECT_THAT(Rejection(roster, expected), Mentions("h1", "'name'", "not numeric"));
  roster.mutable_hosts(1)->set_rdma_addresses(0, "10.0.0.2");
  EXPECT_EQ(Rejection(roster, expected), "accepted");
  for (size_t i = 0; i < kMaxRdmaAddresses; ++i) {
    roster.mutable_hosts(1)->add_rdma_addresses("10.0.0.3");
  }
  EXPECT_THAT(Rejection(roster, expected), Mentions("h1", "17 RDMA addresses", "16"));
  roster.mutable_hosts(1)->clear_rdma_addresses();
  roster.mutable_hosts(0)->add_rdma_addresses("10.9.9.9");
  EXPECT_THAT(Rejection(roster, expected), Mentions("h0", "10.9.9.9", "no RDMA device"));
}

TEST(Membership, RejectsRosterWithoutLocalRanks) {
  EXPECT_THAT(Rejection(Roster({{0, 1}}), Expect(2, {0})), HasSubstr("ranks of this host"));
  EXPECT_THAT(Rejection(Roster({{0}, {1}}), Expect(2, {0, 1})), HasSubstr("ranks of this host"));
}

TEST(Membership, RejectsEmptyRosterAndEmptyHosts) {
  EXPECT_THAT(Rejection(Roster({}), Expect(1, {0})), HasSubstr("0 hosts"));
  EXPECT_THAT(Rejection(Roster({{0}, {}}), Expect(1, {0})), HasSubstr("0 ranks"));
}

TEST(Membership, RejectsTooManyRanksOnOneHost) {
  std::vector<int> many(kMaxLocalRanks + 1);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<int>(i);
  EXPECT_THAT(Rejection(Roster({many}), Expect(kMaxLocalRanks + 1, many)),
              HasSubstr("ranks (expected 1 to"));
}

TEST(Membership, RejectsOtherTenantAndOtherCommunicator) {
  RosterExpectation expected = Expect(1, {0});
  expected.tenant = "red";
  EXPECT_THAT(Rejection(Roster({{0}}), expected), HasSubstr("another tenant"));
  expected = Expect(1, {0});
  expected.id = CommId(43);
  EXPECT_THAT(Rejection(Roster({{0}}), expected), HasSubstr("communicator"));
  expected.any_id = true;
  EXPECT_EQ(Rejection(Roster({{0}}), expected), "accepted");
}

TEST(Membership, RejectsOtherNameOrAddressOfThisHost) {
  RosterExpectation expected = Expect(2, {0});
  expected.host = "h1";
  EXPECT_THAT(Rejection(Roster({{0}, {1}}), expected),
              HasSubstr("it lists host h1 at 10.0.0.1:7400 as h0 at 10.0.0.1:7400"));
  expected = Expect(2, {0});
  expected.endpoint.port = 7401;
  EXPECT_THAT(Rejection(Roster({{0}, {1}}), expected), HasSubstr("h0 at 10.0.0.1:7401"));
}

TEST(Membership, RejectsRankThatJoinedTwice) {
  EXPECT_THAT(Rejection(Roster({{0, 1}}), Expect(2, {0, 0})), HasSubstr("ranks of this host"));
}

TEST(Membership, RejectsPortOutOfRange) {
  peer::Roster roster = Roster({{0}});
  roster.mutable_hosts(0)->set_endpoint_port(65536);
  EXPECT_THAT(Rejection(roster, Expect(1, {0})), HasSubstr("port 65536"));
}

}  // namespace membership_test
}  // namespace mccs
