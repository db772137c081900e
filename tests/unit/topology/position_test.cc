#include "topology/position.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace position_test {

TEST(NaturalOrder, NumbersCompareAsNumbers) {
  EXPECT_TRUE(CompareNatural("h2", "h10") < 0);
  EXPECT_TRUE(CompareNatural("h10", "h9") > 0);
  EXPECT_TRUE(CompareNatural("rack1-h2", "rack1-h10") < 0);
  EXPECT_TRUE(CompareNatural("a", "b") < 0);
  EXPECT_TRUE(CompareNatural("h", "h0") < 0);
  EXPECT_TRUE(CompareNatural("", "a") < 0);
  EXPECT_TRUE(CompareNatural("h7", "h7") == 0);
}

TEST(NaturalOrder, NumbersLongerThanAnyIntegerAreOrdered) {
  EXPECT_TRUE(CompareNatural("h99999999999999999999999", "h100000000000000000000000") < 0);
}

TEST(NaturalOrder, LeadingZerosKeepNamesDistinct) {
  EXPECT_TRUE(CompareNatural("h01", "h1") != 0);
  EXPECT_TRUE(CompareNatural("h01", "h2") < 0);
  EXPECT_TRUE(CompareNatural("h002", "h1") > 0);
}

TEST(NaturalOrder, IsATotalOrder) {
  constexpr unsigned kSeed = 20241;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  std::vector<std::string> names;
  for (int i = 0; i < 60; ++i) {
    std::string name;
    for (unsigned n = random() % 5; n > 0; --n) name += "a01\xff-"[random() % 5];
    names.push_back(name);
  }
  for (const auto& a : names) {
    for (const auto& b : names) {
      EXPECT_EQ(CompareNatural(a, b) == 0, a == b) << a << " " << b;
      EXPECT_EQ(CompareNatural(a, b) < 0, CompareNatural(b, a) > 0) << a << " " << b;
      for (const auto& c : names) {
        if (CompareNatural(a, b) < 0 && CompareNatural(b, c) < 0) {
          EXPECT_TRUE(CompareNatural(a, c) < 0) << a << " " << b << " " << c;
        }
      }
    }
  }
}

TEST(Position, PodBeforeRackBeforeHost) {
  EXPECT_LT((Position{"p1", "r9", "h9"}), (Position{"p2", "r1", "h1"}));
  EXPECT_LT((Position{"p1", "r2", "h9"}), (Position{"p1", "r10", "h1"}));
  EXPECT_LT((Position{"", "", "h2"}), (Position{"", "", "h10"}));
}

constexpr unsigned kSeeds = 300;

std::vector<Position> RandomHosts(std::mt19937& random) {
  std::vector<Position> hosts;
  const unsigned count = 1 + random() % 40;
  for (unsigned i = 0; i < count; ++i) {
    const unsigned pod = random() % 3;
    hosts.push_back(
        {absl::StrCat("p", pod), absl::StrCat("r", pod, ".", random() % 12), absl::StrCat("h", i)});
  }
  std::shuffle(hosts.begin(), hosts.end(), random);
  return hosts;
}

// How often the closed ring enters each place from another one.
std::map<std::string, int> Entries(const std::vector<Position>& hosts,
                                   const std::vector<HostIndex>& ring,
                                   const std::function<std::string(const Position&)>& place) {
  std::map<std::string, int> entries;
  for (size_t i = 0; i < ring.size(); ++i) {
    const std::string from = place(hosts[ring[i].value()]);
    const std::string to = place(hosts[ring[(i + 1) % ring.size()].value()]);
    if (from != to) ++entries[to];
  }
  return entries;
}

TEST(Locality, OrdersByPodThenRackThenHost) {
  const std::vector<Position> hosts = {
      {"p1", "r2", "h10"}, {"p0", "r9", "h7"}, {"p1", "r2", "h2"}, {"p1", "r1", "h3"}};
  const std::vector<HostIndex> want = {HostIndex(1), HostIndex(3), HostIndex(2), HostIndex(0)};
  EXPECT_EQ(LocalityOrder(hosts), want);
}

TEST(Locality, NoHostsGiveAnEmptyOrder) { EXPECT_TRUE(LocalityOrder({}).empty()); }

TEST(Locality, EqualPositionsKeepTheirOrder) {
  const std::vector<Position> hosts(4);
  const std::vector<HostIndex> want = {HostIndex(0), HostIndex(1), HostIndex(2), HostIndex(3)};
  EXPECT_EQ(LocalityOrder(hosts), want);
}

TEST(Locality, IsAPermutationThatEntersEachPodAndRackOnce) {
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    const std::vector<Position> hosts = RandomHosts(random);
    const std::vector<HostIndex> ring = LocalityOrder(hosts);
    ASSERT_EQ(std::set<HostIndex>(ring.begin(), ring.end()).size(), hosts.size());
    ASSERT_EQ(ring.size(), hosts.size());
    for (const auto& [rack, n] : Entries(hosts, ring, [](const Position& p) { return p.rack; })) {
      EXPECT_EQ(n, 1) << rack;
    }
    for (const auto& [pod, n] : Entries(hosts, ring, [](const Position& p) { return p.pod; })) {
      EXPECT_EQ(n, 1) << pod;
    }
  }
}

TEST(Locality, RingIsIndependentOfTheInputOrder) {
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    std::vector<Position> hosts = RandomHosts(random);
    const auto names = [&] {
      std::vector<std::string> out;
      for (HostIndex i : LocalityOrder(hosts)) out.push_back(hosts[i.value()].host);
      return out;
    };
    const std::vector<std::string> before = names();
    std::shuffle(hosts.begin(), hosts.end(), random);
    EXPECT_EQ(names(), before);
  }
}

}  // namespace position_test
}  // namespace mccs
