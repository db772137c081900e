#include "controller/policy/rings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "controller/view/flow.h"

namespace mccs {
namespace rings_test {

using testing::ElementsAre;

constexpr CommId kId{42};

CommunicatorView Communicator(CommId id, std::vector<std::string> hosts, int channels) {
  CommunicatorView view{.id = id, .tenant = "t", .hosts = std::move(hosts), .strategy = {}};
  view.strategy.set_epoch(1);
  view.strategy.mutable_lanes()->set_slots(4);
  view.strategy.mutable_lanes()->set_slot_bytes(4096);
  view.strategy.set_skew(3);
  for (int c = 0; c < channels; ++c) {
    auto* channel = view.strategy.add_channels();
    for (size_t i = 0; i < view.hosts.size(); ++i) channel->add_ring(static_cast<int>(i));
  }
  return view;
}

HostView Host(const std::string& rack, const std::string& name) {
  return {.position = {"p", rack, name}, .gpus = 8, .ready = true};
}

struct RingOptions {
  RingPortOptions ports = {};
  std::vector<std::string> order = {};
};

// In locality order, for a communicator that was added last.
absl::StatusOr<strategy::Strategy> RingFor(const ClusterView& view, CommId id,
                                           const RingOptions& options = {}) {
  SourcePorts taken;
  const CommunicatorView* subject = nullptr;
  for (const CommunicatorView& communicator : view.communicators) {
    if (communicator.id == id) {
      subject = &communicator;
    } else {
      taken.TakeAll(communicator);
    }
  }
  const Fabrics fabrics(view);
  strategy::Strategy frame = MakeFrame(*subject, LocalityRingOrder(view, *subject, options.order),
                                       HostsOf(fabrics, *subject), "locality_ring");
  MCCS_ASSIGN_OR_RETURN(const auto ports, ChooseRingPorts(*subject, frame, options.ports, &taken));
  return WithRingPorts(std::move(frame), ports);
}

TEST(Rings, TakesTheHostsRackByRack) {
  const ClusterView view{
      .hosts = {Host("r1", "h0"), Host("r1", "h2"), Host("r2", "h1"), Host("r2", "h10")},
      .communicators = {Communicator(kId, {"h0", "h1", "h2", "h10"}, 2)}};
  const auto strategy = RingFor(view, kId);
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  ASSERT_EQ(strategy->channels_size(), 2);
  for (const auto& channel : strategy->channels())
    EXPECT_THAT(channel.ring(), ElementsAre(0, 2, 1, 3));
}

TEST(Rings, KeepsOtherSettingsAndIncrementsTheEpoch) {
  const ClusterView view{.hosts = {}, .communicators = {Communicator(kId, {"a", "b"}, 3)}};
  const auto strategy = RingFor(view, kId);
  ASSERT_TRUE(strategy.ok());
  EXPECT_EQ(strategy->epoch(), 2u);
  EXPECT_EQ(strategy->channels_size(), 3);
  EXPECT_EQ(strategy->lanes().slots(), 4u);
  EXPECT_EQ(strategy->skew(), 3u);
  EXPECT_EQ(strategy->origin(), "locality_ring");
}

TEST(Rings, OneHostHasNoLanesAndNoPorts) {
  const ClusterView view{.hosts = {}, .communicators = {Communicator(kId, {"a"}, 1)}};
  const auto strategy = RingFor(view, kId);
  ASSERT_TRUE(strategy.ok());
  EXPECT_THAT(strategy->channels(0).ring(), ElementsAre(0));
  EXPECT_EQ(strategy->channels(0).source_ports_size(), 0);
}

TEST(Rings, TheSameViewGivesTheSameStrategy) {
  const ClusterView view{.hosts = {},
                         .communicators = {Communicator(kId, {"a", "b", "c"}, 4),
                                           Communicator(CommId(7), {"c", "b"}, 2)}};
  EXPECT_EQ(RingFor(view, kId)->SerializeAsString(), RingFor(view, kId)->SerializeAsString());
}

// Adds communicators one by one and checks every flow of the cluster.
TEST(Rings, AllLanesHaveDistinctPortsInTheRange) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    ClusterView view;
    std::vector<std::string> names;
    for (int i = 0; i < 12; ++i) {
      names.push_back(absl::StrCat("h", i));
      view.hosts.push_back(Host(absl::StrCat("r", random() % 4), names.back()));
    }
    std::set<uint32_t> ports;
    size_t lanes = 0;
    for (uint64_t id = 1; id <= 30; ++id) {
      std::shuffle(names.begin(), names.end(), random);
      const int hosts = 2 + random() % 6;
      view.communicators.push_back(
          Communicator(CommId(id), {names.begin(), names.begin() + hosts}, 1 + random() % 4));
      const auto strategy = RingFor(view, CommId(id));
      ASSERT_TRUE(strategy.ok()) << strategy.status();
      view.communicators.back().strategy = *strategy;
      for (const auto& channel : strategy->channels()) {
        ASSERT_EQ(channel.source_ports_size(), hosts);
        std::set<int> ring(channel.ring().begin(), channel.ring().end());
        ASSERT_EQ(ring.size(), static_cast<size_t>(hosts));
        EXPECT_EQ(*ring.begin(), 0);
        EXPECT_EQ(*ring.rbegin(), hosts - 1);
        for (uint32_t port : channel.source_ports()) {
          EXPECT_GE(port, 61000u);
          EXPECT_LE(port, 65535u);
          ports.insert(port);
          ++lanes;
        }
      }
    }
    EXPECT_EQ(ports.size(), lanes);
  }
}

