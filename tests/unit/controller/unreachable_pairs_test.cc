// Pairs of hosts that do not reach each other: as daemons report them, and as operators and daemons
// see them.
#include "controller/state/unreachable_pairs.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/api/metrics.h"
#include "controller/api/operator_view.h"
#include "controller/policy/avoided_pairs.h"
#include "tests/unit/controller/coordinator_fixture.h"
#include "tests/unit/mentions.h"
#include "tools/mccsctl/render.h"

namespace mccs {
namespace unreachable_pairs_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Not;
using testing::SizeIs;

agent::v1::UnreachableHosts ReportOf(const std::vector<std::string>& peers, uint64_t revision = 1) {
  agent::v1::UnreachableHosts report;
  report.set_revision(revision);
  for (const std::string& peer : peers) {
    agent::v1::UnreachableHost* entry = report.add_unreachable();
    entry->set_host(peer);
    entry->set_cause("no answer");
  }
  return report;
}

class UnreachablePairsTest : public testing::Test {
 protected:
  explicit UnreachablePairsTest(int hosts = 4) {
    for (int h = 0; h < hosts; ++h) Add(h);
  }
  void Add(int h) {
    Add(absl::StrCat("h", h), absl::StrCat("10.0.0.", h, ":7400"), absl::StrCat("10.1.0.", h));
  }
  void Add(const std::string& name, const std::string& endpoint, const std::string& address) {
    agent::v1::Host host;
    host.set_name(name);
    host.set_peer_endpoint(endpoint);
    host.add_nics()->add_addresses(address);
    pairs_.AddHost(host);
  }
  std::vector<std::string> ListOf(const std::string& host) {
    std::vector<std::string> names;
    const agent::v1::PeerHosts list = pairs_.PeersOf(host, 100);
    for (const agent::v1::PeerHost& peer : list.hosts()) names.push_back(peer.host());
    return names;
  }

