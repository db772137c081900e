#include "tests/unit/controller/coordinator_fixture.h"
#include "tests/unit/mentions.h"

namespace mccs {
namespace coordinator_test {

using testing::HasSubstr;

TEST_F(CoordinatorTest, RegisteredHostIsReadyAndGetsTheHeartbeatInterval) {
  const auto out = Send(kFirst, Registration(MakeHost("h0", "r1")));
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].message->registered().heartbeat_every_ns(), kNsPerSec);
  EXPECT_EQ(out[0].message->registered().heartbeat_timeout_ns(), 3 * kNsPerSec);
  EXPECT_EQ(StateOf(0), "ready");
}

TEST_F(CoordinatorTest, AnswersANewCommunicatorWithARing) {
  Send(kFirst, Registration(MakeHost("h0", "r1")));
  Send(kSecond, Registration(MakeHost("h1", "r1")));
  const auto out = Send(kSecond, Announcement(MakeAnnounce(0xabc, {"h1", "h0"}, 2)));
  ASSERT_EQ(out.size(), 1u);
  const agent::v1::Propose& propose = out[0].message->propose();
  EXPECT_EQ(propose.comm_id(), 0xabcu);
  EXPECT_THAT(propose.strategy().channels(0).ring(), testing::ElementsAre(1, 0));
  EXPECT_EQ(propose.strategy().channels(1).source_ports_size(), 2);
}

TEST_F(CoordinatorTest, LeaderReportsTheAppliedStrategy) {
  Send(kFirst, Registration(MakeHost("h0")));
  const auto out = Send(kFirst, Announcement(MakeAnnounce(1, {"h0", "h1"})));
  EXPECT_EQ(Describe("0")->summary().strategy(), "daemon default");
  EXPECT_EQ(Describe("0")->summary().state(), "forming");
  ApplyProposal(out);
  EXPECT_EQ(Describe("0")->summary().strategy(), "locality_ring");
  EXPECT_EQ(Describe("0")->summary().epoch(), 2u);
  EXPECT_EQ(Describe("0")->summary().state(), "active");
}

TEST_F(CoordinatorTest, DescriptionNamesHostsOfAPendingProposal) {
  AnnouncePair();
  EXPECT_EQ(Describe("0")->change().epoch(), 2u);
  EXPECT_THAT(Describe("0")->change().pending_hosts(), testing::ElementsAre("h0", "h1"));
  EXPECT_EQ(Describe("0")->progress_size(), 0) << "no host has reported";
  clock_.now += kNsPerSec;
  Send(kSecond, Reporting(1, 1));
  agent::v1::FromAgent leader = Reporting(1, 2);
  ReportIn(&leader)->set_operations(40);
  Send(kFirst, leader);
  const auto detail = Describe("0");
  ASSERT_EQ(detail->progress_size(), 2);
  EXPECT_EQ(detail->progress(0).host(), "h0");
  EXPECT_EQ(detail->progress(0).epoch(), 2u);
  EXPECT_EQ(detail->progress(0).operations(), 40u);
  EXPECT_EQ(detail->progress(1).epoch(), 1u);
  EXPECT_EQ(detail->change().age_ns(), kNsPerSec);
  EXPECT_THAT(detail->change().pending_hosts(), testing::ElementsAre("h1"));
  Send(kSecond, Reporting(1, 2));
  EXPECT_FALSE(Describe("0")->has_change());
}

TEST_F(CoordinatorTest, DescriptionHasTheLeadersError) {
  AnnouncePair();
  agent::v1::FromAgent message = Reporting(1, 1);
  ReportIn(&message)->set_change_error("no memory for the new lanes");
  ReportIn(&message)->set_rejected_epoch(2);
  Send(kFirst, message);
  Send(kSecond, Reporting(1, 1));
  EXPECT_EQ(Describe("0")->change_error(), "no memory for the new lanes");
  EXPECT_FALSE(Describe("0")->has_change()) << "it expired";
}

