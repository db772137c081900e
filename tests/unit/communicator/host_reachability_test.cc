// Checks of hosts over the sockets of this machine, with a clock that the test sets.
#include "service/communicator/links/host_reachability.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/reactor.h"
#include "service/transport/socket_network.h"
#include "tests/sim/sim_network.h"
#include "tests/unit/mentions.h"
#include "tests/unit/recording_log.h"

namespace mccs {
namespace host_reachability_test {

class RecordingController final : public ControllerLink {
 public:
  bool is_connected = true;
  int reports = 0;
  agent::v1::UnreachableHosts report;
  std::deque<PeerHosts> lists;

  bool connected() const override { return is_connected; }
  void Announce(const agent::v1::Announce&) override {}
  std::optional<Proposal> TakeProposal() override { return std::nullopt; }
  std::optional<RateUpdate> TakeRateUpdate() override { return std::nullopt; }
  void SetUnreachableHosts(const agent::v1::UnreachableHosts& all) override {
    ++reports;
    report = all;
  }
  std::optional<PeerHosts> TakePeerHosts() override {
    if (lists.empty()) return std::nullopt;
    PeerHosts list = std::move(lists.front());
    lists.pop_front();
    return list;
  }
  void Report(const agent::v1::Report&) override {}
  void Ended(CommId, const std::string&) override {}
};

class HostReachabilityTest : public testing::Test {
 protected:
  HostReachabilityTest() {
    // A port that is free, and refuses connections.
    at_ = (*network_.Listen({.host = "127.0.0.1", .port = 0}))->local();
  }
  void Advance(int64_t ns) { clock_.Set(clock_.Now() + ns); }
  bool RunUntil(const std::function<bool()>& done) {
    for (int i = 0; i < 200; ++i) {
      network_.Poll();
      reachability_.Poll();
      if (done()) return true;
      reactor_->Wait(10 * kNsPerMs);
    }
    return false;
  }
  void Answer(const std::string& unreachable = "", bool check = true) {
    controller_.lists.push_back({.revision = controller_.report.revision(),
                                 .hosts = {{.host = "h1",
                                            .at = at_,
                                            .check = check,
                                            .unreachable = unreachable,
                                            .unreachable_for_ns = 7 * kNsPerSec}}});
  }
  bool Reports(int hosts) {
    return RunUntil([&] { return controller_.report.unreachable_size() == hosts; });
  }
  void FindUnreachable() {
    reachability_.Suspect(at_);
    ASSERT_TRUE(RunUntil([&] { return controller_.report.suspected_size() == 1; }));
    Answer();
    Advance(kNsPerSec);
    ASSERT_TRUE(Reports(1));
  }

