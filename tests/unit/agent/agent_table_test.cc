#include "service/agent/agent_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/communicator/reporter.h"
#include "service/communicator/strategy/strategy.h"
#include "tests/unit/controller/agent_messages.h"

namespace mccs {
namespace agent_table_test {

constexpr CommId kId{9};

Strategy RingOfTwo(uint64_t epoch) {
  Strategy strategy;
  strategy.epoch = Epoch(epoch);
  strategy.channels = {{{HostIndex(1), HostIndex(0)}, {61001, 61002}}};
  strategy.lanes = {.slots = 4, .slot_bytes = 1 << 16};
  return strategy;
}

agent::v1::Announce Info() {
  agent::v1::Announce info;
  info.set_comm_id(kId.value());
  info.add_hosts("h0");
  info.add_hosts("h1");
  ToProto(RingOfTwo(1), info.mutable_strategy());
  return info;
}

agent::v1::Report ReportOf(uint64_t epoch) {
  return Reporting(kId.value(), epoch).reports().complete(0);
}

agent::v1::Propose Proposal(uint64_t epoch) {
  agent::v1::Propose proposal;
  proposal.set_comm_id(kId.value());
  ToProto(RingOfTwo(epoch), proposal.mutable_strategy());
  return proposal;
}

class AgentTableTest : public testing::Test {
 protected:
  std::vector<agent::v1::FromAgent> Take() { return table_.TakeUnsent(now_); }
  // After the time in which reports with progress are collected.
  std::vector<agent::v1::FromAgent> TakeCollected() {
    EXPECT_THAT(Take(), testing::IsEmpty());
    now_ += AgentTable::kCollectNs;
    return Take();
  }
  // `communicators` reports, the first with id 9, whose numbers depend on `round`.
  void ReportAll(uint64_t communicators, uint64_t round) {
    for (uint64_t c = 0; c < communicators; ++c) {
      agent::v1::Report report = ReportingLane(kId.value() + c, 1, 0, 61001).reports().complete(0);
      report.set_operations(round);
      report.mutable_lanes(0)->set_payload_bytes(100 * round);
      table_.Report(report);
    }
  }

  MonotonicNs now_ = 1000 * kNsPerSec;
  AgentTable table_;
};

TEST_F(AgentTableTest, SendsProgressOfManyCommunicatorsTogether) {
  EXPECT_EQ(table_.NextUnsent(), kNever);
  ReportAll(3, 1);
  EXPECT_EQ(table_.NextUnsent(), AgentTable::kAtOnce);
  std::vector<agent::v1::FromAgent> sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].reports().complete_size(), 3) << "the controller has none yet";
  EXPECT_EQ(table_.NextUnsent(), kNever);

  ReportAll(1, 2);
  EXPECT_EQ(table_.NextUnsent(), AgentTable::kAtOnce) << "its time is not known yet";
  EXPECT_THAT(Take(), testing::IsEmpty());
  const MonotonicNs due = table_.NextUnsent();
  EXPECT_EQ(due, now_ + AgentTable::kCollectNs);
  now_ += AgentTable::kCollectNs / 2;
  ReportAll(2, 3);
  EXPECT_THAT(Take(), testing::IsEmpty());
  ReportAll(3, 4);
  EXPECT_EQ(table_.NextUnsent(), due);
  now_ = due;
  sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].reports().complete_size(), 0);
  ASSERT_EQ(sent[0].reports().progress_size(), 3);
  EXPECT_EQ(sent[0].reports().progress(0).operations(), 4u);
  EXPECT_EQ(sent[0].reports().progress(0).lane_payload_bytes(0), 400u);
  EXPECT_EQ(table_.NextUnsent(), kNever);
}

// The periodic reports of a host's communicators fall into this time.
static_assert(Reporter::kSpreadNs < AgentTable::kCollectNs);

TEST_F(AgentTableTest, SendsTheLastGpuSurveyOnce) {
  agent::v1::GpuSurvey survey;
  for (const char* problem : {"GPU 0: MIG is on", "GPU 1: MIG is on"}) {
    survey.clear_problems();
    survey.add_problems(problem);
    table_.SetGpuSurvey(survey);
  }
  EXPECT_EQ(table_.NextUnsent(), AgentTable::kAtOnce);
  const std::vector<agent::v1::FromAgent> sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].gpu_survey().SerializeAsString(), survey.SerializeAsString());
  EXPECT_EQ(table_.NextUnsent(), kNever);
  EXPECT_THAT(Take(), testing::IsEmpty());
}