TEST_F(CoordinatorTest, FailedReportOfAnyHostDefinesTheState) {
  AnnouncePair();
  Send(kFirst, Reporting(1, 2));
  Send(kSecond, Reporting(1, 2, "failed: rank 1 left"));
  EXPECT_EQ(Describe("0")->summary().state(), "failed: rank 1 left (h1)");
}

TEST_F(CoordinatorTest, ShowsCallOptionsOfTheMostAdvancedHost) {
  AnnouncePair();
  Send(kSecond, Reporting(1, 2));
  EXPECT_FALSE(Describe("0")->has_with_options());
  for (const auto& [connection, number] : {std::pair{kFirst, 18}, {kSecond, 17}}) {
    agent::v1::FromAgent message = Reporting(1, 2);
    ReportIn(&message)->mutable_with_options()->set_last_number(number);
    Send(connection, message);
  }
  EXPECT_EQ(Describe("0")->with_options().last_number(), 18u);
}

TEST_F(CoordinatorTest, ShowsTheMostCapturedGroupsOfAnyHost) {
  AnnouncePair();
  agent::v1::FromAgent report = Reporting(1, 2);
  for (const auto& [connection, groups] : {std::pair{kFirst, 3}, {kSecond, 2}}) {
    ReportIn(&report)->set_captured_groups(groups);
    Send(connection, report);
  }
  EXPECT_EQ(Describe("0")->captured_groups(), 3u);
}

TEST_F(CoordinatorTest, ShowsEachStalledOperationOnce) {
  AnnouncePair();
  agent::v1::FromAgent report = Reporting(1, 2);
  ReportIn(&report)->set_stalled_on("operation #3: rank 0 waits for rank 1 on h1");
  Send(kFirst, report);
  Send(kSecond, report);
  EXPECT_THAT(Describe("0")->stalled_on(),
              testing::ElementsAre("operation #3: rank 0 waits for rank 1 on h1"));
  Send(kFirst, Reporting(1, 2));
  Send(kSecond, Reporting(1, 2));
  EXPECT_EQ(Describe("0")->stalled_on_size(), 0);
}

TEST_F(CoordinatorTest, ShowsHostsThatStageBuffers) {
  AnnouncePair();
  agent::v1::FromAgent report = Reporting(1, 2);
  ReportIn(&report)->set_staged("no access between its GPUs");
  Send(kSecond, report);
  EXPECT_THAT(Describe("0")->staged(), testing::ElementsAre("h1: no access between its GPUs"));
}

TEST_F(CoordinatorTest, HostWithoutHeartbeatsIsLost) {
  Send(kFirst, Registration(MakeHost("h0")));
  for (int i = 0; i < 10; ++i) {
    clock_.now += 2 * kNsPerSec;
    EXPECT_TRUE(Send(kFirst, Beat())[0].message->has_heartbeat());
    coordinator_.Tick();
    EXPECT_EQ(StateOf(0), "ready");
  }
  clock_.now += 3 * kNsPerSec + 1;
  coordinator_.Tick();
  EXPECT_THAT(StateOf(0), HasSubstr("lost: no message for more than 3000 ms"));
  ExpectEnded(coordinator_.TakeOutbox(), kFirst, "no message");
}

TEST_F(CoordinatorTest, ReconnectedHostReplacesItsCommunicators) {
  Send(kFirst, Registration(MakeHost("h0")));
  Send(kFirst, Announcement(MakeAnnounce(1, {"h0", "h1"})));
  Send(kFirst, Announcement(MakeAnnounce(2, {"h0", "h1"})));
  coordinator_.OnStreamClosed(kFirst, "its connection closed");
  EXPECT_THAT(Describe("0000000000000001")->summary().state(),
              HasSubstr("its leader h0 is not connected"));
  Send(kSecond, Registration(MakeHost("h0"), {MakeAnnounce(2, {"h0", "h1"})}));
  EXPECT_EQ(StateOf(0), "ready");
  EXPECT_EQ(communicators(), 1u);
  EXPECT_TRUE(Describe("0000000000000002").ok());
}

