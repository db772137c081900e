// The tree that spreads rosters and strategies: its shape, and the limits of a tenant that forwards
// much. joining_test.cc and strategy_spread_test.cc have the receivers.
#include "service/communicator/membership/tree_relay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "service/transport/peer_listener.h"
#include "tests/sim/sim_network.h"
#include "tests/unit/communicator/fake_connection.h"
#include "tests/unit/recording_log.h"

namespace mccs {
namespace tree_relay_test {

TEST(TreeChildren, ReachAllReceiversOnce) {
  for (const int receivers : {0, 1, kDirectReceivers, kDirectReceivers + 1, 1024, 8192}) {
    std::vector<int> parents(static_cast<size_t>(receivers));
    for (int r = 0; r < receivers; ++r) {
      for (const int child : TreeChildren(r, receivers)) {
        EXPECT_GT(child, r);
        ++parents[static_cast<size_t>(child)];
      }
    }
    for (int r = 0; r < receivers; ++r)
      EXPECT_EQ(parents[static_cast<size_t>(r)], r < kDirectReceivers ? 0 : 1) << r;
  }
}

// Padding of any kind would be stored and forwarded.
TEST(ParseRelayed, RejectsMoreBytesThanTheContentNeeds) {
  peer::Roster roster;
  roster.set_tenant("red");
  const std::string plain = roster.SerializeAsString();
  peer::Roster parsed;
  EXPECT_TRUE(ParseRelayed(plain, &parsed).ok());
  EXPECT_EQ(parsed.tenant(), "red");
  EXPECT_TRUE(absl::IsDataLoss(ParseRelayed(plain + plain, &parsed))) << "a field twice";
  roster.GetReflection()->MutableUnknownFields(&roster)->AddLengthDelimited(1000, "xyz");
  EXPECT_TRUE(absl::IsDataLoss(ParseRelayed(roster.SerializeAsString(), &parsed)));
  EXPECT_TRUE(absl::IsDataLoss(ParseRelayed("garbage", &parsed)));
}

// A relay that forwards, and the relay of another host, with an inbox for each of several
// communicators.
class TreeRelayTest : public testing::Test {
 protected:
  static constexpr char kHere[] = "10.0.0.1";
  static constexpr char kThere[] = "10.0.0.2";
  static constexpr uint16_t kPort = 7000;

  static TreeRelay::Subject SubjectOf(int communicator) {
    const Secret secret{static_cast<uint8_t>(communicator), 1};
    const CommId id(static_cast<uint64_t>(communicator) + 1);
    return {.kind = Relayed::kStrategy,
            .relay_id = RelayIdOf(Relayed::kStrategy, id, secret),
            .secret = secret};
  }
  void AddInboxes(int communicators, const std::string& tenant = "red") {
    for (int c = 0; c < communicators; ++c) AddInbox(static_cast<int>(inboxes_.size()), tenant);
  }
  void AddInbox(int communicator, const std::string& tenant) {
    inboxes_.emplace_back(there_, SubjectOf(communicator), tenant, kMaxPeerMessageBytes, nullptr);
  }
  // A forwarder of the communicator has sent `bytes` and more, as far as `bytes_arrived` of them.
  void Arrive(int communicator, const std::string& bytes, size_t bytes_arrived = SIZE_MAX) {
    peer::Message message;
    message.mutable_open()->set_strategy(bytes);
    auto wire = wires_.emplace_back(std::make_shared<FakeWire>());
    wire->Deliver(message);
    wire->to_read.resize(std::min(bytes_arrived, wire->to_read.size()));
    const TreeRelay::Subject subject = SubjectOf(communicator);
    there_.Accept(subject.relay_id, subject.secret, std::make_unique<FakeConnection>(wire));
  }
  size_t Unread() const {
    size_t bytes = 0;
    for (const auto& wire : wires_) bytes += wire->to_read.size();
    return bytes;
  }
  // Runs for a time. Returns the highest number of open streams.
  size_t RunFor(int64_t ns) {
    size_t most_open = 0;
    for (const MonotonicNs end = clock_.Now() + ns; clock_.Now() < end;) {
      for (Peer& peer : door_.Poll(clock_.Now()))
        there_.Accept(peer.preamble.comm_id, peer.secret, std::move(peer.connection));
      while (there_.Poll() | here_.Poll()) {
      }
      most_open = std::max(most_open, network_.open_streams());
      const MonotonicNs next =
          std::min({end, network_.NextEventTime().value_or(end), here_.NextDeadline()});
      network_.AdvanceTo(std::max(next, clock_.Now() + 1));
    }
    return most_open;
  }
  size_t Arrived() {
    size_t arrived = 0;
    for (TreeRelay::Inbox& inbox : inboxes_) arrived += inbox.Take() == "bytes" ? 1 : 0;
    return arrived;
  }