TEST_F(AgentTableTest, SendsAChangeOfStateAtOnce) {
  ReportAll(2, 1);
  Take();
  ReportAll(2, 2);
  EXPECT_THAT(Take(), testing::IsEmpty());
  agent::v1::Report failed = Reporting(kId.value(), 1, "failed").reports().complete(0);
  table_.Report(failed);
  EXPECT_EQ(table_.NextUnsent(), AgentTable::kAtOnce);
  const auto sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].reports().progress_size(), 0);
  ASSERT_EQ(sent[0].reports().complete_size(), 1);
  EXPECT_EQ(sent[0].reports().complete(0).state(), "failed");
  EXPECT_EQ(table_.NextUnsent(), now_ + AgentTable::kCollectNs);
}

TEST_F(AgentTableTest, RepeatsCompleteReports) {
  ReportAll(2, 1);
  Take();
  table_.ResendReports();
  ReportAll(1, 2);
  const auto sent = TakeCollected();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].reports().complete_size(), 2);
  EXPECT_THAT(Take(), testing::IsEmpty());
}

// Else they would be most of the controller's load in a large cluster.
TEST_F(AgentTableTest, RepeatsFewerCompleteReportsIfTheyComeLessOften) {
  ReportAll(1, 1);
  Take();
  for (const int intervals : {1, 2, 10, 1}) {
    const int64_t interval = intervals * kDefaultReportIntervalNs;
    for (int beat = 1; beat < AgentTable::kHeartbeatsPerRepeat * intervals; ++beat)
      table_.OnHeartbeat(interval);
    EXPECT_EQ(table_.NextUnsent(), kNever) << intervals;
    table_.OnHeartbeat(interval);
    const auto sent = TakeCollected();
    ASSERT_EQ(sent.size(), 1u) << intervals;
    EXPECT_EQ(sent[0].reports().complete_size(), 1);
  }
}

TEST_F(AgentTableTest, SendsLargeReportsInSeveralMessages) {
  for (uint64_t c = 0; c < 4; ++c) {
    agent::v1::Report report = Reporting(kId.value() + c, 1).reports().complete(0);
    for (int i = 0; i < 30'000; ++i) report.add_lanes()->set_state("up, with some text");
    table_.Report(report);
  }
  size_t reports = 0;
  const auto sent = Take();
  EXPECT_GT(sent.size(), 1u);
  for (const agent::v1::FromAgent& message : sent) {
    EXPECT_LT(message.ByteSizeLong(), 4u << 20);
    reports += static_cast<size_t>(message.reports().complete_size());
  }
  EXPECT_EQ(reports, 4u);
}

TEST_F(AgentTableTest, SendsTheFinalReportBeforeTheEnd) {
  table_.Announce(Info());
  ReportAll(1, 1);
  Take();
  ReportAll(1, 2);
  Take();
  ReportAll(1, 3);
  table_.Ended(kId, "destroyed");
  const auto sent = Take();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].reports().progress(0).operations(), 3u);
  EXPECT_TRUE(sent[1].has_ended());
}

TEST_F(AgentTableTest, SendsEachChangeOnceInOrder) {
  table_.Announce(Info());
  table_.Report(ReportOf(1));
  const auto sent = Take();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_TRUE(sent[0].has_announce());
  EXPECT_TRUE(sent[1].has_reports());
  EXPECT_TRUE(Take().empty());
}

TEST_F(AgentTableTest, SendsOnlyTheLastOfManyReports) {
  for (uint64_t n = 0; n < 100; ++n) {
    agent::v1::Report report = ReportOf(1);
    report.set_operations(n);
    table_.Report(report);
  }
  const auto sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].reports().complete(0).operations(), 99u);
}

TEST_F(AgentTableTest, RemovesTheEntryAfterTheFinalReport) {
  table_.Announce(Info());
  table_.Ended(kId, "destroyed");
  const auto sent = Take();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[1].ended().reason(), "destroyed");
  EXPECT_TRUE(Take().empty());
  EXPECT_TRUE(table_.Registration().empty());
}

// The controller reads the registration later and assumes that its communicators run.
class AgentTableEndTest : public AgentTableTest {
 protected:
  void SetUp() override {
    table_.Announce(Info());
    table_.Report(ReportOf(1));
    ASSERT_EQ(table_.Registration().size(), 1u);
    table_.Ended(kId, "destroyed");
  }
};

TEST_F(AgentTableEndTest, ReportsAnEndAfterTheRegistrationOnceAccepted) {
  table_.DropEnded();  // as before the registration is accepted
  const auto sent = Take();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent.back().ended().reason(), "destroyed");
  EXPECT_TRUE(Take().empty());
}

