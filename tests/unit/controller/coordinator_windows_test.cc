// Send windows of communicators that wait for a favoured one, in the time of each host's clock.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/controller/coordinator_fixture.h"
#include "tests/unit/mentions.h"

namespace mccs {
namespace coordinator_windows_test {

constexpr int64_t kPeriodNs = 200 * kNsPerMs;
constexpr int64_t kBusyNs = 50 * kNsPerMs;
constexpr uint64_t kFavoured = 1, kOther = 2;

// Communicator 1 of the favoured tenant a and 2 of b, both on h0 and h1, whose clocks are 5 s and
// 9 s ahead of the controller's.
class CoordinatorWindowsTest : public CoordinatorTest {
 protected:
  CoordinatorWindowsTest() {
    RegisterPair();
    for (const auto& [id, tenant] : {std::pair{kFavoured, "uid 1"}, std::pair{kOther, "uid 2"}}) {
      agent::v1::Announce announce = MakeAnnounce(id, {"h0", "h1"});
      announce.set_tenant(tenant);
      Send(kFirst, Announcement(announce));
    }
  }

  static int64_t OffsetOf(AgentKey agent) { return (agent == kSecond ? 9 : 5) * kNsPerSec; }

  std::vector<Outgoing> ApplyPolicy(const std::string& policy) {
    return SetObjects(Together({TopologyDocument("t", "h[0-1]"), TenantDocument("a", 1),
                                TenantDocument("b", 2), PolicyDocument("p", policy)}));
  }
  void ApplyWindows() { ApplyPolicy("  type: time_windows\n  parameters: {favoured: [a]}\n"); }

  // A round trip of heartbeats, 1 ms each way. Adds the coordinator's other messages to heard_.
  void CompareClock(AgentKey agent) {
    agent::v1::FromAgent beat = Beat();
    beat.mutable_heartbeat()->set_sent_ns(clock_.now + OffsetOf(agent));
    const std::vector<Outgoing> out = Send(agent, beat);
    ASSERT_TRUE(out.at(0).message->has_heartbeat());
    const int64_t sent = out[0].message->heartbeat().sent_ns();
    clock_.now += kNsPerMs;
    beat.mutable_heartbeat()->set_echoed_sent_ns(sent);
    beat.mutable_heartbeat()->set_received_ns(clock_.now + OffsetOf(agent));
    beat.mutable_heartbeat()->set_sent_ns(clock_.now + OffsetOf(agent));
    clock_.now += kNsPerMs;
    Send(agent, beat);
  }
  void CompareClocks() {
    CompareClock(kFirst);
    CompareClock(kSecond);
  }

  // A report of the favoured one after `bursts` bursts, the last of which ended now.
  agent::v1::FromAgent ReportOf(AgentKey agent, int bursts, int64_t period_ns = kPeriodNs) {
    agent::v1::FromAgent message = Reporting(kFavoured, 2);
    agent::v1::Report* report = ReportIn(&message);
    report->set_measured_ns(clock_.now + OffsetOf(agent));
    agent::v1::Activity* activity = report->mutable_activity();
    activity->set_begin_ns(clock_.now + OffsetOf(agent) - kBusyNs - (bursts - 1) * period_ns);
    for (int burst = 0; burst < bursts; ++burst) {
      if (burst > 0) activity->add_span_ns(static_cast<uint64_t>(period_ns - kBusyNs));
      activity->add_span_ns(static_cast<uint64_t>(kBusyNs));
    }
    return message;
  }

  // Windows of the waiting communicator, by host. None: it may send at any time.
  using SentWindows = std::map<AgentKey, std::optional<PlannedWindows>>;
  static SentWindows WindowsIn(const std::vector<Outgoing>& out) {
    SentWindows sent;
    for (const Outgoing& each : out) {
      if (!each.message || !each.message->has_rate_limits()) continue;
      EXPECT_EQ(each.message->rate_limits().comm_id(), kOther);
      const agent::v1::RateLimits& limits = each.message->rate_limits();
      std::optional<PlannedWindows>& windows = sent[each.to];
      if (!limits.has_send_windows()) continue;
      windows = {.period_ns = limits.send_windows().period_ns(),
                 .origin = limits.send_windows().origin_ns(),
                 .open_ns = limits.send_windows().open_ns()};
    }
    return sent;
  }
  // Applies the policy, and returns the windows that are sent.
  SentWindows Begin() {
    CompareClocks();
    ApplyWindows();
    return WindowsIn(Send(kFirst, ReportOf(kFirst, 10)));
  }