  SimClock clock_;
  RecordingLog log_;
  RecordingController controller_;
  std::unique_ptr<Reactor> reactor_ = *Reactor::Create();
  SocketNetwork network_{*reactor_};
  Endpoint at_;
  HostReachability reachability_{
      {.network = &network_, .clock = &clock_, .log = &log_, .controller = &controller_}};
};

TEST_F(HostReachabilityTest, ReportsAHostUntilItAcceptsAConnection) {
  FindUnreachable();
  EXPECT_EQ(controller_.report.unreachable(0).host(), "h1");
  EXPECT_THAT(controller_.report.unreachable(0).cause(),
              Mentions(ToString(at_), "Connection refused"));
  EXPECT_EQ(controller_.report.suspected_size(), 0);
  EXPECT_THAT(std::string(reachability_.Check(at_).message()),
              Mentions("h1", "Connection refused", "unreachable for"));
  const auto listener = network_.Listen(at_);
  ASSERT_TRUE(listener.ok());
  Advance(HostReachability::kCheckEveryNs);
  ASSERT_TRUE(Reports(0));
  EXPECT_TRUE(reachability_.Check(at_).ok());
  EXPECT_FALSE(reachability_.any());
}

TEST_F(HostReachabilityTest, ALackOfOwnDescriptorsSaysNothingAboutTheHost) {
  reachability_.Suspect(at_);
  ASSERT_TRUE(RunUntil([&] { return controller_.report.suspected_size() == 1; }));
  Answer();
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = usual.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  for (int i = 0; i < 10; ++i) {
    Advance(kNsPerSec);
    reachability_.Poll();
    EXPECT_TRUE(reachability_.Check(at_).ok()) << reachability_.Check(at_);
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
  EXPECT_EQ(controller_.report.unreachable_size(), 0);
  Advance(HostReachability::kCheckEveryNs);
  EXPECT_TRUE(Reports(1)) << "the check goes on";
}

TEST_F(HostReachabilityTest, ASuspectedHostThatAnswersIsNotReported) {
  const auto listener = network_.Listen(at_);
  ASSERT_TRUE(listener.ok());
  reachability_.Suspect(at_);
  ASSERT_TRUE(RunUntil([&] { return controller_.reports == 1; }));
  EXPECT_TRUE(reachability_.Check(at_).ok());
  Answer();
  ASSERT_TRUE(RunUntil([&] { return reachability_.any(); }));
  EXPECT_TRUE(reachability_.Check(at_).ok());
  ASSERT_TRUE(RunUntil([&] { return !reachability_.any(); }));
  EXPECT_EQ(controller_.report.unreachable_size(), 0);
}

TEST_F(HostReachabilityTest, SuspicionsAreBoundedAndReportedAtAnInterval) {
  for (int i = 0; i < 1000; ++i) {
    reachability_.Suspect({.host = absl::StrCat("10.0.0.", i % 250), .port = 7400});
    reachability_.Poll();
  }
  EXPECT_EQ(controller_.reports, 1);
  EXPECT_LE(reachability_.NextDeadline(), clock_.Now() + HostReachability::kMinReportIntervalNs);
  Advance(HostReachability::kMinReportIntervalNs);
  reachability_.Poll();
  EXPECT_EQ(controller_.reports, 2);
  EXPECT_EQ(controller_.report.suspected_size(), static_cast<int>(HostReachability::kMaxSuspected));
  EXPECT_EQ(reachability_.NextDeadline(), kNever);
}

TEST_F(HostReachabilityTest, ThePairsOfOtherReportsHoldWhileTheControllerIsConnected) {
  Answer("hosts h0 and h1: h1 cannot connect to h0: no answer", /*check=*/false);
  reachability_.Poll();
  EXPECT_THAT(std::string(reachability_.Check(at_).message()),
              Mentions("hosts h0 and h1", "no answer", "unreachable for 7 s"));
  EXPECT_TRUE(reachability_.Check({.host = at_.host, .port = 1}).ok());
  EXPECT_EQ(reachability_.NextDeadline(), kNever) << "this daemon checks nothing";
  controller_.is_connected = false;
  EXPECT_TRUE(reachability_.Check(at_).ok());
  controller_.is_connected = true;
  controller_.lists.emplace_back();
  reachability_.Poll();
  EXPECT_FALSE(reachability_.any());
}

TEST_F(HostReachabilityTest, AHostWithTheEndpointOfAnotherCutsOffOnlyItself) {
  Answer("hosts h0 and h1: h1 cannot connect to h0: no answer", /*check=*/false);
  reachability_.Poll();
  EXPECT_TRUE(reachability_.Check(at_, "h2").ok()) << reachability_.Check(at_, "h2");
  EXPECT_FALSE(reachability_.Check(at_, "h1").ok());
}

TEST_F(HostReachabilityTest, AHostThatIsNotConnectedIsForgottenLater) {
  FindUnreachable();
  controller_.lists.push_back({.revision = controller_.report.revision(), .hosts = {}});
  reachability_.Poll();
  EXPECT_TRUE(reachability_.Check(at_).ok()) << "the controller reports it as lost";
  EXPECT_EQ(controller_.report.unreachable_size(), 1) << "it may return";
  Advance(HostReachability::kForgetAfterNs);
  ASSERT_TRUE(RunUntil([&] { return !reachability_.any(); }));
  Advance(HostReachability::kReportEveryNs);
  EXPECT_TRUE(Reports(0));
}

}  // namespace host_reachability_test
}  // namespace mccs