  UnreachablePairs pairs_;
};

TEST_F(UnreachablePairsTest, APairLastsWhileAHostReportsIt) {
  pairs_.Set("h1", ReportOf({"h2"}), 10);
  EXPECT_THAT(pairs_.pairs(), IsEmpty()) << "until the tick";
  EXPECT_THAT(pairs_.Update(20).appeared, ElementsAre(HostPair("h1", "h2")));
  pairs_.Set("h2", ReportOf({"h1"}), 30);
  EXPECT_THAT(pairs_.Update(40).appeared, IsEmpty());
  EXPECT_EQ(pairs_.pairs().at({"h1", "h2"}).since, 20);
  EXPECT_THAT(pairs_.pairs().at({"h1", "h2"}).seen_by, ElementsAre(Key("h1"), Key("h2")));
  const uint64_t revision = pairs_.revision();
  pairs_.Set("h1", ReportOf({}), 50);
  EXPECT_THAT(pairs_.Update(50).cleared, IsEmpty());
  EXPECT_EQ(pairs_.revision(), revision);
  pairs_.Set("h2", ReportOf({}), 60);
  EXPECT_THAT(pairs_.Update(60).cleared, ElementsAre(HostPair("h1", "h2")));
  EXPECT_THAT(pairs_.pairs(), IsEmpty());
  EXPECT_NE(pairs_.revision(), revision);
}

TEST_F(UnreachablePairsTest, BothHostsMustBeConnected) {
  pairs_.Set("h1", ReportOf({"h2", "h9"}), 10);
  pairs_.Update(10);
  EXPECT_THAT(pairs_.pairs(), ElementsAre(Key(HostPair("h1", "h2"))));
  pairs_.RemoveHost("h2");
  EXPECT_THAT(pairs_.Update(20).cleared, SizeIs(1));
  Add(2);
  EXPECT_THAT(pairs_.Update(30).appeared, SizeIs(1)) << "the report of h1 still has it";
  Add(1);  // Its new stream has not reported yet.
  EXPECT_THAT(pairs_.Update(40).cleared, SizeIs(1));
}

TEST_F(UnreachablePairsTest, ADaemonCanOnlyCutOffItself) {
  std::vector<std::string> everyone{"h0", "h1", "h2", "h3", "h1", std::string(5000, 'x')};
  for (int i = 0; i < 1000; ++i) everyone.push_back(absl::StrCat("other", i));
  agent::v1::UnreachableHosts report = ReportOf(everyone);
  for (agent::v1::UnreachableHost& peer : *report.mutable_unreachable())
    peer.set_cause(absl::StrCat("\x1b[2J\n", std::string(5000, 'c'), "\xff"));
  pairs_.Set("h0", report, 10);
  pairs_.Update(10);
  EXPECT_THAT(pairs_.pairs(), ElementsAre(Key(HostPair("h0", "h1")), Key(HostPair("h0", "h2")),
                                          Key(HostPair("h0", "h3"))));
  const std::string text = Describe({"h0", "h1"}, pairs_.pairs().at({"h0", "h1"}));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\n")));
  EXPECT_LT(text.size(), 2 * UnreachablePairs::kMaxCauseBytes);
}

// Otherwise a daemon with the endpoint of h2 that reports h0 makes h0 reject connections to h2.
TEST_F(UnreachablePairsTest, AnEndpointThatTwoHostsClaimIsInNoList) {
  pairs_.Set("h3", ReportOf({"h1"}), 5);
  pairs_.Update(5);
  for (const auto& [endpoint, address] :
       {std::pair("10.0.0.2:7400", "10.1.0.3"), std::pair("10.1.0.2:7400", "10.1.0.3")}) {
    SCOPED_TRACE(endpoint);
    Add("h3", endpoint, address);
    pairs_.Set("h3", ReportOf({"h0", "h1"}), 10);
    const UnreachablePairs::Changes changes = pairs_.Update(10);
    ASSERT_THAT(changes.contested, ElementsAre(Key(endpoint)));
    EXPECT_THAT(changes.contested.at(endpoint), ElementsAre("h2", "h3"));
    EXPECT_THAT(pairs_.pairs(), SizeIs(2)) << "it cuts off only itself";
    EXPECT_THAT(ListOf("h0"), IsEmpty());
    EXPECT_THAT(ListOf("h1"), IsEmpty());
    pairs_.Set("h3", ReportOf({"h0", "h1"}), 20);
    EXPECT_THAT(pairs_.Update(20).contested, IsEmpty()) << "reported once";
    Add(3);
    pairs_.Set("h3", ReportOf({"h0", "h1"}), 30);
    EXPECT_THAT(pairs_.Update(30).outdated, testing::IsSupersetOf({"h0", "h1"}));
    EXPECT_THAT(ListOf("h0"), ElementsAre("h3"));
  }
}

TEST_F(UnreachablePairsTest, AHostWhoseEndpointAnotherOneClaimsIsNotInLists) {
  pairs_.Set("h0", ReportOf({"h2"}), 10);
  pairs_.Update(10);
  EXPECT_THAT(ListOf("h0"), ElementsAre("h2"));
  Add("h3", "10.0.0.3:7400", "10.0.0.2");  // by an address of a NIC, at the same port
  EXPECT_THAT(pairs_.Update(20).outdated, ElementsAre("h0"));
  EXPECT_THAT(ListOf("h0"), IsEmpty());
  EXPECT_THAT(ListOf("h2"), ElementsAre("h0"));
  pairs_.RemoveHost("h3");
  EXPECT_THAT(pairs_.Update(30).outdated, ElementsAre("h0"));
  EXPECT_THAT(ListOf("h0"), ElementsAre("h2"));
}

// An address of a NIC that several hosts have, such as that of a bridge, hides none of them.
TEST_F(UnreachablePairsTest, AllHostsWithASuspectedAddressAreChecked) {
  Add("h2", "10.0.0.2:7400", "172.17.0.1");
  Add("h3", "10.0.0.3:7400", "172.17.0.1");
  agent::v1::UnreachableHosts report;
  report.add_suspected("172.17.0.1:7400");
  pairs_.Set("h0", report, 10);
  EXPECT_THAT(pairs_.Update(10).contested, IsEmpty());
  EXPECT_THAT(ListOf("h0"), ElementsAre("h2", "h3"));
  pairs_.RemoveHost("h2");
  pairs_.Set("h0", report, 20);
  pairs_.Update(20);
  EXPECT_THAT(ListOf("h0"), ElementsAre("h3"));
}

class ManyHostsTest : public UnreachablePairsTest {
 protected:
  ManyHostsTest() : UnreachablePairsTest(100) {}
};

TEST_F(ManyHostsTest, AReportIsBounded) {
  agent::v1::UnreachableHosts report;
  for (int h = 1; h < 100; ++h) {
    report.add_unreachable()->set_host(absl::StrCat("h", h));
    report.add_suspected(absl::StrCat("10.0.0.", h, ":7400"));
  }
  pairs_.Set("h0", report, 10);
  pairs_.Update(10);
  EXPECT_THAT(pairs_.pairs(), SizeIs(UnreachablePairs::kMaxPerHost));
  EXPECT_LE(pairs_.PeersOf("h0", 10).hosts_size(), 2 * 64);
}

TEST_F(UnreachablePairsTest, NamesSuspectedHostsByAnyOfTheirAddresses) {
  agent::v1::UnreachableHosts report;
  report.set_revision(5);
  for (const char* at : {"10.0.0.1:7400", "10.1.0.2:7400", "10.0.0.0:7400", "10.1.0.3:22", "x"})
    report.add_suspected(at);
  pairs_.Set("h0", report, 10);
  EXPECT_THAT(pairs_.Update(10).outdated, ElementsAre("h0"));
  const agent::v1::PeerHosts peers = pairs_.PeersOf("h0", 10);
  EXPECT_EQ(peers.revision(), 5u);
  ASSERT_EQ(peers.hosts_size(), 2);
  EXPECT_EQ(peers.hosts(0).host(), "h1");
  EXPECT_EQ(peers.hosts(1).peer_endpoint(), "10.0.0.2:7400") << "where its daemon listens";
  EXPECT_TRUE(peers.hosts(1).check());
  EXPECT_EQ(peers.hosts(1).unreachable(), "");
  EXPECT_THAT(pairs_.pairs(), IsEmpty());
}

TEST_F(UnreachablePairsTest, BothHostsGetThePair) {
  pairs_.Set("h1", ReportOf({"h2"}, 3), 10);
  EXPECT_THAT(pairs_.Update(10).outdated, ElementsAre("h1", "h2"));
  for (const auto& [host, peer] : {std::pair("h1", "h2"), std::pair("h2", "h1")}) {
    const agent::v1::PeerHosts peers = pairs_.PeersOf(host, 17);
    ASSERT_EQ(peers.hosts_size(), 1);
    EXPECT_EQ(peers.hosts(0).host(), peer);
    EXPECT_EQ(peers.hosts(0).check(), host == std::string("h1"));
    EXPECT_THAT(peers.hosts(0).unreachable(), Mentions("h1 cannot connect to h2", "no answer"));
    EXPECT_EQ(peers.hosts(0).unreachable_for_ns(), 7);
  }
  EXPECT_EQ(pairs_.PeersOf("h3", 17).hosts_size(), 0);
}

// ---- Rings ----

struct Cluster {
  explicit Cluster(int hosts) {
    for (int h = 0; h < hosts; ++h) {
      communicator.hosts.push_back(absl::StrCat("h", h));
      ring.push_back(HostIndex(h));
    }
  }
  void Cut(int a, int b) {
    view.unreachable.insert(UnreachablePairs::PairOf(absl::StrCat("h", a), absl::StrCat("h", b)));
  }
  bool IsCut(HostIndex a, HostIndex b) const {
    return view.unreachable.contains(
        UnreachablePairs::PairOf(absl::StrCat("h", a.value()), absl::StrCat("h", b.value())));
  }
  int Reached(HostIndex host) const {
    return static_cast<int>(std::ranges::count_if(
        ring, [&](HostIndex other) { return other != host && !IsCut(host, other); }));
  }
  ClusterView view;
  CommunicatorView communicator;
  std::vector<HostIndex> ring;
};

int PairsOn(const Cluster& cluster, const std::vector<HostIndex>& ring) {
  int pairs = 0;
  for (size_t i = 0; i < ring.size(); ++i)
    pairs += cluster.IsCut(ring[i], ring[(i + 1) % ring.size()]);
  return pairs;
}

TEST(AvoidedPairs, OnePairAmongFourHostsOrMoreIsAlwaysAvoided) {
  for (int n = 4; n <= 9; ++n) {
    for (int a = 0; a < n; ++a) {
      for (int b = a + 1; b < n; ++b) {
        Cluster cluster(n);
        cluster.Cut(a, b);
        const auto ring = AvoidUnreachablePairs(cluster.view, cluster.communicator, cluster.ring);
        EXPECT_TRUE(AvoidsUnreachablePair(cluster.view, cluster.communicator, ring));
        EXPECT_EQ(PairsOn(cluster, ring), 0) << n << " hosts, " << a << " and " << b;
        EXPECT_EQ(ring.front(), HostIndex(0));
        EXPECT_TRUE(std::ranges::is_permutation(ring, cluster.ring));
      }
    }
  }
}

TEST(AvoidedPairs, ManyPairsAreAvoidedIfEachHostReachesEnough) {
  int runs_with_enough = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    Cluster cluster(4 + static_cast<int>(random() % 12));
    const auto n = static_cast<int>(cluster.ring.size());
    std::ranges::shuffle(cluster.ring, random);
    for (int i = 0; i < n; ++i) {
      const int a = static_cast<int>(random() % static_cast<uint64_t>(n));
      const int b = static_cast<int>(random() % static_cast<uint64_t>(n));
      if (a != b) cluster.Cut(a, b);
    }
    bool enough = true;
    for (const HostIndex a : cluster.ring) {
      for (const HostIndex b : cluster.ring) {
        enough &= !cluster.IsCut(a, b) || cluster.Reached(a) + cluster.Reached(b) >= n;
      }
    }
    const auto ring = AvoidUnreachablePairs(cluster.view, cluster.communicator, cluster.ring);
    EXPECT_TRUE(std::ranges::is_permutation(ring, cluster.ring)) << "seed " << seed;
    EXPECT_TRUE(!enough || PairsOn(cluster, ring) == 0) << "seed " << seed;
    EXPECT_TRUE(PairsOn(cluster, ring) == 0 || ring == cluster.ring) << "seed " << seed;
    runs_with_enough += enough ? 1 : 0;
  }
  EXPECT_GT(runs_with_enough, 50);
}