  const SentWindows kLifted = {{kFirst, std::nullopt}, {kSecond, std::nullopt}};
};

TEST_F(CoordinatorWindowsTest, WaitingCommunicatorSendsInThePausesOnEachHostsClock) {
  const SentWindows sent = Begin();
  ASSERT_EQ(sent.size(), 2u);
  for (const AgentKey agent : {kFirst, kSecond}) {
    ASSERT_TRUE(sent.at(agent).has_value());
    const PlannedWindows& windows = *sent.at(agent);
    EXPECT_EQ(windows.period_ns, kPeriodNs);
    // A burst has just ended. Clock errors are up to 1 ms.
    const int64_t origin = windows.origin - OffsetOf(agent);
    EXPECT_NEAR(static_cast<double>(origin - clock_.now), 2.1 * kNsPerMs, 0.2 * kNsPerMs);
    EXPECT_THAT(coordinator_.windows().Describe(FormatCommId(CommId(kOther))),
                Mentions("200 ms", "communicator 0000000000000001"));
    EXPECT_GT(windows.open_ns, 130 * kNsPerMs);
    EXPECT_LT(windows.open_ns, kPeriodNs - kBusyNs - 5 * kNsPerMs);
  }
}

TEST_F(CoordinatorWindowsTest, SendsWindowsAgainOnlyIfTheyAreWrongOrOld) {
  Begin();
  clock_.now += 4 * kPeriodNs;
  EXPECT_TRUE(WindowsIn(Send(kFirst, ReportOf(kFirst, 14))).empty()) << "as they were";
  clock_.now += 4 * kPeriodNs + 20 * kNsPerMs;
  EXPECT_EQ(WindowsIn(Send(kFirst, ReportOf(kFirst, 18))).size(), 2u) << "20 ms later than sent";
  int times = 0;
  for (int i = 0; i < 100; ++i) {
    const MonotonicNs next = clock_.now + kPeriodNs;
    if (i % 5 == 0) CompareClocks();
    clock_.now = next;
    times += WindowsIn(Send(kFirst, ReportOf(kFirst, 18))).empty() ? 0 : 1;
  }
  EXPECT_EQ(times, 2) << "in 20 s";
}

TEST_F(CoordinatorWindowsTest, StopsWaitingForAnEndedJob) {
  Begin();
  EXPECT_EQ(WindowsIn(Send(kFirst, Ending(kFavoured))), kLifted);
  EXPECT_THAT(coordinator_.windows().Describe(FormatCommId(CommId(kOther))),
              testing::HasSubstr("at any time: cannot compute send windows from communicator "
                                 "0000000000000001: no report"));
  EXPECT_TRUE(WindowsIn(Tick()).empty());
}

TEST_F(CoordinatorWindowsTest, StopsWaitingForASilentJob) {
  Begin();
  clock_.now += 2 * kPeriodNs + coordinator_.windows().timeout_ns() - kNsPerMs;
  Send(kFirst, Beat());
  Send(kSecond, Beat());
  EXPECT_TRUE(WindowsIn(Tick()).empty());
  clock_.now += 2 * kNsPerMs;
  EXPECT_EQ(WindowsIn(Tick()), kLifted);
}

// Its daemons then report every 2 s.
TEST_F(CoordinatorWindowsTest, WindowsReachTheNextReportOfALargeCluster) {
  std::vector<AgentKey> agents = {kFirst, kSecond};
  while (agents.size() < 2000) {
    agents.emplace_back(agents.size() + 100);
    Send(agents.back(), Registration(MakeHost(absl::StrCat("other", agents.size()))));
  }
  Tick();
  Begin();
  clock_.now += 2 * kPeriodNs + 5 * kNsPerSec;  // two reports are late
  for (const AgentKey agent : agents) Send(agent, Beat());
  EXPECT_TRUE(WindowsIn(Tick()).empty());
  clock_.now += kNsPerSec + kNsPerMs;
  EXPECT_EQ(WindowsIn(Tick()), kLifted);
}

TEST_F(CoordinatorWindowsTest, StopsWaitingForAnIrregularJob) {
  Begin();
  agent::v1::FromAgent message = ReportOf(kFirst, 4);
  agent::v1::Activity* activity = ReportIn(&message)->mutable_activity();
  for (const int pause_ms : {20, 330, 10, 90, 260}) {
    activity->add_span_ns(static_cast<uint64_t>(pause_ms * kNsPerMs));
    activity->add_span_ns(static_cast<uint64_t>(kBusyNs));
    clock_.now += pause_ms * kNsPerMs + kBusyNs;
  }
  EXPECT_EQ(WindowsIn(Send(kFirst, message)), kLifted);
}

TEST_F(CoordinatorWindowsTest, NoWindowsWithoutAKnownClock) {
  ApplyWindows();
  CompareClock(kFirst);
  EXPECT_TRUE(WindowsIn(Send(kFirst, ReportOf(kFirst, 10))).empty());
  CompareClock(kSecond);
  EXPECT_EQ(WindowsIn(Tick()).size(), 2u);
}

// Until its clock is known again, no host of the communicator waits.
TEST_F(CoordinatorWindowsTest, ComparesTheClockOfAReconnectedHostAgain) {
  Begin();
  EXPECT_EQ(WindowsIn(Send(kThird, Registration(MakeHost("h1")))),
            (SentWindows{{kThird, std::nullopt}}));
  EXPECT_EQ(WindowsIn(Tick()), (SentWindows{{kFirst, std::nullopt}, {kThird, std::nullopt}}));
  CompareClock(kThird);
  EXPECT_EQ(WindowsIn(Tick()).size(), 2u);
}

TEST_F(CoordinatorWindowsTest, AnotherPolicyRemovesWindows) {
  Begin();
  EXPECT_EQ(WindowsIn(ApplyPolicy("  type: fair_flow\n")), kLifted);
}

TEST_F(CoordinatorWindowsTest, LastHostToCallDefinesTheBurst) {
  CompareClocks();
  ApplyWindows();
  // h0's ranks always call 100 ms before h1's.
  agent::v1::FromAgent early = ReportOf(kFirst, 10);
  agent::v1::Activity* activity = ReportIn(&early)->mutable_activity();
  activity->set_begin_ns(activity->begin_ns() - 100 * kNsPerMs);
  for (int i = 0; i < activity->span_ns_size(); ++i) {
    const uint64_t shift = 100 * kNsPerMs;
    activity->set_span_ns(i,
                          i % 2 == 0 ? activity->span_ns(i) + shift : activity->span_ns(i) - shift);
  }
  const SentWindows narrow = WindowsIn(Send(kFirst, early));
  ASSERT_EQ(narrow.size(), 2u);
  EXPECT_LT(narrow.at(kFirst)->open_ns, 50 * kNsPerMs);
  const SentWindows wide = WindowsIn(Send(kSecond, ReportOf(kSecond, 10)));
  ASSERT_EQ(wide.size(), 2u);
  EXPECT_GT(wide.at(kFirst)->open_ns, 130 * kNsPerMs);
  EXPECT_TRUE(WindowsIn(Send(kFirst, early)).empty()) << "it is not the one";
}

TEST_F(CoordinatorWindowsTest, IgnoresReportsOfOtherHosts) {
  CompareClocks();
  ApplyWindows();
  Send(kThird, Registration(MakeHost("h2")));
  CompareClock(kThird);
  EXPECT_TRUE(WindowsIn(Send(kThird, ReportOf(kThird, 10))).empty());
  EXPECT_EQ(WindowsIn(Send(kFirst, ReportOf(kFirst, 10))).size(), 2u);
}

TEST_F(CoordinatorWindowsTest, OnlyTheLeaderEndsTheReportsOfAFavouredJob) {
  Begin();
  Send(kThird, Registration(MakeHost("h2")));
  EXPECT_TRUE(WindowsIn(Send(kThird, Ending(kFavoured))).empty()) << "not a member";
  EXPECT_TRUE(WindowsIn(Send(kSecond, Ending(kFavoured))).empty()) << "a member";
  EXPECT_EQ(WindowsIn(Send(kFirst, Ending(kFavoured))).size(), 2u);
}

TEST_F(CoordinatorWindowsTest, IgnoresImpossibleTimes) {
  Begin();
  for (const int64_t begin : {INT64_MAX, INT64_MIN}) {
    agent::v1::FromAgent message = ReportOf(kFirst, 10);
    ReportIn(&message)->mutable_activity()->set_begin_ns(begin);
    EXPECT_TRUE(WindowsIn(Send(kFirst, message)).empty());
  }
  agent::v1::FromAgent message = ReportOf(kFirst, 10);
  ReportIn(&message)->mutable_activity()->set_span_ns(4, UINT64_MAX);
  EXPECT_TRUE(WindowsIn(Send(kFirst, message)).empty());
  message = ReportOf(kFirst, 10);
  ReportIn(&message)->set_measured_ns(INT64_MIN);
  EXPECT_TRUE(WindowsIn(Send(kFirst, message)).empty());
}

}  // namespace coordinator_windows_test
}  // namespace mccs
