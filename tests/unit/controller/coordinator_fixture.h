// A coordinator without its network, and messages of agents.
#ifndef MCCS_TESTS_UNIT_CONTROLLER_COORDINATOR_FIXTURE_H_
#define MCCS_TESTS_UNIT_CONTROLLER_COORDINATOR_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "controller/api/operator_view.h"
#include "controller/coordinator/coordinator.h"
#include "tests/unit/controller/agent_messages.h"
#include "tests/unit/controller/manual_clock.h"
#include "tests/unit/objects/documents.h"
#include "tests/unit/recording_log.h"

namespace mccs {

inline constexpr AgentKey kFirst{1}, kSecond{2}, kThird{3};

class CoordinatorTest : public testing::Test {
 protected:
  // Delivers `message` and returns the coordinator's answers.
  std::vector<Outgoing> Send(AgentKey agent, const agent::v1::FromAgent& message) {
    coordinator_.Handle(agent, message);
    return coordinator_.TakeOutbox();
  }
  void ExpectEnded(const std::vector<Outgoing>& out, AgentKey agent, const std::string& why) {
    ASSERT_EQ(out.size(), 1u);
    EXPECT_EQ(out[0].to, agent);
    EXPECT_FALSE(out[0].message.has_value());
    EXPECT_THAT(out[0].end.message(), testing::HasSubstr(why));
  }
  std::string StateOf(int host) {
    return ListHosts(coordinator_.state(), clock_.now).hosts(host).state();
  }
  absl::StatusOr<control::v1::CommunicatorDetail> Describe(const std::string& id) {
    return DescribeCommunicator(coordinator_.state(), id, clock_.now);
  }
  std::vector<Outgoing> Tick() {
    coordinator_.Tick();
    return coordinator_.TakeOutbox();
  }
  // All proposals during this time; both hosts send heartbeats.
  std::vector<Outgoing> TickFor(int64_t ns) {
    std::vector<Outgoing> proposals;
    for (const MonotonicNs end = clock_.now + ns; clock_.now < end;) {
      clock_.now = std::min(clock_.now + kNsPerSec, end);
      Send(kFirst, Beat());
      Send(kSecond, Beat());
      for (Outgoing& out : Tick()) {
        if (out.message && out.message->has_propose()) proposals.push_back(std::move(out));
      }
    }
    return proposals;
  }
  void RegisterPair() {
    Send(kFirst, Registration(MakeHost("h0")));
    Send(kSecond, Registration(MakeHost("h1")));
  }
  // h0 announces communicator 1 of h0 and h1. Returns the answer.
  std::vector<Outgoing> AnnouncePair() {
    RegisterPair();
    return Send(kFirst, Announcement(MakeAnnounce(1, {"h0", "h1"})));
  }
  // Communicator 1 runs on h0 and h1, in this order, with epoch 2.
  void StartCommunicator() { ApplyProposal(AnnouncePair()); }
  // The leader applies a proposal, and reports it. Returns the coordinator's messages.
  std::vector<Outgoing> ApplyProposal(const Outgoing& out) {
    const agent::v1::Propose& propose = out.message->propose();
    agent::v1::Announce announce = RecordOf(propose.comm_id()).announced;
    announce.set_running(true);
    *announce.mutable_strategy() = propose.strategy();
    announce.set_newest_epoch(propose.strategy().epoch());
    coordinator_.Handle(out.to, Announcement(announce));
    return Send(out.to, Reporting(propose.comm_id(), propose.strategy().epoch()));
  }
  // Likewise, if `out` is one proposal.
  void ApplyProposal(const std::vector<Outgoing>& out) {
    ASSERT_EQ(out.size(), 1u);
    ApplyProposal(out[0]);
  }
  // Replaces the operators' objects. Returns the coordinator's messages.
  std::vector<Outgoing> SetObjects(const std::string& text) {
    coordinator_.SetObjects(std::make_shared<ObjectSet>(After({}, text)));
    return coordinator_.TakeOutbox();
  }
  std::vector<Outgoing> SetPolicy(const std::string& order) {
    return SetObjects(Together(
        {TopologyDocument("t", "h[0-1]"),
         PolicyDocument("reverse",
                        "  type: locality_ring\n  parameters: {order: " + order + "}\n")}));
  }
  std::vector<Outgoing> Reverse() { return SetPolicy("[h1, h0]"); }
  static agent::v1::FromAgent Rejecting(uint64_t epoch) {
    agent::v1::FromAgent message = Reporting(1, 2);
    ReportIn(&message)->set_rejected_epoch(epoch);
    ReportIn(&message)->set_change_error("host h1: no such address");
    return message;
  }
  static std::vector<int> RingOf(const std::vector<Outgoing>& out) {
    const auto& ring = out[0].message->propose().strategy().channels(0).ring();
    return {ring.begin(), ring.end()};
  }
  const CommunicatorRecord& RecordOf(uint64_t id) {
    return coordinator_.registry().communicators().at(CommId(id));
  }
  size_t communicators() { return coordinator_.registry().communicators().size(); }

  ManualClock clock_;
  std::unique_ptr<RecordingLog> log_ = std::make_unique<RecordingLog>();
  ManualWallClock wall_clock_;
  Coordinator coordinator_{
      {.heartbeat_timeout_ns = 3 * kNsPerSec, .version = "test", .wall_clock = &wall_clock_},
      &clock_,
      log_.get()};
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_CONTROLLER_COORDINATOR_FIXTURE_H_