// A running job keeps its strategy: another one would need the pair as well.
TEST(AvoidedPairs, WithoutAnotherRingNothingChanges) {
  for (const int n : {2, 3, 4}) {
    Cluster cluster(n);
    for (int h = 1; h < n; ++h) cluster.Cut(0, h);
    EXPECT_EQ(AvoidUnreachablePairs(cluster.view, cluster.communicator, cluster.ring),
              cluster.ring);
    EXPECT_FALSE(AvoidsUnreachablePair(cluster.view, cluster.communicator, cluster.ring));
  }
}

TEST(AvoidedPairs, ThePairsOfOthersChangeNothing) {
  Cluster cluster(4);
  cluster.Cut(1, 7);
  EXPECT_FALSE(AvoidsUnreachablePair(cluster.view, cluster.communicator, cluster.ring));
  EXPECT_EQ(AvoidUnreachablePairs(cluster.view, cluster.communicator, cluster.ring), cluster.ring);
}

TEST(AvoidedPairs, RingsReplaceOperatorsRulesAndKeepThoseOfDaemons) {
  strategy::Strategy strategy;
  const auto add = [&](OpKind kind, strategy::Algorithm algorithm) {
    strategy::AlgorithmRule* rule = strategy.mutable_algorithms()->add_rules();
    rule->set_kind(static_cast<uint32_t>(kind));
    rule->set_algorithm(algorithm);
  };
  add(OpKind::kAllReduce, strategy::TREE);
  add(OpKind::kAllToAll, strategy::GRID);
  strategy.mutable_algorithms()->set_operator_rules(2);
  add(OpKind::kAllGather, strategy::PAT);
  UseRingsOnly(&strategy);
  const strategy::Strategy once = strategy;
  UseRingsOnly(&strategy);
  EXPECT_EQ(strategy.SerializeAsString(), once.SerializeAsString());
  const auto& rules = strategy.algorithms().rules();
  ASSERT_EQ(rules.size(), static_cast<int>(strategy.algorithms().operator_rules()) + 1);
  EXPECT_EQ(rules[0].algorithm(), strategy::RING);
  EXPECT_EQ(rules[rules.size() - 2].algorithm(), strategy::GRID);
  EXPECT_EQ(rules[rules.size() - 1].algorithm(), strategy::PAT);
  EXPECT_TRUE(std::ranges::none_of(rules, [](const strategy::AlgorithmRule& rule) {
    return rule.algorithm() == strategy::TREE;
  }));
}