TEST_F(AgentTableEndTest, DropsAnEndAfterARejectedRegistration) {
  table_.DropRegistration();
  EXPECT_TRUE(Take().empty());
  EXPECT_TRUE(table_.Registration().empty());
}

TEST_F(AgentTableTest, ResendsStateAndReportsOnANewStream) {
  table_.Announce(Info());
  table_.Report(ReportOf(1));
  Take();
  const auto led = table_.Registration();
  ASSERT_EQ(led.size(), 1u);
  EXPECT_TRUE(led[0].running());
  const auto sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_TRUE(sent[0].has_reports());
}

TEST_F(AgentTableTest, AnnouncesAgainWhileWaitingForAStrategy) {
  table_.Announce(Info());
  Take();
  EXPECT_TRUE(table_.Registration().empty());
  const auto sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_FALSE(sent[0].announce().running());
}

TEST_F(AgentTableTest, TakesTheNewestProposalOnce) {
  table_.Announce(Info());
  EXPECT_FALSE(table_.TakeProposal().has_value());
  EXPECT_TRUE(table_.Propose(Proposal(2)).ok());
  EXPECT_TRUE(table_.Propose(Proposal(3)).ok());
  EXPECT_EQ(table_.TakeProposal()->strategy.epoch, Epoch(3));
  EXPECT_FALSE(table_.TakeProposal().has_value());
}

TEST_F(AgentTableTest, RegistersTheCurrentStrategyOnANewStream) {
  table_.Announce(Info());
  ASSERT_TRUE(table_.Propose(Proposal(2)).ok());
  table_.TakeProposal();
  table_.Report(ReportOf(2));
  EXPECT_EQ(table_.Registration()[0].strategy().epoch(), 2u);
}

TEST_F(AgentTableTest, RegistersTheNewestEpochOnANewStream) {
  table_.Announce(Info());
  ASSERT_TRUE(table_.Propose(Proposal(4)).ok());
  table_.TakeProposal();
  ASSERT_TRUE(table_.Propose(Proposal(5)).ok());
  table_.Report(ReportOf(1));
  EXPECT_EQ(table_.Registration()[0].strategy().epoch(), 1u);
  EXPECT_EQ(table_.Registration()[0].newest_epoch(), 5u);
}

