#include "controller/state/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/controller/registry_fixture.h"

namespace mccs {
namespace registry_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

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

}  // namespace registry_test
}  // namespace mccs