TEST(Rings, NamedHostsComeBeforeLocalityOrder) {
  const ClusterView view{.hosts = {},
                         .communicators = {Communicator(kId, {"a", "b", "c", "d"}, 1)}};
  RingOptions options;
  options.order = {"elsewhere", "d", "b"};
  const auto strategy = RingFor(view, kId, options);
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  EXPECT_THAT(strategy->channels(0).ring(), testing::ElementsAre(3, 1, 0, 2));
}

TEST(Rings, WithFewPortsFlowsBetweenTwoHostsStayDistinct) {
  ClusterView view;
  RingOptions two;
  two.ports.ports = {.first = 61000, .last = 61001};
  // Four lanes, two ports: one port serves two lanes, but never two from the same host.
  view.communicators.push_back(Communicator(CommId(1), {"a", "b"}, 2));
  const auto strategy = RingFor(view, CommId(1), two);
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  EXPECT_NE(strategy->channels(0).source_ports(0), strategy->channels(1).source_ports(0));
  EXPECT_NE(strategy->channels(0).source_ports(1), strategy->channels(1).source_ports(1));
  view.communicators.back().strategy = *strategy;

  // From a to c is another pair of hosts: both ports serve once more.
  view.communicators.push_back(Communicator(CommId(2), {"a", "c"}, 2));
  const auto other = RingFor(view, CommId(2), two);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_NE(other->channels(0).source_ports(0), other->channels(1).source_ports(0));
}

TEST(Rings, ChoosesTheSamePortsForARunningCommunicator) {
  for (const uint16_t last : {61001, 61003, 65535}) {
    ClusterView view;
    RingOptions options;
    options.ports.ports = {.first = 61000, .last = last};
    for (uint64_t id = 1; id <= 4; ++id) {
      const std::vector<std::string> hosts = {absl::StrCat("a", id % 2), absl::StrCat("b", id % 2),
                                              absl::StrCat("c", id % 2)};
      view.communicators.push_back(Communicator(CommId(id), hosts, 1));
      view.communicators.back().strategy = *RingFor(view, CommId(id), options);
    }
    for (const CommunicatorView& runs : view.communicators) {
      const auto again = RingFor(view, runs.id, options);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_THAT(again->channels(0).source_ports(),
                  testing::ElementsAreArray(runs.strategy.channels(0).source_ports()))
          << "ports up to " << last;
    }
  }
}

TEST(Rings, ReportsTheHostsIfPortsRunOut) {
  const ClusterView view{.hosts = {}, .communicators = {Communicator(kId, {"a", "b"}, 3)}};
  RingOptions two;
  two.ports.ports = {.first = 61000, .last = 61001};
  const absl::Status status = RingFor(view, kId, two).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), testing::HasSubstr("between a and b"));
}

}  // namespace rings_test
}  // namespace mccs