  SimClock clock_;
  SimNetwork network_{clock_, 1};
  SeededRandom random_{1};
  RecordingLog log_;
  DaemonCounters counters_;
  std::vector<std::shared_ptr<FakeWire>> wires_;
  const PeerAccess access_{&network_.HostNetwork(kHere), &random_, &clock_};
  const PeerAccess access_there_{&network_.HostNetwork(kThere), &random_, &clock_};
  TreeRelay here_{access_, log_, &counters_};
  TreeRelay there_{access_there_, log_, &counters_};
  std::list<TreeRelay::Inbox> inboxes_;
  PeerListener door_{std::move(*network_.HostNetwork(kThere).Listen({kThere, kPort})),
                     [this](const Preamble& preamble) { return there_.SecretOf(preamble.comm_id); },
                     random_, log_};
};

// Regression: the forwards beyond the limit were dropped, so that a job that splits into many
// communicators waited for the timeout.
TEST_F(TreeRelayTest, ForwardsForManyCommunicatorsAFewAtATime) {
  constexpr int kMany = 3 * TreeRelay::kMaxOpenForwards;
  AddInboxes(kMany);
  for (int c = 0; c < kMany; ++c) here_.Forward("red", SubjectOf(c), "bytes", {{kThere, kPort}});
  EXPECT_LE(RunFor(100 * kNsPerMs), static_cast<size_t>(TreeRelay::kMaxOpenForwards));
  EXPECT_EQ(Arrived(), static_cast<size_t>(kMany));
  EXPECT_EQ(here_.NextDeadline(), kNever) << "nothing is left";
}

TEST_F(TreeRelayTest, TenantThatForwardsTooMuchDelaysNoOther) {
  AddInboxes(1);
  for (int c = 0; c < 2 * TreeRelay::kMaxForwards; ++c)
    here_.Forward("red", SubjectOf(c), "bytes", {{"10.9.9.9", kPort}});  // It does not answer.
  here_.Forward("blue", SubjectOf(0), "bytes", {{kThere, kPort}});
  RunFor(10 * kNsPerMs);
  EXPECT_EQ(Arrived(), 1u);
}

// A forward that a limit drops costs its receivers two seconds.
TEST_F(TreeRelayTest, LogsAndCountsForwardsThatATenantHasTooManyOf) {
  constexpr size_t kMost = TreeRelay::kMaxOpenForwards + TreeRelay::kMaxForwards;
  for (size_t c = 0; c < kMost; ++c)
    here_.Forward("red", SubjectOf(0), "bytes", {{"10.9.9.9", kPort}});
  EXPECT_EQ(counters_.relay_dropped.value(), 0u);
  here_.Forward("red", SubjectOf(0), "bytes", {{"10.9.9.9", kPort}, {"10.9.9.8", kPort}});
  EXPECT_EQ(counters_.relay_dropped.value(), 2u);
  EXPECT_TRUE(log_.Contains("tenant red: a strategy for 2 hosts was not relayed"));
}

TEST_F(TreeRelayTest, LimitsTheBytesThatATenantForwards) {
  const std::string longest(kMaxPeerMessageBytes - 100, 'x');
  constexpr int kMany = 2 * RelayMemory::kMaxBytes / kMaxPeerMessageBytes;
  for (int c = 0; c < kMany; ++c)
    here_.Forward("red", SubjectOf(c), longest, {{"10.9.9.9", kPort}, {"10.9.9.8", kPort}});
  EXPECT_LE(here_.HeldBytes("red"), RelayMemory::kMaxBytes);
  EXPECT_EQ(counters_.relay_dropped.value(), 2u * kMany / 2) << "half of them";
  EXPECT_TRUE(log_.Contains("tenant red: a strategy for 2 hosts was not relayed"));
  RunFor(kForwardTimeoutNs);
  RunFor(kNsPerMs);
  EXPECT_EQ(here_.HeldBytes("red"), 0u) << "none is forwarded any more";
}

TEST_F(TreeRelayTest, DoesNotConnectForForwardsThatHaveExpired) {
  constexpr int kWaiting = 8;
  AddInboxes(1);
  for (int c = 0; c < TreeRelay::kMaxOpenForwards; ++c)
    here_.Forward("red", SubjectOf(0), "bytes", {{"10.9.9.9", kPort}});
  for (int c = 0; c < kWaiting; ++c) here_.Forward("red", SubjectOf(0), "bytes", {{kThere, kPort}});
  network_.AdvanceTo(clock_.Now() + kForwardTimeoutNs);
  EXPECT_EQ(RunFor(kNsPerMs), 0u) << "open streams";
  EXPECT_EQ(Arrived(), 0u);
  EXPECT_EQ(counters_.relay_dropped.value(), static_cast<uint64_t>(kWaiting));
  EXPECT_EQ(here_.NextDeadline(), kNever) << "nothing is left";
}

// ---- Turns --------------------------------------------------------------------------------------

// A program may act as all other hosts of many communicators, and send all at once.
TEST_F(TreeRelayTest, ATurnReadsALimitedNumberOfBytesFromAFewForwarders) {
  constexpr int kMany = 64;
  AddInboxes(kMany);
  for (int c = 0; c < kMany; ++c) Arrive(c, std::string(512 << 10, 'x'));
  for (int turn = 0; turn < 10'000 && Unread() > 0; ++turn) {
    std::vector<size_t> before;
    for (const auto& wire : wires_) before.push_back(wire->to_read.size());
    const size_t unread = Unread();
    EXPECT_TRUE(there_.Poll()) << "a turn that leaves work must be followed by another one";
    EXPECT_LE(unread - Unread(), TreeRelay::kTurnBytes + kPeerBytesPerCall) << "turn " << turn;
    int served = 0;
    for (size_t w = 0; w < wires_.size(); ++w) served += wires_[w]->to_read.size() < before[w];
    EXPECT_LE(served, TreeRelay::kLinksPerTurn) << "turn " << turn;
  }
  EXPECT_EQ(Unread(), 0u);
  size_t arrived = 0;
  for (TreeRelay::Inbox& inbox : inboxes_) arrived += inbox.Take().has_value();
  EXPECT_EQ(arrived, static_cast<size_t>(kMany));
}

TEST_F(TreeRelayTest, ATurnOpensAFewForwards) {
  for (int c = 0; c < TreeRelay::kMaxOpenForwards; ++c)
    here_.Forward("red", SubjectOf(c), "bytes", {{kThere, kPort}});
  network_.AdvanceTo(clock_.Now() + kNsPerMs);
  EXPECT_EQ(network_.open_streams(), 0u) << "the caller's turn opens none";
  EXPECT_TRUE(here_.Poll());
  network_.AdvanceTo(clock_.Now() + kNsPerMs);
  EXPECT_GT(network_.open_streams(), 0u);
  EXPECT_LE(network_.open_streams(), static_cast<size_t>(TreeRelay::kLinksPerTurn));
}

TEST_F(TreeRelayTest, TenantThatIsSentMuchDelaysNoOther) {
  constexpr int kMany = 64;
  AddInboxes(kMany, "red");
  for (int c = 0; c < kMany; ++c) Arrive(c, std::string(512 << 10, 'x'));
  AddInboxes(1, "blue");
  Arrive(kMany, "bytes");
  there_.Poll();
  EXPECT_EQ(inboxes_.back().Take(), "bytes") << "it has a share of each turn";
}

TEST_F(TreeRelayTest, LimitsTheBytesThatATenantIsSent) {
  constexpr size_t kBytes = 4 << 20;
  constexpr int kMany = 2 * RelayMemory::kMaxBytes / kBytes;
  AddInboxes(kMany);
  for (int c = 0; c < kMany; ++c)
    Arrive(c, std::string(kBytes, 'x'), c % 2 == 0 ? SIZE_MAX : kBytes / 2);
  while (there_.Poll()) {
    EXPECT_LE(there_.HeldBytes("red"), RelayMemory::kMaxBytes);
  }
  EXPECT_GT(there_.HeldBytes("red"), RelayMemory::kMaxBytes / 2);
  EXPECT_GT(counters_.relay_dropped.value(), 0u);
  EXPECT_TRUE(log_.Contains("tenant red: a strategy for 1 host was not relayed"));
  for (TreeRelay::Inbox& inbox : inboxes_) inbox.Take();
  RunFor(kForwardTimeoutNs);
  RunFor(kNsPerMs);
  EXPECT_EQ(there_.HeldBytes("red"), 0u);
}

}  // namespace tree_relay_test
}  // namespace mccs
