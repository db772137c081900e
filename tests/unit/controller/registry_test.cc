#include "controller/state/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/controller/agent_messages.h"

namespace mccs {
namespace registry_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

constexpr AgentKey kFirst{1}, kSecond{2}, kThird{3};
constexpr CommId kId{0xc0ffee};

std::vector<uint64_t> EpochsOf(const CommunicatorRecord& record) {
  std::vector<uint64_t> epochs;
  for (const strategy::Strategy& proposed : record.proposed) epochs.push_back(proposed.epoch());
  return epochs;
}

agent::v1::Announce AnnounceOf(const std::vector<std::string>& hosts, CommId id = kId) {
  return MakeAnnounce(id.value(), hosts);
}

agent::v1::Announce AtEpoch(agent::v1::Announce announce, uint64_t epoch) {
  announce.mutable_strategy()->set_epoch(epoch);
  announce.set_newest_epoch(epoch);
  return announce;
}

agent::v1::Report ReportOf(uint64_t epoch, uint64_t rejected_epoch = 0) {
  agent::v1::Report report = Reporting(kId.value(), epoch).reports().complete(0);
  report.set_rejected_epoch(rejected_epoch);
  return report;
}

class RegistryTest : public testing::Test {
 protected:
  absl::Status Register(AgentKey agent, const agent::v1::Host& host,
                        const std::vector<agent::v1::Announce>& led = {}) {
    const absl::StatusOr<Unlisted> unlisted =
        registry_.Register(agent, Registration(host, led).registration(), ++now_);
    if (unlisted.ok()) unlisted_ = *unlisted;
    return unlisted.status();
  }
  absl::Status Register(AgentKey agent, const std::string& host,
                        const std::vector<agent::v1::Announce>& led = {}) {
    return Register(agent, MakeHost(host), led);
  }
  absl::Status Announce(const std::string& host, const agent::v1::Announce& announce) {
    return registry_.Announce(host, announce, ++now_);
  }
  // Hosts h0 and h1, and a communicator of both that h0 leads.
  void AnnouncePair() {
    ASSERT_TRUE(Register(kFirst, "h0").ok());
    ASSERT_TRUE(Register(kSecond, "h1").ok());
    ASSERT_TRUE(Announce("h0", AnnounceOf({"h0", "h1"})).ok());
  }
  uint64_t Propose() { return registry_.Propose(kId, Record().Applied(), ++now_).epoch(); }
  const HostRecord& Host(const std::string& name) { return registry_.hosts().at(name); }
  const CommunicatorRecord& Record(CommId id = kId) { return registry_.communicators().at(id); }
  bool Has(CommId id) { return registry_.communicators().contains(id); }

