// Registration and rejection of daemons, also when a Topology is deleted.
#include "controller/coordinator/registration.h"

#include "tests/unit/controller/coordinator_fixture.h"

namespace mccs {
namespace registration_test {

using testing::HasSubstr;
using testing::Not;

class RegistrationTest : public CoordinatorTest {
 protected:
  static agent::v1::FromAgent RegistrationOf(const std::string& host, int64_t unix_ns,
                                             const std::string& topology = "") {
    agent::v1::FromAgent message = Registration(MakeHost(host));
    message.mutable_registration()->set_unix_ns(unix_ns);
    message.mutable_registration()->set_topology(topology);
    return message;
  }
};

TEST_F(RegistrationTest, RejectsAClockBeyondTheTolerance) {
  ExpectEnded(
      Send(kFirst, RegistrationOf("h0", wall_clock_.now - 75 * kNsPerSec)), kFirst,
      "the clock of host h0 is 1 min 15 s behind the controller's; at most 10 s is allowed");
  EXPECT_THAT(StateOf(0), HasSubstr("rejected: the clock of host h0"));
  ExpectEnded(Send(kSecond, RegistrationOf("h0", wall_clock_.now + kClockToleranceNs + kNsPerSec)),
              kSecond, "11 s ahead of");
  Send(kThird, RegistrationOf("h0", wall_clock_.now + kClockToleranceNs));
  EXPECT_EQ(StateOf(0), "ready");
}

TEST_F(RegistrationTest, SkipsTheClockCheckWithoutATime) {
  Send(kFirst, RegistrationOf("h0", 0));
  EXPECT_EQ(StateOf(0), "ready");
}

TEST_F(RegistrationTest, TheLargestTimesAreRejectedToo) {
  ExpectEnded(Send(kFirst, RegistrationOf("h0", std::numeric_limits<int64_t>::max())), kFirst,
              "ahead of");
  ExpectEnded(Send(kSecond, RegistrationOf("h0", 1)), kSecond, "behind");
}

// Other daemons get the endpoint.
TEST_F(RegistrationTest, RejectsAnEndpointThatIsNoNumericAddressWithAPort) {
  uint64_t agent = 100;
  const auto answer = [&](const std::string& endpoint) {
    agent::v1::FromAgent message = RegistrationOf("h0", 0);
    message.mutable_registration()->mutable_host()->set_peer_endpoint(endpoint);
    return Send(AgentKey{++agent}, message);
  };
  for (const char* endpoint :
       {"", "garbage", "h1:7400", "10.0.0.1", "10.0.0.1:0", "10.0.0.1:70000", "10.0.0.1:07400",
        "[10.0.0.1]:7400", "0.0.0.0:7400", "[::]:7400", "::1:7400", "10.0.0.1:7400\n"}) {
    SCOPED_TRACE(endpoint);
    const std::vector<Outgoing> out = answer(endpoint);
    ExpectEnded(out, AgentKey{agent}, "invalid peer endpoint '");
    EXPECT_THAT(out[0].end.message(), HasSubstr("set `advertise` in mccsd's configuration"));
    EXPECT_THAT(out[0].end.message(), Not(HasSubstr("\n")));
  }
  answer("[fd00::1]:7400");
  EXPECT_EQ(StateOf(0), "ready");
}

TEST_F(RegistrationTest, RejectsAnUnknownTopologyUntilItExists) {
  SetObjects(TopologyDocument("cluster-a"));
  ExpectEnded(Send(kFirst, RegistrationOf("h0", 0, "cluster-b")), kFirst,
              "mccsd on h0 is configured with `topology: cluster-b`, but there is no such Topology "
              "(did you mean 'cluster-a'?)");
  EXPECT_THAT(StateOf(0), HasSubstr("rejected: mccsd on h0"));
  SetObjects(TopologyDocument("cluster-b"));
  Send(kSecond, RegistrationOf("h0", 0, "cluster-b"));
  EXPECT_EQ(StateOf(0), "ready");
}

TEST_F(RegistrationTest, ATopologyWithoutTheHostIsRejected) {
  SetObjects(
      Together({TopologyDocument("cluster-a", "h[0-1]"),
                Document("Topology", "cluster-b",
                         "  racks: [{name: r0}]\n  switches: [{name: leaf0}]\n  hosts:\n"
                         "    - {name: h7, rack: r0, gpus: 2, nics: [{name: nic0, switch: leaf0, "
                         "capacity: 50Gbit/s}]}\n")}));
  ExpectEnded(Send(kFirst, RegistrationOf("h0", 0, "cluster-b")), kFirst,
              "this host is in Topology 'cluster-a'; correct `topology` in its configuration");
  ExpectEnded(Send(kFirst, RegistrationOf("h9", 0, "cluster-b")), kFirst,
              "that Topology has no such host");
}

TEST_F(RegistrationTest, RejectsOnlyHostsOfADeletedTopology) {
  SetObjects(TopologyDocument("cluster-a"));
  Send(kFirst, RegistrationOf("h0", 0, "cluster-a"));
  Send(kSecond, RegistrationOf("h1", 0));
  ExpectEnded(SetObjects(PolicyDocument("p", "  type: fair_flow\n")), kFirst,
              "there is no such Topology");
  EXPECT_THAT(StateOf(0), HasSubstr("rejected: "));
  EXPECT_EQ(StateOf(1), "ready");
  const std::vector<ControllerEvent> decided = coordinator_.TakeEvents();
  ASSERT_EQ(decided.size(), 1u);
  EXPECT_EQ(decided[0].action, "reject-daemon");
  EXPECT_EQ(decided[0].objects, "host 'h0'");
  EXPECT_THAT(decided[0].outcome, HasSubstr("rejected: mccsd on h0 is configured with"));
  // It retries forever.
  ExpectEnded(Send(kThird, RegistrationOf("h0", 0, "cluster-a")), kThird,
              "there is no such Topology");
  EXPECT_TRUE(coordinator_.TakeEvents().empty()) << "once for all attempts";
  SetObjects(TopologyDocument("cluster-a"));
  Send(AgentKey(4), RegistrationOf("h0", 0, "cluster-a"));
  EXPECT_EQ(StateOf(0), "ready");
}

// The name is that of another, ready host, or empty.
TEST_F(RegistrationTest, AuditsTheRejectionOfADuplicateOrEmptyNameOnce) {
  Send(kFirst, Registration(MakeHost("h0", "", "10.0.0.1:7400")));
  const agent::v1::Host second = MakeHost("h0", "", "10.0.0.2:7400");
  const std::vector<agent::v1::Host> hosts = {second, MakeHost("h0", "", "10.0.0.3:7400"),
                                              MakeHost("", "", "10.0.0.4:7400")};
  uint64_t key = 10;
  for (int attempt = 0; attempt < 100; ++attempt) {
    clock_.now += kNsPerSec;
    Send(kFirst, Beat());
    for (const agent::v1::Host& host : hosts) {
      const auto out = Send(AgentKey(++key), Registration(host));
      ExpectEnded(out, AgentKey(key),
                  host.name().empty() ? "its name is empty" : host.peer_endpoint());
    }
  }
  const std::vector<ControllerEvent> decided = coordinator_.TakeEvents();
  ASSERT_EQ(decided.size(), hosts.size());
  EXPECT_THAT(decided[0].outcome, HasSubstr("10.0.0.1:7400 is connected as host 'h0'"));
  EXPECT_THAT(decided[0].outcome, HasSubstr("10.0.0.2:7400 another host name"));
  EXPECT_THAT(decided[1].outcome, HasSubstr("10.0.0.3:7400 another host name"));
  EXPECT_EQ(decided[2].objects, "host ''");
  EXPECT_EQ(StateOf(0), "ready");
  // After a successful registration, a rejection is recorded again.
  coordinator_.OnStreamClosed(kFirst, "its connection closed");
  Send(kSecond, Registration(second));
  coordinator_.OnStreamClosed(kSecond, "its connection closed");
  Send(kThird, Registration(MakeHost("h0", "", "10.0.0.1:7400")));
  Send(AgentKey(++key), Registration(second));
  EXPECT_EQ(coordinator_.TakeEvents().size(), 1u);
}

// Whoever holds the host's certificate could write a line of the log with each attempt.
TEST_F(RegistrationTest, AuditsFewEndpointsOfARejectedHost) {
  for (uint64_t i = 1; i <= 100; ++i) {
    agent::v1::FromAgent message =
        Registration(MakeHost("h0", "", absl::StrCat("10.0.0.1:", 7400 + i)));
    message.mutable_registration()->set_protocol(99);
    ExpectEnded(Send(AgentKey(i), message), AgentKey(i), "install the same release");
  }
  EXPECT_EQ(coordinator_.TakeEvents().size(), Coordinator::kMaxAuditedEndpoints);
}

TEST_F(RegistrationTest, ARejectedHostExpiresWhenItsDaemonStopsTrying) {
  agent::v1::FromAgent message = Registration(MakeHost("h0"));
  message.mutable_registration()->set_protocol(99);
  Send(kFirst, message);
  EXPECT_EQ(coordinator_.TakeEvents().size(), 1u);
  clock_.now += Coordinator::kRejectedTimeoutNs / 2;
  Send(kSecond, message);
  clock_.now += Coordinator::kRejectedTimeoutNs / 2 + 1;
  Tick();
  EXPECT_THAT(StateOf(0), HasSubstr("rejected: "));
  clock_.now += Coordinator::kRejectedTimeoutNs;
  Tick();
  EXPECT_TRUE(coordinator_.registry().hosts().empty());
  Send(kThird, message);
  EXPECT_EQ(coordinator_.TakeEvents().size(), 1u) << "a new rejection";
}

TEST_F(RegistrationTest, RecordsNothingOfAnOversizedRegistration) {
  const std::string text(kLongestHostField + 1, 'x');
  std::vector<agent::v1::FromAgent> messages;
  const auto with = [&](auto change) {
    agent::v1::FromAgent message = Registration(MakeHost("h0"));
    change(message.mutable_registration());
    messages.push_back(std::move(message));
  };
  with([&](agent::v1::Register* r) { r->mutable_host()->set_name(text); });
  with([&](agent::v1::Register* r) { r->mutable_host()->set_peer_endpoint(text); });
  with([&](agent::v1::Register* r) { r->mutable_host()->set_version(text); });
  with([&](agent::v1::Register* r) { r->mutable_host()->mutable_position()->set_rack(text); });
  with([&](agent::v1::Register* r) { r->mutable_host()->mutable_position()->set_pod(text); });
  with([&](agent::v1::Register* r) { r->set_topology(text); });
  with([&](agent::v1::Register* r) {
    r->mutable_host()->add_nics()->set_name(std::string(kLargestHost, 'x'));
  });
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::vector<Outgoing> out = Send(AgentKey(i + 1), messages[i]);
    ExpectEnded(out, AgentKey(i + 1), "too large");
    EXPECT_LT(out[0].end.message().size(), 300u);
  }
  EXPECT_TRUE(coordinator_.registry().hosts().empty());
  EXPECT_TRUE(coordinator_.state().rejected.empty());
  EXPECT_TRUE(coordinator_.TakeEvents().empty());
}

// h0 has a rank of communicator 7, so that it knows the id, and h1 has rank 0.
TEST_F(RegistrationTest, AFalseLeaderKeepsNoHostOut) {
  Send(kFirst, Registration(MakeHost("h0")));
  Send(kFirst, Announcement(MakeRunning(7, {"h0"})));
  const agent::v1::FromAgent message =
      Registration(MakeHost("h1"), {MakeRunning(7, {"h1", "h0"}), MakeRunning(8, {"h1", "h0"})});
  for (uint64_t attempt = 0; attempt < 100; ++attempt) {
    Send(AgentKey(attempt + 2), message);
    ASSERT_EQ(StateOf(1), "ready");
    ASSERT_EQ(communicators(), 2u);
  }
  EXPECT_EQ(RecordOf(7).leader, "h0");
  EXPECT_EQ(RecordOf(8).leader, "h1");
  EXPECT_EQ(log_->Count("host h1 registered without 1 of its 2 communicators: communicator "
                        "0000000000000007 is led by h0, not by h1"),
            static_cast<size_t>(LimitedWarnings::kPerMinute));
}

TEST_F(RegistrationTest, AnOversizedSurveyOfGpusIsNotStored) {
  RegisterPair();
  agent::v1::FromAgent message;
  message.mutable_gpu_survey()->add_problems("it is too hot");
  Send(kFirst, message);
  message.mutable_gpu_survey()->set_unreadable(std::string(kLargestHost, 'x'));
  EXPECT_TRUE(Send(kFirst, message).empty());
  const agent::v1::GpuSurvey& stored = coordinator_.registry().hosts().at("h0").host.gpu_survey();
  EXPECT_EQ(stored.unreadable(), "");
  EXPECT_EQ(stored.problems_size(), 1);
  EXPECT_EQ(StateOf(0), "ready");
  EXPECT_TRUE(log_->Contains("host h0: its survey of GPUs is too large (10485"));
}

TEST_F(RegistrationTest, AnOversizedReportIsLoggedWithItsHost) {
  StartCommunicator();
  agent::v1::FromAgent message = Reporting(1, 2);
  ReportIn(&message)->set_stalled_on(std::string(HostStorage::kMaxReportBytes, 'x'));
  for (int i = 0; i < 100; ++i) Send(kSecond, message);
  EXPECT_EQ(log_->Count("host h1: its report on communicator 0000000000000001 takes 1677"),
            static_cast<size_t>(LimitedWarnings::kPerMinute));
  EXPECT_FALSE(RecordOf(1).reports.contains("h1"));
  Send(kSecond, Reporting(1, 2));
  EXPECT_TRUE(RecordOf(1).reports.contains("h1"));
}

TEST_F(RegistrationTest, AStreamWithoutARegistrationEnds) {
  coordinator_.OnStreamOpened(kFirst, "ipv4:10.0.0.1:5000", absl::OkStatus());
  coordinator_.OnStreamOpened(kSecond, "ipv4:10.0.0.2:5000", absl::OkStatus());
  Send(kSecond, Registration(MakeHost("h0")));
  clock_.now += Coordinator::kRegistrationTimeoutNs;
  Send(kSecond, Beat());
  EXPECT_TRUE(Tick().empty());
  clock_.now += 1;
  ExpectEnded(Tick(), kFirst, "no registration within 30 s");
  EXPECT_TRUE(Tick().empty()) << "once";
}

TEST_F(RegistrationTest, AStreamOfAClientWithoutTheRightEndsAtOnce) {
  const absl::Status why = absl::PermissionDeniedError("no host");
  for (uint64_t i = 1; i <= 100; ++i) {
    coordinator_.OnStreamOpened(AgentKey(i), absl::StrCat("ipv4:10.0.0.1:", 5000 + i), why);
    ExpectEnded(coordinator_.TakeOutbox(), AgentKey(i), "no host");
  }
  EXPECT_TRUE(log_->Contains("agent stream from ipv4:10.0.0.1:5001 refused: no host"));
  EXPECT_EQ(log_->Count("agent stream from "), static_cast<size_t>(LimitedWarnings::kPerMinute))
      << "a client may use any of its ports";
  coordinator_.OnStreamOpened(AgentKey(101), "ipv4:10.0.0.2:5000", why);
  ExpectEnded(coordinator_.TakeOutbox(), AgentKey(101), "no host");
  EXPECT_TRUE(log_->Contains("agent stream from ipv4:10.0.0.2:5000 refused: no host"));
  EXPECT_TRUE(coordinator_.registry().hosts().empty());
  EXPECT_TRUE(coordinator_.state().rejected.empty());
  EXPECT_TRUE(coordinator_.TakeEvents().empty());
  clock_.now += Coordinator::kRegistrationTimeoutNs + 1;
  EXPECT_TRUE(Tick().empty()) << "none is counted as a stream that may still register";
}

}  // namespace registration_test
}  // namespace mccs