TEST_F(AgentTableTest, RejectsInvalidAndLateProposals) {
  EXPECT_EQ(table_.Propose(Proposal(2)).code(), absl::StatusCode::kNotFound);
  table_.Announce(Info());
  agent::v1::Propose bad = Proposal(2);
  bad.mutable_strategy()->mutable_channels(0)->set_ring(0, 5);
  EXPECT_EQ(table_.Propose(bad).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(table_.TakeProposal().has_value());
  table_.Ended(kId, "destroyed");
  EXPECT_EQ(table_.Propose(Proposal(2)).code(), absl::StatusCode::kNotFound);
}

// ---- Rate limits --------------------------------------------------------------------------------

agent::v1::RateLimits PaceOf(uint64_t revision, CommId id = kId) {
  agent::v1::RateLimits limits;
  limits.set_comm_id(id.value());
  limits.set_revision(revision);
  agent::v1::LaneRateLimit* lane = limits.add_lanes();
  lane->set_channel(1);
  lane->set_from(0);
  lane->set_to(1);
  lane->set_rate_bps(1000 * revision);
  limits.set_priority(3);
  limits.mutable_send_windows()->set_period_ns(100);
  limits.mutable_send_windows()->set_origin_ns(-7);
  limits.mutable_send_windows()->set_open_ns(40);
  limits.set_tenant_rate_bps(5);
  limits.set_tenant("team-a");
  return limits;
}

TEST_F(AgentTableTest, PassesRateLimitsUnchanged) {
  table_.Report(ReportOf(1));
  EXPECT_FALSE(table_.has_updates());
  ASSERT_TRUE(table_.SetRateLimits(PaceOf(2)).ok());
  EXPECT_TRUE(table_.has_updates());
  const auto order = table_.TakeRateUpdate();
  ASSERT_TRUE(order.has_value());
  EXPECT_EQ(order->id, kId);
  const RateLimits expected{.revision = 2,
                            .lanes = {{ChannelId(1), HostIndex(0), HostIndex(1), 2000}},
                            .priority = 3,
                            .windows = {.period_ns = 100, .origin_ns = -7, .open_ns = 40},
                            .tenant_rate_bps = 5,
                            .tenant = "team-a"};
  EXPECT_EQ(order->limits, expected);
  EXPECT_FALSE(table_.has_updates());
  EXPECT_FALSE(table_.TakeRateUpdate().has_value());
}

TEST_F(AgentTableTest, TakesTheLastTenantsOnce) {
  EXPECT_FALSE(table_.TakeTenants().has_value());
  agent::v1::Tenants tenants;
  agent::v1::Tenant* tenant = tenants.add_tenants();
  tenant->set_name("a");
  table_.SetTenants(tenants);
  tenant->add_uids(1000);
  tenant->add_cgroups("/jobs/a");
  tenant->set_max_communicators(3);
  table_.SetTenants(tenants);
  EXPECT_TRUE(table_.has_updates());
  const TenantEntry expected{.name = "a",
                             .selector = {.uids = {1000}, .sockets = {}, .cgroups = {"/jobs/a"}},
                             .quotas = {.communicators = 3}};
  EXPECT_EQ(table_.TakeTenants(), std::vector{expected});
  EXPECT_FALSE(table_.has_updates());
  // There are none any more, which differs from no update.
  table_.SetTenants({});
  EXPECT_EQ(table_.TakeTenants(), std::vector<TenantEntry>());
  EXPECT_FALSE(table_.TakeTenants().has_value());
}

TEST_F(AgentTableTest, SendsNamedRendezvousOnEachStream) {
  const auto sent = [&] {
    int sought = 0;
    for (const agent::v1::FromAgent& message : table_.TakeUnsent(0))
      sought += message.named_rendezvous().sought_size();
    return sought;
  };
  agent::v1::NamedRendezvous all;
  all.add_sought(7);
  table_.SetNamedRendezvous(all);
  EXPECT_EQ(table_.NextUnsent(), AgentTable::kAtOnce);
  EXPECT_EQ(sent(), 1);
  EXPECT_EQ(sent(), 0);
  table_.Registration();
  EXPECT_EQ(sent(), 1);
}

TEST_F(AgentTableTest, TakesTheNewestAnswerAboutARendezvousThatIsSought) {
  agent::v1::NamedRendezvous all;
  all.add_sought(7);
  table_.SetNamedRendezvous(all);
  agent::v1::FoundRendezvous found;
  found.set_id(7);
  found.set_host("h1");
  found.set_peer_endpoint("anything");
  EXPECT_TRUE(absl::IsInvalidArgument(table_.AddFoundRendezvous(found)));
  found.set_peer_endpoint("10.0.0.1:7400");
  EXPECT_TRUE(table_.AddFoundRendezvous(found).ok());
  found.set_peer_endpoint("10.0.0.2:7400");
  EXPECT_TRUE(table_.AddFoundRendezvous(found).ok());
  found.set_id(8);  // It was sought before.
  EXPECT_TRUE(table_.AddFoundRendezvous(found).ok());
  EXPECT_TRUE(table_.has_updates());
  const std::optional<FoundRendezvous> taken = table_.TakeFoundRendezvous();
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->id, CommId(7));
  EXPECT_EQ(ToString(taken->at), "10.0.0.2:7400");
  EXPECT_FALSE(table_.TakeFoundRendezvous().has_value());
}

TEST_F(AgentTableTest, SendsUnreachableHostsOnEachStreamAndTakesTheNewestList) {
  const auto sent = [&] {
    int hosts = 0;
    for (const agent::v1::FromAgent& message : table_.TakeUnsent(0))
      hosts += message.unreachable_hosts().unreachable_size();
    return hosts;
  };
  agent::v1::UnreachableHosts all;
  all.add_unreachable()->set_host("h1");
  table_.SetUnreachableHosts(all);
  EXPECT_EQ(table_.NextUnsent(), AgentTable::kAtOnce);
  EXPECT_EQ(sent(), 1);
  EXPECT_EQ(sent(), 0);
  agent::v1::PeerHosts list;
  list.set_revision(3);
  list.add_hosts()->set_peer_endpoint("a name:7400");
  EXPECT_TRUE(absl::IsInvalidArgument(table_.SetPeerHosts(list)));
  list.mutable_hosts(0)->set_peer_endpoint("10.0.0.1:7400");
  EXPECT_TRUE(table_.SetPeerHosts(list).ok());
  EXPECT_TRUE(table_.has_updates());
  const std::optional<PeerHosts> taken = table_.TakePeerHosts();
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->revision, 3u);
  EXPECT_EQ(ToString(taken->hosts.at(0).at), "10.0.0.1:7400");
  table_.Registration();
  EXPECT_EQ(sent(), 1);
  const std::optional<PeerHosts> of_new_stream = table_.TakePeerHosts();
  ASSERT_TRUE(of_new_stream.has_value()) << "earlier pairs are no longer known";
  EXPECT_TRUE(of_new_stream->hosts.empty());
}