// ---- What operators see ----

class ShownPairsTest : public CoordinatorTest {
 protected:
  ShownPairsTest() { RegisterPair(); }
  std::vector<Outgoing> Report(AgentKey agent, const std::vector<std::string>& peers) {
    agent::v1::FromAgent message;
    *message.mutable_unreachable_hosts() = ReportOf(peers, ++revision_);
    return Send(agent, message);
  }
  uint64_t revision_ = 0;
};

TEST_F(ShownPairsTest, OperatorsSeeThePairUntilItIsReachable) {
  coordinator_.TakeEvents();
  Report(kFirst, {"h1"});
  Tick();
  clock_.now += kNsPerSec;
  const std::string table = RenderHosts(ListHosts(coordinator_.state(), clock_.now));
  EXPECT_THAT(table, Mentions("ready, unreachable: h1", "ready, unreachable: h0",
                              "hosts h0 and h1, for 1 s: h0 cannot connect to h1: no answer"));
  std::vector<ControllerEvent> events = coordinator_.TakeEvents();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].action, "quarantine-pair");
  EXPECT_EQ(events[0].objects, "hosts h0, h1");
  Report(kFirst, {});
  Tick();
  EXPECT_THAT(RenderHosts(ListHosts(coordinator_.state(), clock_.now)),
              Not(HasSubstr("unreachable")));
  events = coordinator_.TakeEvents();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].action, "release-pair");
}

