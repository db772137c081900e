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
  void AddInboxes(int communicators) {
    for (int c = 0; c < communicators; ++c)
      inboxes_.emplace_back(there_, SubjectOf(c), kMaxPeerMessageBytes, nullptr);
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
  std::unique_ptr<Log> log_ = MakeNullLog();
  const PeerAccess access_{&network_.HostNetwork(kHere), &random_, &clock_};
  const PeerAccess access_there_{&network_.HostNetwork(kThere), &random_, &clock_};
  TreeRelay here_{access_};
  TreeRelay there_{access_there_};
  std::list<TreeRelay::Inbox> inboxes_;
  PeerListener door_{std::move(*network_.HostNetwork(kThere).Listen({kThere, kPort})),
                     [this](const Preamble& preamble) { return there_.SecretOf(preamble.comm_id); },
                     random_, *log_};
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

}  // namespace tree_relay_test
}  // namespace mccs