// Its daemon reconnects every few seconds, and is rejected each time.
TEST_F(CoordinatorTest, RemovesCommunicatorsOfARejectedLeader) {
  StartCommunicator();
  coordinator_.OnStreamClosed(kFirst, "its connection closed");
  agent::v1::FromAgent registration = Registration(MakeHost("h0"));
  registration.mutable_registration()->set_protocol(99);
  const MonotonicNs end = clock_.now + Coordinator::kOrphanTimeoutNs + 10 * kNsPerSec;
  for (uint64_t key = 100; clock_.now < end; ++key) {
    clock_.now += kNsPerSec;
    Send(AgentKey(key), registration);
    Send(kSecond, Beat());
    Tick();
  }
  EXPECT_EQ(communicators(), 0u);
}

TEST_F(CoordinatorTest, TheSameDaemonOnANewStreamReplacesItsOldOne) {
  Send(kFirst, Registration(MakeHost("h0")));
  const auto out = Send(kSecond, Registration(MakeHost("h0")));
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].to, kFirst);
  EXPECT_FALSE(out[0].message.has_value());
  EXPECT_TRUE(out[1].message->has_registered());
  coordinator_.OnStreamClosed(kFirst, "its connection closed");
  EXPECT_EQ(StateOf(0), "ready");
}

TEST_F(CoordinatorTest, RejectsAnAgentWithAnotherProtocolVersion) {
  agent::v1::FromAgent message = Registration(MakeHost("h0"));
  message.mutable_registration()->set_protocol(99);
  ExpectEnded(Send(kFirst, message), kFirst, "install the same release");
  EXPECT_THAT(StateOf(0), HasSubstr("rejected: "));
  Send(kSecond, Registration(MakeHost("h0")));
  EXPECT_EQ(StateOf(0), "ready");
}