  Registry registry_;
  Unlisted unlisted_;  // of the last registration
  MonotonicNs now_ = 1000;
};

// ---- Hosts -----

TEST_F(RegistryTest, StartsEmpty) {
  EXPECT_THAT(registry_.hosts(), IsEmpty());
  EXPECT_THAT(registry_.View().hosts, IsEmpty());
  EXPECT_THAT(registry_.View().communicators, IsEmpty());
}

TEST_F(RegistryTest, ARegisteredHostIsReady) {
  agent::v1::FromAgent message = Registration(MakeHost("h0", "r1"));
  message.mutable_registration()->set_topology("cluster-a");
  ASSERT_TRUE(registry_.Register(kFirst, message.registration(), 7).ok());
  const HostRecord& host = Host("h0");
  EXPECT_EQ(host.state, HostState::kReady);
  EXPECT_EQ(host.agent, kFirst);
  EXPECT_EQ(host.topology, "cluster-a");
  EXPECT_EQ(host.host.position().rack(), "r1");
  EXPECT_EQ(host.since, 7);
  EXPECT_EQ(host.received_at, 7);
  registry_.RecordMessage("h0", 9);
  EXPECT_EQ(Host("h0").received_at, 9);
  EXPECT_EQ(Host("h0").since, 7) << "its state has not changed";
}

TEST_F(RegistryTest, RejectsAHostWithoutAName) {
  EXPECT_TRUE(absl::IsInvalidArgument(Register(kFirst, "")));
  EXPECT_THAT(registry_.hosts(), IsEmpty());
}

TEST_F(RegistryTest, RejectsAnotherDaemonOfAReadyHost) {
  ASSERT_TRUE(Register(kFirst, MakeHost("h0", "", "10.0.0.1:7400")).ok());
  const absl::Status rejected = Register(kSecond, MakeHost("h0", "", "10.0.0.2:7400"));
  EXPECT_TRUE(absl::IsAlreadyExists(rejected)) << rejected;
  for (const char* field : {"10.0.0.1:7400", "'h0'", "10.0.0.2:7400"})
    EXPECT_THAT(rejected.message(), HasSubstr(field));
  EXPECT_EQ(Host("h0").agent, kFirst);
}

TEST_F(RegistryTest, ADaemonReplacesItsOwnConnectionAndALostDaemon) {
  ASSERT_TRUE(Register(kFirst, MakeHost("h0", "", "10.0.0.1:7400")).ok());
  ASSERT_TRUE(Register(kSecond, MakeHost("h0", "", "10.0.0.1:7400")).ok())
      << "its old connection has not timed out yet";
  EXPECT_EQ(Host("h0").agent, kSecond);
  registry_.MarkLost("h0", "its connection closed", ++now_);
  ASSERT_TRUE(Register(kThird, MakeHost("h0", "", "10.0.0.2:7400")).ok());
  EXPECT_EQ(Host("h0").agent, kThird);
  EXPECT_EQ(Host("h0").why, "");
}

TEST_F(RegistryTest, ALostHostKeepsItsRecordAndItsCommunicators) {
  AnnouncePair();
  registry_.MarkLost("h0", "its connection closed", 5000);
  EXPECT_EQ(Host("h0").state, HostState::kLost);
  EXPECT_EQ(Host("h0").why, "its connection closed");
  EXPECT_EQ(Host("h0").since, 5000);
  EXPECT_EQ(Host("h0").agent, AgentKey());
  EXPECT_TRUE(Has(kId));
  const std::vector<HostView> views = registry_.HostViews();
  ASSERT_EQ(views.size(), 2u);
  EXPECT_FALSE(views[0].ready);
  EXPECT_TRUE(views[1].ready);
}

TEST_F(RegistryTest, ARejectedDaemonStaysRejectedSinceItsFirstAttempt) {
  registry_.RecordRejected(MakeHost("h0"), "the clock is wrong", 10);
  registry_.RecordRejected(MakeHost("h0"), "the topology is unknown", 20);
  EXPECT_EQ(Host("h0").state, HostState::kRejected);
  EXPECT_EQ(Host("h0").why, "the topology is unknown");
  EXPECT_EQ(Host("h0").since, 10);
  EXPECT_EQ(Host("h0").received_at, 20);
  ASSERT_TRUE(Register(kFirst, "h0").ok());
  EXPECT_EQ(Host("h0").state, HostState::kReady);
}

TEST_F(RegistryTest, ARejectionAffectsNoReadyHost) {
  ASSERT_TRUE(Register(kFirst, MakeHost("h0", "", "10.0.0.1:7400")).ok());
  registry_.RecordRejected(MakeHost("h0", "", "10.0.0.2:7400"), "its name is in use", ++now_);
  EXPECT_EQ(Host("h0").state, HostState::kReady);
  EXPECT_EQ(Host("h0").host.peer_endpoint(), "10.0.0.1:7400");
  registry_.RecordRejected(MakeHost(""), "it has no name", ++now_);
  EXPECT_EQ(registry_.hosts().size(), 1u);
}

// A daemon may send any of them, up to the size of a message.
TEST_F(RegistryTest, ARejectedHostHasNoInventory) {
  agent::v1::Host host = MakeHost("h0", "r1");
  host.add_nics()->set_name("nic0");
  host.mutable_gpu_survey()->add_problems("it is too hot");
  registry_.RecordRejected(host, "the clock is wrong", ++now_);
  const agent::v1::Host& recorded = Host("h0").host;
  EXPECT_EQ(recorded.position().rack(), "r1");
  EXPECT_EQ(recorded.peer_endpoint(), EndpointOf("h0"));
  EXPECT_EQ(recorded.version(), "test");
  EXPECT_EQ(recorded.gpus_size() + recorded.nics_size(), 0);
  EXPECT_FALSE(recorded.has_gpu_survey());
}

TEST_F(RegistryTest, ARejectionKeepsWhatAHostRegistered) {
  ASSERT_TRUE(Register(kFirst, MakeHost("h0", "r1")).ok());
  registry_.MarkLost("h0", "its connection closed", ++now_);
  registry_.RecordRejected(MakeHost("h0", "r2", "10.0.0.9:7400"), "the clock is wrong", ++now_);
  EXPECT_EQ(Host("h0").state, HostState::kRejected);
  EXPECT_EQ(Host("h0").host.gpus_size(), 2);
  EXPECT_EQ(Host("h0").host.position().rack(), "r1");
  EXPECT_THAT(registry_.RemoveRejected(now_ + 1), IsEmpty()) << "its communicators may live";
}

TEST_F(RegistryTest, RejectedHostsExpireAndTakeNoOthersPlace) {
  for (size_t i = 0; i < Registry::kMaxHosts; ++i)
    registry_.RecordRejected(MakeHost(absl::StrCat("x", i)), "the clock is wrong", ++now_);
  EXPECT_EQ(registry_.hosts().size(), Registry::kMaxRejectedHosts);
  for (size_t i = 0; i < Registry::kMaxHosts; ++i)
    ASSERT_TRUE(Register(AgentKey(i + 1), absl::StrCat("h", i)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Register(AgentKey(1u << 20), "x0")));
  registry_.RecordRejected(MakeHost("x0"), "the clock is wrong", ++now_);
  const std::vector<std::string> removed = registry_.RemoveRejected(now_);
  EXPECT_EQ(removed.size(), Registry::kMaxRejectedHosts - 1) << "x0 tried again";
  EXPECT_EQ(registry_.hosts().size(), Registry::kMaxHosts + 1);
  registry_.RecordRejected(MakeHost("one-more"), "the clock is wrong", ++now_);
  EXPECT_EQ(Host("one-more").state, HostState::kRejected) << "there is room again";
}

TEST_F(RegistryTest, LimitsTheNumberOfHosts) {
  for (size_t i = 0; i < Registry::kMaxHosts; ++i)
    ASSERT_TRUE(Register(AgentKey(i + 1), absl::StrCat("h", i)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Register(AgentKey(1u << 20), "one-more")));
  registry_.RecordRejected(MakeHost("one-more"), "too many hosts", ++now_);
  EXPECT_EQ(Host("one-more").state, HostState::kRejected);
  EXPECT_TRUE(Register(AgentKey(2u << 20), "h7").ok()) << "a known host registers again";
}

TEST_F(RegistryTest, TheHostsRevisionFollowsTheHosts) {
  uint64_t last = registry_.hosts_revision();
  const auto changed = [&] { return std::exchange(last, registry_.hosts_revision()) != last; };
  ASSERT_TRUE(Register(kFirst, "h0").ok());
  EXPECT_TRUE(changed());
  registry_.RecordMessage("h0", ++now_);
  ASSERT_TRUE(Announce("h0", AnnounceOf({"h0"})).ok());
  EXPECT_FALSE(changed());
  registry_.MarkLost("h0", "its connection closed", ++now_);
  EXPECT_TRUE(changed());
  registry_.RecordRejected(MakeHost("h1"), "the clock is wrong", ++now_);
  EXPECT_TRUE(changed());
  registry_.RecordRejected(MakeHost("h1"), "the clock is wrong", ++now_);
  EXPECT_FALSE(changed()) << "it retries";
  agent::v1::Host moved = MakeHost("h1");
  moved.set_peer_endpoint("10.9.9.9:7400");
  registry_.RecordRejected(moved, "the clock is wrong", ++now_);
  EXPECT_TRUE(changed());
}

// ---- Communicators -----

TEST_F(RegistryTest, AnAnnouncedCommunicatorIsInTheView) {
  AnnouncePair();
  EXPECT_EQ(Record().leader, "h0");
  EXPECT_EQ(Record().newest_epoch, 1u);
  const CommunicatorView view = registry_.View(kId);
  EXPECT_EQ(view.id, kId);
  EXPECT_EQ(view.tenant, "uid 1000");
  EXPECT_THAT(view.hosts, ElementsAre("h0", "h1"));
  EXPECT_THAT(view.first_ranks, ElementsAre(0, 1));
  EXPECT_EQ(view.strategy.epoch(), 1u);
  EXPECT_NE(view.revision, 0u);
}

TEST(CheckAnnounce, RejectsInvalidAnnouncements) {
  agent::v1::Announce no_id = AnnounceOf({"h0"});
  no_id.set_comm_id(0);
  agent::v1::Announce few_ranks = AnnounceOf({"h0", "h1"});
  few_ranks.mutable_members()->RemoveLast();
  agent::v1::Announce no_channel = AnnounceOf({"h0"});
  no_channel.mutable_strategy()->clear_channels();
  agent::v1::Announce no_permutation = AnnounceOf({"h0", "h1"});
  no_permutation.mutable_strategy()->mutable_channels(0)->set_ring(1, 0);
  agent::v1::Announce beyond = AnnounceOf({"h0", "h1"});
  beyond.mutable_strategy()->mutable_channels(0)->set_ring(1, 2);
  agent::v1::Announce no_rank_0 = AnnounceOf({"h0", "h1"});
  no_rank_0.mutable_members(0)->set_rank(2);
  agent::v1::Announce rank_0_elsewhere = AnnounceOf({"h0", "h1"});
  rank_0_elsewhere.mutable_members(0)->set_host("h2");
  for (const agent::v1::Announce& invalid :
       {no_id, few_ranks, no_channel, no_permutation, beyond, no_rank_0, rank_0_elsewhere,
        AnnounceOf({"h0", "h0"}), AnnounceOf({})}) {
    SCOPED_TRACE(invalid.ShortDebugString());
    EXPECT_TRUE(absl::IsInvalidArgument(CheckAnnounce(invalid)));
  }
  EXPECT_TRUE(CheckAnnounce(AnnounceOf({"h0", "h1"})).ok());
}

TEST_F(RegistryTest, OnlyTheHostOfRankZeroLeads) {
  ASSERT_TRUE(Register(kFirst, "h1").ok());
  const absl::Status rejected = Announce("h1", AnnounceOf({"h0", "h1"}));
  EXPECT_TRUE(absl::IsInvalidArgument(rejected)) << rejected;
  EXPECT_THAT(rejected.message(), HasSubstr("rank 0 is on host h0, not on h1"));
  EXPECT_TRUE(absl::IsInvalidArgument(Register(kThird, "h2", {AnnounceOf({"h0", "h2"})})));
  EXPECT_FALSE(registry_.hosts().contains("h2"));
  EXPECT_FALSE(Has(kId));
}

// Either of two leaders may lie.
TEST_F(RegistryTest, AContestedCommunicatorStaysWithItsFirstLeader) {
  AnnouncePair();
  const absl::Status rejected = Announce("h1", AnnounceOf({"h1", "h0"}));
  EXPECT_TRUE(absl::IsAlreadyExists(rejected)) << rejected;
  EXPECT_THAT(rejected.message(), HasSubstr("led by h0, not by h1"));
  ASSERT_TRUE(
      Register(kThird, "h2", {AnnounceOf({"h2", "h1"}), AnnounceOf({"h2"}, CommId(8))}).ok());
  EXPECT_EQ(unlisted_.count, 1u);
  EXPECT_TRUE(absl::IsAlreadyExists(unlisted_.first)) << unlisted_.first;
  EXPECT_THAT(unlisted_.first.message(), HasSubstr("led by h0, not by h2"));
  EXPECT_EQ(Host("h2").state, HostState::kReady);
  EXPECT_EQ(Record(CommId(8)).leader, "h2");
  EXPECT_EQ(Record().leader, "h0");
  EXPECT_THAT(registry_.View(kId).hosts, ElementsAre("h0", "h1"));
}

TEST_F(RegistryTest, LimitsTheNumberOfCommunicators) {
  constexpr uint64_t kHosts = Registry::kMaxCommunicators / HostStorage::kMaxLed;
  for (uint64_t host = 0; host <= kHosts; ++host)
    ASSERT_TRUE(Register(AgentKey(host + 1), absl::StrCat("h", host)).ok());
  for (uint64_t i = 0; i < Registry::kMaxCommunicators; ++i) {
    const std::string host = absl::StrCat("h", i % kHosts);
    ASSERT_TRUE(Announce(host, AnnounceOf({host}, CommId(i + 1))).ok());
  }
  const std::string last = absl::StrCat("h", kHosts);
  EXPECT_TRUE(absl::IsResourceExhausted(Announce(last, AnnounceOf({last}))));
  EXPECT_FALSE(Has(kId));
  EXPECT_TRUE(Announce("h0", AnnounceOf({"h0"}, CommId(1))).ok()) << "it is announced already";
  ASSERT_TRUE(Register(AgentKey(100), last, {AnnounceOf({last})}).ok());
  EXPECT_EQ(unlisted_.count, 1u);
  EXPECT_THAT(unlisted_.first.message(), HasSubstr("too many communicators"));
  EXPECT_FALSE(Has(kId));
  registry_.OnCommunicatorEnded("h0", CommId(1));
  EXPECT_TRUE(Announce(last, AnnounceOf({last})).ok());
}

TEST_F(RegistryTest, OneHostTakesNoOthersPlaces) {
  std::vector<agent::v1::Announce> many;
  for (uint64_t id = 1; id <= HostStorage::kMaxLed + 7; ++id)
    many.push_back(AnnounceOf({"h0"}, CommId(id)));
  ASSERT_TRUE(Register(kFirst, "h0", many).ok());
  EXPECT_EQ(unlisted_.count, 7u);
  EXPECT_TRUE(absl::IsResourceExhausted(unlisted_.first)) << unlisted_.first;
  EXPECT_THAT(unlisted_.first.message(), HasSubstr("host h0"));
  EXPECT_EQ(registry_.communicators().size(), HostStorage::kMaxLed);
  EXPECT_TRUE(absl::IsResourceExhausted(Announce("h0", AnnounceOf({"h0"}))));
  ASSERT_TRUE(Register(kSecond, "h1").ok());
  EXPECT_TRUE(Announce("h1", AnnounceOf({"h1"})).ok());
  // It may have other ones.
  for (agent::v1::Announce& each : many) each.set_comm_id(each.comm_id() + 100'000);
  ASSERT_TRUE(Register(kThird, "h0", many).ok());
  EXPECT_EQ(registry_.communicators().size(), HostStorage::kMaxLed + 1);
  EXPECT_TRUE(Has(CommId(100'001)));
  registry_.MarkLost("h0", "its connection closed", 5000);
  registry_.RemoveOrphans(now_ + 1'000'000);
  EXPECT_EQ(registry_.communicators().size(), 1u);
  ASSERT_TRUE(Register(kFirst, "h0", many).ok());
  EXPECT_EQ(registry_.communicators().size(), HostStorage::kMaxLed + 1);
}

TEST_F(RegistryTest, ARegistrationListsAllCommunicatorsThatItsHostLeads) {
  AnnouncePair();
  ASSERT_TRUE(Announce("h0", AnnounceOf({"h0"}, CommId(2))).ok());
  ASSERT_TRUE(Announce("h1", AnnounceOf({"h1", "h0"}, CommId(3))).ok());
  const MonotonicNs since = Record(CommId(2)).since;
  ASSERT_TRUE(
      Register(kThird, "h0", {AnnounceOf({"h0"}, CommId(2)), AnnounceOf({"h0"}, CommId(4))}).ok());
  EXPECT_FALSE(Has(kId)) << "h0 no longer has it";
  EXPECT_EQ(Record(CommId(2)).since, since) << "the same communicator as before";
  EXPECT_EQ(Record(CommId(3)).leader, "h1");
  EXPECT_EQ(Record(CommId(4)).since, now_);
}

TEST_F(RegistryTest, OnlyTheLeaderEndsACommunicator) {
  AnnouncePair();
  registry_.Report("h1", ReportOf(1));
  ASSERT_THAT(Record().reports, ElementsAre(Pair("h1", testing::_)));
  registry_.OnCommunicatorEnded("h1", kId);
  ASSERT_TRUE(Has(kId));
  EXPECT_THAT(Record().reports, IsEmpty()) << "h1's part has ended";
  registry_.OnCommunicatorEnded("h0", CommId(77));  // unknown
  EXPECT_TRUE(Has(kId));
  registry_.OnCommunicatorEnded("h0", kId);
  EXPECT_FALSE(Has(kId));
}

TEST_F(RegistryTest, RemovesCommunicatorsOfLeadersLostForLong) {
  AnnouncePair();
  ASSERT_TRUE(Announce("h1", AnnounceOf({"h1"}, CommId(2))).ok());
  EXPECT_THAT(registry_.RemoveOrphans(1'000'000), IsEmpty()) << "both leaders are ready";
  registry_.MarkLost("h0", "its connection closed", 5000);
  EXPECT_THAT(registry_.RemoveOrphans(5000), IsEmpty());
  EXPECT_THAT(registry_.RemoveOrphans(5001), ElementsAre(kId));
  EXPECT_FALSE(Has(kId));
  EXPECT_TRUE(Has(CommId(2)));
  EXPECT_THAT(registry_.RemoveOrphans(5001), IsEmpty());
}

// ---- Reports -----

TEST_F(RegistryTest, KeepsTheLastReportOfEachHost) {
  AnnouncePair();
  agent::v1::Report report = ReportOf(1);
  EXPECT_FALSE(registry_.Report("h1", report).rejected);
  report.set_operations(5);
  EXPECT_FALSE(registry_.Report("h1", report).rejected);
  EXPECT_FALSE(registry_.Report("h0", ReportOf(1)).rejected);
  EXPECT_EQ(Record().reports.size(), 2u);
  EXPECT_EQ(Record().reports.at("h1").operations(), 5u);
}

TEST_F(RegistryTest, AnOversizedReportIsNotStored) {
  AnnouncePair();
  agent::v1::Report large = ReportOf(7);
  for (size_t lane = 0; lane < HostStorage::kMaxReportBytes / sizeof(agent::v1::Lane); ++lane)
    large.add_lanes();
  EXPECT_LT(large.ByteSizeLong(), 1u << 20) << "empty lanes are small on the wire";
  registry_.Report("h1", ReportOf(1));
  const Registry::ReportOutcome outcome = registry_.Report("h1", large);
  EXPECT_EQ(outcome.report, nullptr);
  EXPECT_TRUE(absl::IsResourceExhausted(outcome.refused)) << outcome.refused;
  EXPECT_THAT(outcome.refused.message(), HasSubstr("host h1"));
  EXPECT_EQ(Record().reports.at("h1").epoch(), 1u) << "the one before";
  EXPECT_NE(registry_.Report("h0", ReportOf(1)).report, nullptr);
}

TEST_F(RegistryTest, TheReportsOfAHostAreBoundedTogether) {
  ASSERT_TRUE(Register(kFirst, "h0").ok());
  ASSERT_TRUE(Register(kSecond, "h1").ok());
  uint64_t stored = 0;
  constexpr size_t kBytes = HostStorage::kMaxReportBytes - 4096;
  const uint64_t most = HostStorage::kMaxHostBytes / kBytes;
  for (uint64_t id = 1; id <= most + 3; ++id) {
    ASSERT_TRUE(Announce("h0", AnnounceOf({"h0", "h1"}, CommId(id))).ok());
    agent::v1::Report report = ReportOf(1);
    report.set_comm_id(id);
    report.set_stalled_on(std::string(kBytes, 'x'));
    if (registry_.Report("h1", report).report != nullptr) ++stored;
  }
  EXPECT_EQ(stored, most);
  agent::v1::Report report = ReportOf(1);
  report.set_comm_id(most + 1);
  report.set_stalled_on(std::string(kBytes, 'x'));
  EXPECT_NE(registry_.Report("h0", report).report, nullptr) << "another host's";
  registry_.OnCommunicatorEnded("h1", CommId(1));  // its part
  EXPECT_NE(registry_.Report("h1", report).report, nullptr) << "there is room again";
}

// It replaces that of the report.
TEST_F(RegistryTest, AnActivityOfTooManySpansIsIgnored) {
  AnnouncePair();
  registry_.Report("h1", ReportOf(1));
  agent::v1::Progress progress;
  progress.set_comm_id(kId.value());
  for (int i = 0; i <= Registry::kMaxActivitySpans; ++i)
    progress.mutable_activity()->add_span_ns(1);
  EXPECT_EQ(registry_.ReportProgress("h1", progress).report, nullptr);
  progress.mutable_activity()->mutable_span_ns()->RemoveLast();
  EXPECT_NE(registry_.ReportProgress("h1", progress).report, nullptr);
}

TEST_F(RegistryTest, AppliesProgressToTheLastReport) {
  AnnouncePair();
  agent::v1::Progress progress;
  progress.set_comm_id(kId.value());
  progress.set_operations(7);
  EXPECT_EQ(registry_.ReportProgress("h1", progress).report, nullptr) << "no report yet";
  registry_.Report("h1", ReportingLane(kId.value(), 1, 0, 61001).reports().complete(0));
  progress.add_lane_payload_bytes(500);
  EXPECT_NE(registry_.ReportProgress("h1", progress).report, nullptr);
  const agent::v1::Report& report = Record().reports.at("h1");
  EXPECT_EQ(report.operations(), 7u);
  EXPECT_EQ(report.lanes(0).payload_bytes(), 500u);
  EXPECT_EQ(report.lanes(0).state(), "up");
  progress.add_lane_payload_bytes(600);
  EXPECT_EQ(registry_.ReportProgress("h1", progress).report, nullptr) << "of a lane too many";
  progress.set_comm_id(77);
  EXPECT_EQ(registry_.ReportProgress("h1", progress).report, nullptr) << "unknown communicator";
}

TEST_F(RegistryTest, ComparesReconnectsOfSuccessiveReports) {
  AnnouncePair();
  agent::v1::Report report = ReportOf(1);
  report.add_lanes()->set_reconnects(3);
  EXPECT_FALSE(registry_.Report("h0", report).lanes_broken) << "nothing to compare it with";
  EXPECT_FALSE(registry_.Report("h0", report).lanes_broken);
  report.mutable_lanes(0)->set_reconnects(4);
  EXPECT_TRUE(registry_.Report("h0", report).lanes_broken);
}

TEST_F(RegistryTest, IgnoresReportsThatDoNotMatch) {
  AnnouncePair();
  ASSERT_TRUE(Register(kThird, "h2").ok());
  EXPECT_FALSE(registry_.Report("h2", ReportOf(1, /*rejected_epoch=*/9)).rejected)
      << "not a member";
  agent::v1::Report unknown = ReportOf(1);
  unknown.set_comm_id(77);
  EXPECT_FALSE(registry_.Report("h0", unknown).rejected);
  EXPECT_THAT(Record().reports, IsEmpty());
  EXPECT_EQ(Record().newest_epoch, 1u);
  EXPECT_FALSE(Has(CommId(77)));
}

// ---- Proposals -----

TEST_F(RegistryTest, AProposalGetsTheNextEpoch) {
  AnnouncePair();
  EXPECT_EQ(Propose(), 2u);
  EXPECT_EQ(Propose(), 3u);
  EXPECT_THAT(EpochsOf(Record()), ElementsAre(2, 3));
  EXPECT_EQ(Record().Applied().epoch(), 1u);
  EXPECT_EQ(Record().Newest().epoch(), 3u);
  EXPECT_EQ(registry_.View(kId).strategy.epoch(), 3u) << "policies see the newest";
  EXPECT_EQ(Record().proposed_at, now_);
}

TEST_F(RegistryTest, AnAppliedStrategyRemovesItsProposalAndOlderOnes) {
  AnnouncePair();
  for (int i = 0; i < 3; ++i) Propose();
  ASSERT_TRUE(Announce("h0", AtEpoch(AnnounceOf({"h0", "h1"}), 3)).ok());
  EXPECT_THAT(EpochsOf(Record()), ElementsAre(4));
  EXPECT_EQ(Record().Applied().epoch(), 3u);
}

TEST_F(RegistryTest, AProposalComesAfterAllEpochsThatTheLeaderKnows) {
  AnnouncePair();
  agent::v1::Announce announce = AnnounceOf({"h0", "h1"});
  announce.set_newest_epoch(10);  // by another controller
  ASSERT_TRUE(Announce("h0", announce).ok());
  EXPECT_EQ(Propose(), 11u);
  registry_.Report("h0", ReportOf(/*epoch=*/20));
  EXPECT_EQ(Propose(), 21u);
  registry_.Report("h0", ReportOf(20, /*rejected_epoch=*/30));
  EXPECT_EQ(Propose(), 31u);
}

TEST_F(RegistryTest, OnlyTheLeaderDropsProposals) {
  AnnouncePair();
  Propose();
  Propose();
  EXPECT_FALSE(registry_.Report("h1", ReportOf(1, /*rejected_epoch=*/3)).rejected);
  EXPECT_THAT(EpochsOf(Record()), ElementsAre(2, 3));
  EXPECT_FALSE(registry_.Report("h0", ReportOf(1, 2)).rejected) << "the newest is still open";
  EXPECT_THAT(EpochsOf(Record()), ElementsAre(3));
  EXPECT_TRUE(registry_.Report("h0", ReportOf(1, 3)).rejected);
  EXPECT_THAT(EpochsOf(Record()), IsEmpty());
  EXPECT_FALSE(registry_.Report("h0", ReportOf(1, 3)).rejected) << "once";
  EXPECT_EQ(Propose(), 4u) << "epochs are not used again";
}

TEST_F(RegistryTest, DroppedProposalsLeaveTheAppliedStrategy) {
  AnnouncePair();
  Propose();
  registry_.DropProposals(kId);
  EXPECT_EQ(Record().Newest().epoch(), 1u);
  EXPECT_EQ(Propose(), 3u);
}

TEST_F(RegistryTest, DropsTheOldestOfTooManyProposals) {
  AnnouncePair();
  for (int i = 0; i < 100; ++i) Propose();
  const std::vector<uint64_t> epochs = EpochsOf(Record());
  EXPECT_LE(epochs.size(), 16u);
  EXPECT_EQ(epochs.back(), 101u);
  EXPECT_EQ(epochs.front(), 102u - epochs.size()) << "without gaps";
}

TEST_F(RegistryTest, OtherHostsInvalidateProposals) {
  AnnouncePair();
  Propose();
  agent::v1::Announce turned = AnnounceOf({"h0", "h1"});
  turned.mutable_hosts()->SwapElements(0, 1);
  ASSERT_TRUE(Announce("h0", turned).ok());
  EXPECT_THAT(EpochsOf(Record()), IsEmpty()) << "their rings are positions in the old order";
}

TEST_F(RegistryTest, ANewConnectionOfTheLeaderLosesUnreceivedProposals) {
  AnnouncePair();
  Propose();
  Propose();
  agent::v1::Announce announce = AnnounceOf({"h0", "h1"});
  announce.set_newest_epoch(2);
  ASSERT_TRUE(Register(kThird, "h0", {announce}).ok());
  EXPECT_THAT(EpochsOf(Record()), ElementsAre(2)) << "received, and not applied yet";
  EXPECT_EQ(Propose(), 4u);
}

TEST_F(RegistryTest, AProposalIsAwaitedUntilEveryHostHasReportedIt) {
  AnnouncePair();
  const auto report = [&](const std::string& host, uint64_t epoch, int64_t ms) {
    registry_.RecordMessage(host, now_ + ms * kNsPerMs);
    registry_.Report(host, ReportOf(epoch));
  };
  Propose();
  report("h0", 2, 100);
  report("h1", 1, 150);
  EXPECT_THAT(Record().awaited, ElementsAre("h1"));
  report("h1", 2, 250);
  EXPECT_THAT(Record().awaited, IsEmpty());
  const ProposalCounts& counts = registry_.proposal_counts();
  EXPECT_EQ(counts.applied.count(), 1u);
  EXPECT_DOUBLE_EQ(counts.applied.sum_seconds, 0.25);
  EXPECT_EQ(counts.applied.counts[5], 1u) << "above 0.1 s, up to 0.3 s";
  EXPECT_THAT(counts.by_policy, ElementsAre(Pair("daemon", 1)));
  // A later proposal supersedes one that is awaited, with a time of its own.
  Propose();
  now_ += kNsPerSec;
  Propose();
  EXPECT_EQ(counts.superseded, 1u);
  for (const char* host : {"h0", "h1"}) report(host, 4, 500);
  EXPECT_EQ(counts.applied.count(), 2u);
  EXPECT_DOUBLE_EQ(counts.applied.sum_seconds, 0.75);
}

TEST_F(RegistryTest, ARejectedProposalIsNotAwaited) {
  AnnouncePair();
  registry_.Report("h0", ReportOf(1, /*rejected_epoch=*/2));
  EXPECT_EQ(Propose(), 3u);
  registry_.Report("h0", ReportOf(1, 2));
  EXPECT_THAT(Record().awaited, ElementsAre("h0", "h1")) << "that was the last one";
  registry_.Report("h1", ReportOf(1, 3));
  EXPECT_THAT(Record().awaited, ElementsAre("h0", "h1")) << "the leader decides";
  registry_.Report("h0", ReportOf(1, 3));
  EXPECT_THAT(Record().awaited, IsEmpty());
  EXPECT_EQ(registry_.proposal_counts().rejected, 1u);
}

// ---- Views -----

TEST_F(RegistryTest, TheHostViewHasWhatTheAgentReports) {
  agent::v1::Host host = MakeHost("h0", "r1", "10.0.0.1:7400");
  host.mutable_position()->set_pod("p1");
  agent::v1::Nic* nic = host.add_nics();
  nic->set_name("nic0");
  nic->add_addresses("10.0.0.1");
  nic->set_speed_bps(100'000'000'000);
  nic->set_mtu_bytes(9000);
  ASSERT_TRUE(Register(kFirst, host).ok());
  const std::vector<HostView> views = registry_.HostViews();
  ASSERT_EQ(views.size(), 1u);
  EXPECT_EQ(views[0].position.pod, "p1");
  EXPECT_EQ(views[0].position.rack, "r1");
  EXPECT_EQ(views[0].position.host, "h0");
  EXPECT_EQ(views[0].gpus, 2);
  EXPECT_EQ(views[0].peer_address, "10.0.0.1");
  EXPECT_EQ(views[0].peer_port, 7400);
  ASSERT_EQ(views[0].nics.size(), 1u);
  EXPECT_EQ(views[0].nics[0].name, "nic0");
  EXPECT_EQ(views[0].nics[0].speed_bps, 100'000'000'000u);
  EXPECT_EQ(views[0].nics[0].mtu_bytes, 9000u);
  EXPECT_TRUE(HasAddress(views[0], "10.0.0.1"));
}

TEST_F(RegistryTest, AnInvalidPeerEndpointLeavesTheAddressEmpty) {
  ASSERT_TRUE(Register(kFirst, MakeHost("h0", "", "nonsense")).ok());
  EXPECT_EQ(registry_.HostViews()[0].peer_address, "");
  EXPECT_EQ(registry_.HostViews()[0].peer_port, 0);
}

TEST_F(RegistryTest, HostsAreOrderedByPosition) {
  ASSERT_TRUE(Register(kFirst, MakeHost("a", "r2")).ok());
  ASSERT_TRUE(Register(kSecond, MakeHost("b", "r1")).ok());
  ASSERT_TRUE(Register(kThird, MakeHost("c", "r1")).ok());
  std::vector<std::string> names;
  for (const HostView& view : registry_.View().hosts) names.push_back(view.position.host);
  EXPECT_THAT(names, ElementsAre("b", "c", "a"));
}

TEST_F(RegistryTest, TheViewHasTheGpusOfEachHostsRanks) {
  agent::v1::Host host = MakeHost("h0");
  host.mutable_gpus(0)->set_bus_id("0000:1b:00.0");
  host.mutable_gpus(1)->set_bus_id("0000:2b:00.0");
  agent::v1::Announce announce = AnnounceOf({"h1", "h0"});
  announce.clear_members();
  const std::vector<std::pair<std::string, std::string>> ranks = {{"h0", "0000:2b:00.0"},
                                                                  {"h1", "0000:1b:00.0"},
                                                                  {"h0", "0000:1b:00.0"},
                                                                  {"h0", "0000:1b:00.0"},
                                                                  {"elsewhere", "0000:1b:00.0"}};
  for (const auto& [name, gpu] : ranks) {
    cluster::Member* member = announce.add_members();
    member->set_rank(announce.members_size() - 1);
    member->set_host(name);
    member->set_gpu(gpu);
  }
  ASSERT_TRUE(Register(kFirst, host, {announce}).ok());
  const CommunicatorView view = registry_.View(kId);
  EXPECT_THAT(view.gpus, ElementsAre(IsEmpty(), ElementsAre(0, 1))) << "h1 is not registered";
  EXPECT_THAT(view.first_ranks, ElementsAre(1, 0));
  EXPECT_THAT(view.gpu_of_rank, ElementsAre(ElementsAre(-1), ElementsAre(1, 0, 0)));
}

TEST_F(RegistryTest, ACommunicatorsRevisionFollowsItsView) {
  AnnouncePair();
  uint64_t last = Record().revision;
  const auto changed = [&] { return std::exchange(last, Record().revision) != last; };
  ASSERT_TRUE(Announce("h0", AnnounceOf({"h0", "h1"})).ok());
  agent::v1::Announce running = AnnounceOf({"h0", "h1"});
  running.set_running(true);
  ASSERT_TRUE(Announce("h0", running).ok());
  registry_.Report("h1", ReportOf(1));
  EXPECT_FALSE(changed());
  Propose();
  EXPECT_TRUE(changed());
  agent::v1::Announce applied = AnnounceOf({"h0", "h1"});
  *applied.mutable_strategy() = Record().Newest();
  ASSERT_TRUE(Announce("h0", applied).ok());
  EXPECT_FALSE(changed()) << "policies saw this strategy before";
  registry_.SetCosts(kId, {.operation_us = 3});
  EXPECT_TRUE(changed());
  EXPECT_EQ(registry_.View(kId).costs->operation_us, 3);
  Propose();
  changed();
  registry_.DropProposals(kId);
  EXPECT_TRUE(changed());
  agent::v1::Announce renamed = applied;
  renamed.set_cgroup("/jobs/7");
  ASSERT_TRUE(Announce("h0", renamed).ok());
  EXPECT_TRUE(changed());
  ASSERT_TRUE(Register(kThird, "h2").ok());
  EXPECT_TRUE(changed()) << "a host's GPUs may have changed";
}

}  // namespace registry_test
}  // namespace mccs