// One daemon with an invalid endpoint must not keep the others from this one.
TEST_F(AgentTableTest, AnInvalidEndpointHidesNoOtherHost) {
  agent::v1::PeerHosts list;
  for (const char* endpoint : {"garbage", "10.0.0.1:7400", "name:7400"})
    list.add_hosts()->set_peer_endpoint(endpoint);
  const absl::Status skipped = table_.SetPeerHosts(list);
  EXPECT_TRUE(absl::IsInvalidArgument(skipped));
  EXPECT_THAT(std::string(skipped.message()), testing::HasSubstr("invalid endpoint 'garbage'"));
  const std::optional<PeerHosts> taken = table_.TakePeerHosts();
  ASSERT_TRUE(taken.has_value());
  ASSERT_EQ(taken->hosts.size(), 1u);
  EXPECT_EQ(ToString(taken->hosts[0].at), "10.0.0.1:7400");
}

TEST_F(AgentTableTest, TakesTheKeyOnce) {
  agent::v1::Tenants tenants;
  table_.SetTenants(tenants);
  EXPECT_FALSE(table_.TakeIdKey().has_value());
  tenants.set_id_key("key");
  table_.SetTenants(tenants);
  ASSERT_TRUE(table_.TakeTenants().has_value());
  EXPECT_TRUE(table_.has_updates());
  EXPECT_EQ(table_.TakeIdKey(), "key");
  EXPECT_FALSE(table_.has_updates());
}

TEST_F(AgentTableTest, KeepsTheRateLimitsWithTheHighestRevision) {
  table_.Announce(Info());
  for (const uint64_t revision : {2, 4, 3})
    ASSERT_TRUE(table_.SetRateLimits(PaceOf(revision)).ok());
  EXPECT_EQ(table_.TakeRateUpdate()->limits.revision, 4u);
  EXPECT_FALSE(table_.TakeRateUpdate().has_value());
}

// The leader announces a communicator to the controller before other hosts have formed it.
TEST_F(AgentTableTest, EarlyRateLimitsWaitForTheFirstReport) {
  ASSERT_TRUE(table_.SetRateLimits(PaceOf(1)).ok());
  EXPECT_FALSE(table_.has_updates());
  table_.Report(ReportOf(1));
  ASSERT_TRUE(table_.has_updates());
  EXPECT_EQ(table_.TakeRateUpdate()->limits.revision, 1u);
  table_.Report(ReportOf(1));
  EXPECT_FALSE(table_.has_updates());
}

TEST_F(AgentTableTest, DropsEarlyRateLimitsOfUnknownAndEndedCommunicators) {
  for (uint64_t id = 0; id < 3 * AgentTable::kMaxEarlyRateUpdates; ++id) {
    ASSERT_TRUE(table_.SetRateLimits(PaceOf(1, CommId(1000 + id))).ok());
  }
  agent::v1::Report first = ReportOf(1);
  first.set_comm_id(1000);
  table_.Report(first);
  EXPECT_FALSE(table_.has_updates());
  table_.Report(ReportOf(1));
  table_.Ended(kId, "destroyed");
  ASSERT_TRUE(table_.SetRateLimits(PaceOf(1)).ok());
  EXPECT_FALSE(table_.has_updates());
}

TEST_F(AgentTableTest, RejectsInvalidRateLimits) {
  table_.Report(ReportOf(1));
  std::vector<agent::v1::RateLimits> bad(9, PaceOf(1));
  bad[0].set_priority(8);
  bad[1].mutable_lanes(0)->set_channel(-1);
  bad[2].mutable_lanes(0)->set_channel(2 * kMaxChannels);
  bad[3].mutable_lanes(0)->set_to(0);
  bad[4].mutable_lanes(0)->set_from(-1);
  *bad[5].add_lanes() = bad[5].lanes(0);
  bad[6].mutable_send_windows()->set_period_ns(0);
  bad[7].mutable_send_windows()->set_open_ns(101);
  bad[8].mutable_send_windows()->set_open_ns(0);
  for (const agent::v1::RateLimits& limits : bad) {
    EXPECT_EQ(table_.SetRateLimits(limits).code(), absl::StatusCode::kInvalidArgument)
        << limits.ShortDebugString();
  }
  EXPECT_FALSE(table_.has_updates());
}

}  // namespace agent_table_test
}  // namespace mccs