TEST_F(CoordinatorTest, SendsTenantsAtRegistrationAndOnChange) {
  SetObjects(TenantDocument("a", 1, "  quotas: {communicators: 2, memory: 1GiB, operations: 3}\n"));
  const auto first = Send(kFirst, Registration(MakeHost("h0")));
  ASSERT_EQ(first.size(), 1u);
  const agent::v1::Tenants& tenants = first[0].message->registered().tenants();
  ASSERT_EQ(tenants.tenants_size(), 1);
  EXPECT_EQ(tenants.tenants(0).name(), "a");
  EXPECT_EQ(tenants.tenants(0).uids(0), 1u);
  EXPECT_EQ(tenants.tenants(0).max_communicators(), 2u);
  EXPECT_EQ(tenants.tenants(0).max_memory_bytes(), 1u << 30);
  EXPECT_EQ(tenants.tenants(0).max_operations(), 3u);
  Send(kSecond, Registration(MakeHost("h1")));
  EXPECT_TRUE(SetObjects(TenantDocument("a", 1,
                                        "  weight: 2\n  quotas: {communicators: 2, memory: "
                                        "1GiB, operations: 3}\n"))
                  .empty())
      << "no daemon needs a weight";
  const auto capped = SetObjects(TenantDocument("a", 1, "  cap: 8Gbit/s\n  priority: 3\n"));
  ASSERT_EQ(capped.size(), 2u);
  EXPECT_EQ(capped[0].message->tenants().tenants(0).cap_bps(), 8'000'000'000u);
  EXPECT_EQ(capped[0].message->tenants().tenants(0).priority(), 3u);
  const auto changed = SetObjects(TenantDocument("a", 1));
  ASSERT_EQ(changed.size(), 2u);
  for (const Outgoing& out : changed) {
    EXPECT_FALSE(out.message->tenants().tenants(0).has_max_communicators());
  }
  EXPECT_EQ(SetObjects("").size(), 2u) << "there are none any more";
}

TEST_F(CoordinatorTest, SendsTheKeyForUniqueIds) {
  Coordinator coordinator({.version = "test", .id_key = "key"}, &clock_, log_.get());
  coordinator.Handle(kFirst, Registration(MakeHost("h0")));
  EXPECT_EQ(coordinator.TakeOutbox()[0].message->registered().tenants().id_key(), "key");
  coordinator.SetObjects(std::make_shared<const ObjectSet>());
  EXPECT_TRUE(coordinator.TakeOutbox().empty()) << "nothing has changed";
}

TEST_F(CoordinatorTest, MapsAControlGroupToItsTenant) {
  SetObjects(Together({Document("Tenant", "a", "  selector: {cgroups: [/jobs/a]}\n"),
                       PolicyDocument("p", "  type: rank_order\n  selector: {tenants: [a]}\n")}));
  Send(kFirst, Registration(MakeHost("h0")));
  agent::v1::Announce inside = MakeAnnounce(1, {"h0", "h1"}),
                      outside = MakeAnnounce(2, {"h0", "h1"});
  inside.set_cgroup("/jobs/a/pod7");
  outside.set_cgroup("/jobs/ab");
  const auto origin = [&](const agent::v1::Announce& announce) {
    return Send(kFirst, Announcement(announce))[0].message->propose().strategy().origin();
  };
  EXPECT_EQ(origin(inside), "rank_order by p");
  EXPECT_EQ(origin(outside), "locality_ring");
}

TEST_F(CoordinatorTest, ShowsARegisteredHostThatContradictsItsTopology) {
  SetObjects(TopologyDocument("t"));
  Send(kFirst, Registration(MakeHost("h0", "r7")));
  Send(kSecond, Registration(MakeHost("h1", "r0")));
  const control::v1::ListHostsReply hosts = ListHosts(coordinator_.state(), clock_.now);
  ASSERT_EQ(hosts.hosts(1).host().name(), "h0");
  ASSERT_EQ(hosts.hosts(1).topology_mismatches_size(), 1);
  EXPECT_THAT(hosts.hosts(1).topology_mismatches(0),
              OneLineMentions("Topology 't'", "host h0", "rack r0", "rack r7"));
  EXPECT_EQ(hosts.hosts(0).topology_mismatches_size(), 0);
}

TEST_F(CoordinatorTest, ShowsCertificatesThatEndSoon) {
  const int64_t now_s = wall_clock_.now / kNsPerSec;
  const auto hosts = [&] { return ListHosts(coordinator_.state(), clock_.now, now_s); };
  RegisterPair();
  agent::v1::FromAgent beat = Beat();
  beat.mutable_heartbeat()->set_certificate_end_s(now_s + 3600);
  Send(kFirst, beat);
  beat.mutable_heartbeat()->set_certificate_end_s(now_s + 90 * 86'400);
  Send(kSecond, beat);
  EXPECT_EQ(hosts().hosts(0).certificate_problem(), "certificate ends in 1 h");
  EXPECT_EQ(hosts().hosts(0).state(), "ready");
  EXPECT_EQ(hosts().hosts(1).certificate_end_s(), now_s + 90 * 86'400);
  EXPECT_EQ(hosts().hosts(1).certificate_problem(), "");
  EXPECT_EQ(hosts().certificate_problem(), "");
  coordinator_.SetCertificateEnd(now_s - 60);
  EXPECT_EQ(hosts().certificate_problem(), "certificate ended 1 min ago");
  // An ended certificate is a reason for which a host is lost.
  coordinator_.OnStreamClosed(kFirst, "its connection closed");
  EXPECT_EQ(hosts().hosts(0).certificate_problem(), "certificate ends in 1 h");
}

// The Topology has two NICs; the host has not registered yet.
TEST_F(CoordinatorTest, FirstStrategyHasOnlyReportedAddresses) {
  SetObjects(Document("Topology", "t",
                      "  racks: [{name: r0}]\n  switches: [{name: leaf0}]\n  hosts:\n"
                      "    - name: h[0-1]\n      rack: r0\n      gpus: 2\n      nics:\n"
                      "        - {name: \"nic[0-1]\", switch: leaf0, capacity: 1Gbit/s, address: "
                      "\"10.0.0.[1-4]\"}\n"));
  const auto host = [](const std::string& name, std::vector<std::string> addresses) {
    agent::v1::Host made = MakeHost(name, "", addresses[0] + ":7400");
    for (const std::string& address : addresses) made.add_nics()->add_addresses(address);
    return made;
  };
  Send(kFirst, Registration(host("h0", {"10.0.0.1", "10.0.0.2"})));
  const auto out = Send(kFirst, Announcement(MakeAnnounce(1, {"h0", "h1"}, 2)));
  ASSERT_EQ(out.size(), 1u);
  for (const auto& channel : out[0].message->propose().strategy().channels())
    EXPECT_EQ(channel.addresses_size(), 0);
  ApplyProposal(out);
  Send(kSecond, Registration(host("h1", {"10.0.0.3", "10.0.0.4"})));
  const auto then = Tick();
  ASSERT_EQ(then.size(), 1u);
  EXPECT_THAT(then[0].message->propose().strategy().channels(1).addresses(),
              testing::ElementsAre("10.0.0.2", "10.0.0.4"));
}

TEST_F(CoordinatorTest, MessageBeforeOrSecondRegistrationEndsTheStream) {
  ExpectEnded(Send(kFirst, Beat()), kFirst, "must be Register");
  Send(kSecond, Registration(MakeHost("h0")));
  ExpectEnded(Send(kSecond, Registration(MakeHost("h0"))), kSecond, "once per stream");
  ExpectEnded(Send(kThird, Registration(MakeHost(""))), kThird, "its name is empty");
}

TEST_F(CoordinatorTest, IgnoresInvalidMessagesAboutCommunicators) {
  RegisterPair();
  agent::v1::Announce bad_ring = MakeAnnounce(1, {"h0", "h1"});
  bad_ring.mutable_strategy()->mutable_channels(0)->set_ring(0, 7);
  EXPECT_TRUE(Send(kFirst, Announcement(bad_ring)).empty());
  EXPECT_TRUE(Send(kFirst, Announcement(MakeAnnounce(0, {"h0"}))).empty());
  EXPECT_TRUE(Send(kFirst, Announcement(MakeAnnounce(1, {}))).empty());
  EXPECT_TRUE(Send(kFirst, Reporting(77, 1)).empty());
  EXPECT_TRUE(Send(kFirst, Ending(77)).empty());
  EXPECT_EQ(communicators(), 0u);

  Send(kFirst, Announcement(MakeAnnounce(1, {"h0", "h1"})));
  EXPECT_TRUE(Send(kSecond, Announcement(MakeAnnounce(1, {"h1"}))).empty())
      << "another host leads it";
  EXPECT_EQ(Describe("0")->summary().hosts(), 2);
}

// Policies rely on valid rings: a lane from a host to itself has no path.
TEST_F(CoordinatorTest, RejectsRingsThatDoNotVisitEachHostOnce) {
  SetObjects(Together({TopologyDocument("t", "h[0-2]"), PolicyDocument("p", "  type: shares\n")}));
  RegisterPair();
  const std::vector<std::vector<int>> rings = {{0, 0, 0}, {0, 1, 1}, {0, 1}, {}, {0, 1, 2, 0}};
  std::vector<agent::v1::Announce> bad = {MakeAnnounce(1, {"h0", "h0"}),
                                          MakeAnnounce(1, {"h0", "h1", "h0"})};
  for (const std::vector<int>& ring : rings) {
    bad.push_back(MakeAnnounce(1, {"h0", "h1", "h2"}, 2));
    strategy::ChannelStrategy* last = bad.back().mutable_strategy()->mutable_channels(1);
    last->clear_ring();
    for (const int host : ring) last->add_ring(host);
  }
  for (agent::v1::Announce& announce : bad) {
    SCOPED_TRACE(announce.ShortDebugString());
    for (const bool running : {false, true}) {
      announce.set_running(running);
      EXPECT_TRUE(Send(kFirst, Announcement(announce)).empty());
      Tick();
      EXPECT_EQ(communicators(), 0u);
    }
    ExpectEnded(Send(kThird, Registration(MakeHost("h2"), {announce})), kThird,
                "communicator 0000000000000001 as announced: ");
  }
  // A running communicator continues.
  Send(kFirst, Announcement(MakeAnnounce(1, {"h0", "h1"})));
  bad[0].set_running(true);
  Send(kFirst, Announcement(bad[0]));
  Tick();
  EXPECT_EQ(Describe("0")->summary().hosts(), 2);
}

TEST_F(CoordinatorTest, ACommunicatorIsFoundByAnUnambiguousPrefix) {
  Send(kFirst, Registration(MakeHost("h0")));
  Send(kFirst, Announcement(MakeAnnounce(0xab00000000000001, {"h0"})));
  Send(kFirst, Announcement(MakeAnnounce(0xac00000000000002, {"h0"})));
  EXPECT_EQ(Describe("ab")->summary().id(), "ab00000000000001");
  EXPECT_THAT(Describe("a").status().message(), HasSubstr("matches 2 communicators"));
  EXPECT_EQ(Describe("a").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Describe("ff").status().code(), absl::StatusCode::kNotFound);
  for (const char* id : {"", "xyz", "00000000000000000"}) {
    EXPECT_EQ(Describe(id).status().code(), absl::StatusCode::kInvalidArgument) << id;
  }
}

TEST_F(CoordinatorTest, LanesAreShownInTheRingsOrderWithTheirChosenPorts) {
  RegisterPair();
  const auto out = Send(kSecond, Announcement(MakeAnnounce(1, {"h1", "h0"})));
  ApplyProposal(out);
  const auto& ports = out[0].message->propose().strategy().channels(0).source_ports();
  Send(kFirst, ReportingLane(1, 1, 0, 61000));
  Send(kSecond, ReportingLane(1, 0, 1, 61000));
  const control::v1::CommunicatorDetail detail = *Describe("0");
  EXPECT_THAT(detail.rings(0).hosts(), testing::ElementsAre("h0", "h1"));
  ASSERT_EQ(detail.lanes_size(), 2);
  EXPECT_EQ(detail.lanes(0).from(), "h0");
  EXPECT_EQ(detail.lanes(0).to(), "h1");
  EXPECT_EQ(detail.lanes(0).chosen_source_port(), ports[0]);
  EXPECT_EQ(detail.lanes(1).chosen_source_port(), ports[1]);
}

TEST_F(CoordinatorTest, LaneOutsideTheRingHasNoChosenPort) {
  RegisterPair();
  const auto out = Send(kFirst, Announcement(MakeAnnounce(1, {"h0", "h1", "h2"})));
  ApplyProposal(out);
  const strategy::ChannelStrategy& order = out[0].message->propose().strategy().channels(0);
  agent::v1::FromAgent message = Reporting(1, 2);
  for (int hops : {1, 2}) {
    agent::v1::Lane* lane = ReportIn(&message)->add_lanes();
    lane->set_from(order.ring(0));
    lane->set_to(order.ring(hops));
  }
  Send(kFirst, message);
  const control::v1::CommunicatorDetail detail = *Describe("0");
  ASSERT_EQ(detail.lanes_size(), 2);
  EXPECT_EQ(detail.lanes(0).chosen_source_port(), order.source_ports(0));
  EXPECT_EQ(detail.lanes(1).chosen_source_port(), 0u);
}

}  // namespace coordinator_test
}  // namespace mccs