TEST_F(ShownPairsTest, AnEndpointOfSeveralHostsIsInTheAuditLogOnce) {
  coordinator_.TakeEvents();
  Send(kThird, Registration(MakeHost("h2", "", EndpointOf("h1"))));
  Tick();
  const std::vector<ControllerEvent> events = coordinator_.TakeEvents();
  const auto ignored = std::ranges::find(events, "ignore-endpoint", &ControllerEvent::action);
  ASSERT_NE(ignored, events.end());
  EXPECT_EQ(ignored->objects, "hosts h1, h2");
  EXPECT_THAT(ignored->outcome, Mentions("h1, h2", EndpointOf("h1"), "advertise"));
  Report(kThird, {"h0"});
  Tick();
  EXPECT_EQ(
      std::ranges::count(coordinator_.TakeEvents(), "ignore-endpoint", &ControllerEvent::action),
      0);
}

TEST_F(ShownPairsTest, ReportsWithoutEndCauseNoMoreMessagesThanTicks) {
  const auto lists = [](const std::vector<Outgoing>& sent) {
    return std::ranges::count_if(sent, [](const Outgoing& out) {
      return out.message.has_value() && out.message->has_peer_hosts();
    });
  };
  Tick();
  int64_t at_once = 0;
  for (int i = 0; i < 1001; ++i) at_once += lists(Report(kFirst, {i % 2 == 0 ? "h1" : "h0"}));
  EXPECT_EQ(at_once, 0);
  EXPECT_EQ(lists(Tick()), 2);
  EXPECT_EQ(lists(Tick()), 0);
}

}  // namespace unreachable_pairs_test
}  // namespace mccs
