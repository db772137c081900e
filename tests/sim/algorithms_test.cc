// Production daemons run collectives with plans of each algorithm in turn, as the rules of a
// strategy select, over a simulated clock and network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <random>

#include "algorithms/geometry.h"
#include "service/config.h"
#include "tests/sim/scenario.h"

namespace mccs {
namespace algorithms_test {

constexpr uint64_t kSeeds = 60;
constexpr OpKind kChoosable[] = {OpKind::kAllReduce, OpKind::kBroadcast,     OpKind::kReduce,
                                 OpKind::kAllGather, OpKind::kReduceScatter, OpKind::kAllToAll};

// Size ranges with one algorithm each.
ChoiceParameters RandomRules(std::mt19937_64& random) {
  ChoiceParameters parameters;
  for (OpKind kind : kChoosable) {
    uint64_t from = 0;
    for (size_t rule = 0; rule < kMaxAlgorithmRules / std::size(kChoosable); ++rule) {
      const auto algorithm = static_cast<Algorithm>(random() % kAlgorithms);
      const uint64_t to = from + (uint64_t{1} << (random() % 20));
      if (Supports(algorithm, kind)) parameters.rules.push_back({kind, algorithm, from, to - 1});
      from = to;
    }
  }
  return parameters;
}

// Each host has one or two ranks, in random order.
std::vector<int> RandomLayout(std::mt19937_64& random, int hosts) {
  std::vector<int> host_of_rank;
  for (int h = 0; h < hosts; ++h) host_of_rank.insert(host_of_rank.end(), 1 + random() % 2, h);
  std::shuffle(host_of_rank.begin(), host_of_rank.end(), random);
  return host_of_rank;
}

SimWorldOptions RandomWorld(uint64_t seed, std::mt19937_64& random) {
  const uint32_t slots = 2 + static_cast<uint32_t>(random() % 3);
  return {.seed = seed,
          .hosts = 2 + static_cast<int>(random() % 5),
          .channels = 1 + static_cast<int>(random() % 2),
          .lanes = {.slots = slots, .slot_bytes = 16u << 10},
          .skew = static_cast<uint32_t>(random() % slots),
          .algorithms = RandomRules(random)};
}

TEST(SimAlgorithms, GiveRightResultsInTurn) {
  constexpr size_t kBytes = 256 << 10;
  for (auto [seed, random] : Seeds(kSeeds)) {
    const SimWorldOptions options = RandomWorld(seed, random);
    SimWorld world(options);
    const std::vector<int> layout = RandomLayout(random, options.hosts);
    SimJob job(world, layout, kBytes);
    ASSERT_TRUE(job.Form());
    for (int operation = 0; operation < 8; ++operation) {
      const OpKind kind = kChoosable[random() % std::size(kChoosable)];
      const uint64_t most = uint64_t{1} << (random() % 16);
      // The buffers have room for a block per rank.
      const uint64_t count = 1 + random() % std::min(most, kBytes / sizeof(float) / layout.size());
      const int root = HasRoot(kind) ? static_cast<int>(random() % layout.size()) : 0;
      job.Fill(kBytes / sizeof(float));
      job.PostAll(kind, count, root);
      ASSERT_TRUE(job.Complete()) << Name(kind) << " count " << count;
      ASSERT_EQ(job.Wrong(kind, count, root), 0u)
          << Name(kind) << " count " << count << " root " << root;
    }
  }
}

// A bfloat16 mean is rounded at each step, so its bits depend on the order of the sums.
TEST(SimAlgorithms, GiveAllRanksTheSameBits) {
  constexpr uint64_t kFloats = 3000;
  for (auto [seed, random] : Seeds(kSeeds)) {
    const SimWorldOptions options = RandomWorld(seed, random);
    auto [world, job] =
        JobWorld(options, RandomLayout(random, options.hosts), kFloats * sizeof(float));
    for (DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
      job.Fill(kFloats);
      const uint64_t floats = 1 + random() % kFloats;
      for (int r = 0; r < job.ranks(); ++r) {
        SimCall call = job.CallOf(r, OpKind::kAllReduce, floats * sizeof(float) / SizeOf(type));
        call.type = type;
        call.redop = ReduceOp::kAvg;
        job.tenant(r).Post(job.rank(r), call);
      }
      ASSERT_TRUE(job.Complete());
      for (uint64_t i = 0; i < floats; ++i) {
        const auto bits = std::bit_cast<uint32_t>(job.output(0, i));
        ASSERT_NE(job.output(0, i), SimJob::kUnwritten);
        for (int r = 1; r < job.ranks(); ++r) {
          ASSERT_EQ(std::bit_cast<uint32_t>(job.output(r, i)), bits)
              << Name(type) << " element " << i << " of rank " << r;
        }
      }
    }
  }
}

TEST(SimAlgorithms, CallsOfDifferentAlgorithmsCompleteInOrder) {
  for (auto [seed, random] : Seeds(kSeeds / 2)) {
    const SimWorldOptions options = RandomWorld(seed, random);
    auto [world, job] = JobWorld(options, RandomLayout(random, options.hosts), 64 << 10);
    job.Fill(16 << 10);
    uint64_t most = 0;
    for (int i = 0; i < 30; ++i) {
      const uint64_t count = 1 + random() % (uint64_t{1} << (random() % 14));
      most = std::max(most, count);
      job.PostAll(OpKind::kAllReduce, count);
    }
    EXPECT_EQ(job.Finish(OpKind::kAllReduce, most), "");
  }
}

// The network delays every slice by 50 us, whatever its size.
TEST(SimAlgorithms, SmallAllReduceTakesTheHopsOfItsAlgorithm) {
  constexpr int64_t kHopNs = 50 * kNsPerUs;
  const auto hops_of = [](Algorithm algorithm, int hosts) {
    int height = 0;
    while (2 << height <= hosts) ++height;
    if (algorithm == Algorithm::kRing) return 2 * (hosts - 1);
    return algorithm == Algorithm::kTree ? 2 * height : 1;
  };
  for (int hosts : {2, 3, 4, 8}) {
    for (int i = 0; i < kAlgorithms; ++i) {
      const auto algorithm = static_cast<Algorithm>(i);
      if (!Supports(algorithm, OpKind::kAllReduce, hosts)) continue;
      SCOPED_TRACE(testing::Message() << hosts << " hosts, " << Name(algorithm));
      SimWorldOptions options{.seed = 1,
                              .hosts = hosts,
                              .algorithms = {},
                              .network = {.min_delay_ns = kHopNs, .max_delay_ns = kHopNs}};
      options.algorithms.rules = {{OpKind::kAllReduce, algorithm}};
      SimWorld world(options);
      std::vector<int> layout;
      for (int h = 0; h < hosts; ++h) layout.push_back(h);
      SimJob job(world, layout, 4096);
      ASSERT_TRUE(job.Form());
      job.Fill(2);
      job.PostAll(OpKind::kAllReduce, 2);  // opens the lanes
      ASSERT_TRUE(job.Complete());
      const MonotonicNs begin = world.clock().Now();
      job.PostAll(OpKind::kAllReduce, 2);
      ASSERT_TRUE(job.Complete());
      const int64_t took_ns = world.clock().Now() - begin;
      EXPECT_EQ(took_ns / kHopNs, hops_of(algorithm, hosts)) << took_ns << " ns";
    }
  }
}

// Tenants' processes on these hosts, one rank each.
std::vector<int> OneRankEach(int hosts) {
  std::vector<int> layout;
  for (int h = 0; h < hosts; ++h) layout.push_back(h);
  return layout;
}

// Network latencies until every rank has the result of a call of `count` elements, with mccsd's
// default lanes, which are open. (The operation ends one latency later if the last slice must be
// acknowledged.)
int LatenciesOf(OpKind kind, int hosts, uint64_t count, const ChoiceParameters& algorithms) {
  constexpr int64_t kLatencyNs = 50 * kNsPerUs;
  const Config defaults;
  SimWorld world(
      {.seed = 1,
       .hosts = hosts,
       .channels = defaults.channels,
       .lanes = defaults.lanes,
       .skew = defaults.skew,
       .algorithms = algorithms,
       .network = {
           .min_delay_ns = kLatencyNs, .max_delay_ns = kLatencyNs, .buffer_bytes = 1 << 20}});
  const uint64_t floats = count * static_cast<uint64_t>(hosts);
  SimJob job(world, OneRankEach(hosts), floats * sizeof(float));
  EXPECT_TRUE(job.Form());
  EXPECT_EQ(job.Run(kind, count), "");
  job.Fill(floats);
  job.PostAll(kind, count);
  world.RunFor(kLatencyNs / 2);
  for (int latencies = 1; latencies <= 2 * hosts; ++latencies) {
    world.RunFor(kLatencyNs);
    if (job.Wrong(kind, count) > 0) continue;
    EXPECT_EQ(job.Finish(kind, count), "");
    return latencies;
  }
  ADD_FAILURE() << Name(kind) << " over " << hosts << " hosts has no result";
  return 0;
}

// 1 KiB per rank, by the costs alone.
TEST(SimAlgorithms, AllGatherOver128HostsTakesSevenLatencies) {
  EXPECT_EQ(LatenciesOf(OpKind::kAllGather, 128, 1024 / sizeof(float), {}), 7);
}

TEST(SimAlgorithms, PatTakesTheLogarithmOfTheHosts) {
  for (OpKind kind : {OpKind::kAllGather, OpKind::kReduceScatter}) {
    for (const auto& [hosts, hops] : {std::pair(3, 2), {4, 2}, {5, 3}, {8, 3}, {16, 4}}) {
      EXPECT_LE(LatenciesOf(kind, hosts, 4, {.costs = {}, .rules = {{kind, Algorithm::kPat}}}),
                hops)
          << Name(kind) << " over " << hosts;
      EXPECT_EQ(LatenciesOf(kind, hosts, 4, {.costs = {}, .rules = {{kind, Algorithm::kRing}}}),
                hosts - 1)
          << Name(kind) << " over " << hosts;
    }
  }
}

TEST(SimAlgorithms, GridTakesTwoLatencies) {
  for (int hosts : {4, 7, 16, 17}) {
    EXPECT_EQ(LatenciesOf(OpKind::kAllToAll, hosts, 4,
                          {.costs = {}, .rules = {{OpKind::kAllToAll, Algorithm::kGrid}}}),
              2)
        << hosts;
  }
}

// Small blocks are packed, large ones have slices of their own (kMaxPackedBytes).
TEST(SimAlgorithms, BlocksOfSeveralRanksReachTheirRanks) {
  const std::vector<std::vector<int>> layouts{
      {0, 0, 0, 0, 1, 1, 1, 1}, {0, 1, 2, 1, 2, 1, 0, 1}, {0, 1, 1, 1, 2, 2}};
  for (const std::vector<int>& layout : layouts) {
    for (uint32_t slot_bytes : {16u << 10, 96u << 10}) {
      SimWorldOptions options{.seed = 1, .hosts = 3, .channels = 2, .algorithms = {}};
      options.lanes = {.slots = 3, .slot_bytes = slot_bytes};
      options.skew = 1;
      options.hosts = *std::ranges::max_element(layout) + 1;
      SimWorld world(options);
      constexpr uint64_t kMostFloats = 20'000;
      SimJob job(world, layout, layout.size() * kMostFloats * sizeof(float));
      ASSERT_TRUE(job.Form());
      for (OpKind kind : {OpKind::kAllToAll, OpKind::kAllGather, OpKind::kReduceScatter,
                          OpKind::kGather, OpKind::kScatter}) {
        for (uint64_t count : {uint64_t{1}, uint64_t{300}, kMaxPackedBytes / sizeof(float),
                               kMaxPackedBytes / sizeof(float) + 1, kMostFloats}) {
          const int root = HasRoot(kind) ? static_cast<int>(layout.size()) - 1 : 0;
          EXPECT_EQ(job.Run(kind, count, root), "")
              << Name(kind) << " count " << count << ", slots of " << slot_bytes;
        }
      }
    }
  }
}

// More pieces per host than a slice takes (kMaxPieces).
TEST(SimAlgorithms, PlansWithSeveralWavesGiveRightResults) {
  struct Case {
    OpKind kind;
    Algorithm algorithm;
    int hosts;
    int ranks;  // per host
  };
  for (const Case& c : {Case{OpKind::kAllToAll, Algorithm::kGrid, 7, 8},
                        {OpKind::kAllGather, Algorithm::kPat, 9, 36},
                        {OpKind::kReduceScatter, Algorithm::kPat, 9, 36}}) {
    SCOPED_TRACE(testing::Message() << Name(c.kind) << " by " << Name(c.algorithm));
    SimWorldOptions options{.seed = 1, .hosts = c.hosts, .algorithms = {}};
    options.algorithms.rules = {{c.kind, c.algorithm}};
    SimWorld world(options);
    std::vector<int> layout;
    for (int rank = 0; rank < c.hosts * c.ranks; ++rank) layout.push_back(rank % c.hosts);
    constexpr uint64_t kMostFloats = 70;
    SimJob job(world, layout, layout.size() * kMostFloats * sizeof(float));
    ASSERT_TRUE(job.Form());
    for (uint64_t count : {uint64_t{1}, kMostFloats}) EXPECT_EQ(job.Run(c.kind, count), "");
  }
}

// Calls with different counts may take different algorithms. Then one host sends on lanes that the
// other one does not use.
TEST(SimAlgorithms, ReportMismatchedCallsOfDifferentAlgorithms) {
  constexpr uint64_t kCounts[] = {10, 1000, 10'000};
  for (auto [seed, random] : Seeds(kSeeds)) {
    SimWorldOptions options{.seed = seed, .hosts = 5, .algorithms = {}};
    options.algorithms.rules = {{OpKind::kAllReduce, Algorithm::kTree, 0, 100},
                                {OpKind::kAllReduce, Algorithm::kDirect, 101, 10'000},
                                {OpKind::kAllReduce, Algorithm::kRing}};
    auto [world, job] = JobWorld(options, {0, 1, 2, 3, 4}, 64 << 10);
    const size_t right = random() % 3;
    const size_t wrong = (right + 1 + random() % 2) % 3;
    const int odd_rank = static_cast<int>(random() % 5);
    for (int r = 0; r < 5; ++r) {
      job.Post(r, OpKind::kAllReduce, kCounts[r == odd_rank ? wrong : right]);
    }
    ASSERT_TRUE(world.RunUntil([&] {
      for (int r = 0; r < 5; ++r) {
        if (!job.rank(r).failed()) return false;
      }
      return true;
    })) << "rank "
        << odd_rank << " calls " << kCounts[wrong] << ", others " << kCounts[right];
    for (size_t which : {right, wrong}) {
      EXPECT_THAT(job.rank(0).failure(),
                  testing::HasSubstr("all_reduce #1 count " + std::to_string(kCounts[which])));
    }
  }
}

// A host of the tree may neither send to its next host nor receive from its previous host, although
// that one sends slices of the ring.
TEST(SimAlgorithms, ReportMismatchedBroadcasts) {
  constexpr int kHosts = 9;
  constexpr uint64_t kByTree = 10, kByRing = 1000;
  for (int odd_rank = 0; odd_rank < kHosts; ++odd_rank) {
    for (const bool by_tree : {false, true}) {
      SCOPED_TRACE(testing::Message()
                   << "rank " << odd_rank << (by_tree ? " by tree" : " by ring"));
      SimWorldOptions options{.seed = 1, .hosts = kHosts, .algorithms = {}};
      options.algorithms.rules = {{OpKind::kBroadcast, Algorithm::kTree, 0, 100},
                                  {OpKind::kBroadcast, Algorithm::kRing}};
      SimWorld world(options);
      std::vector<int> layout;
      for (int h = 0; h < kHosts; ++h) layout.push_back(h);
      SimJob job(world, layout, 64 << 10);
      ASSERT_TRUE(job.Form());
      for (int r = 0; r < kHosts; ++r) {
        job.Post(r, OpKind::kBroadcast, (r == odd_rank) == by_tree ? kByTree : kByRing);
      }
      EXPECT_TRUE(job.RunUntilFailed({odd_rank}, kNsPerSec));
      EXPECT_THAT(job.rank(odd_rank).failure(), testing::HasSubstr("broadcast #1 count 10 "));
      EXPECT_THAT(job.rank(odd_rank).failure(), testing::HasSubstr("broadcast #1 count 1000 "));
    }
  }
}

// Lanes of trees and direct plans are opened on first use, and can break like others.
TEST(SimAlgorithms, ReopensBrokenLanesWithoutLoss) {
  uint64_t cuts = 0;
  for (auto [seed, random] : Seeds(kSeeds)) {
    SimWorldOptions options = RandomWorld(seed, random);
    options.hosts = 4;
    auto [world, job] = JobWorld(options, {0, 1, 2, 3}, 256 << 10);
    job.Fill(60'000);
    for (uint64_t count : {60'000u, 5'000u, 40'000u, 100u}) {
      job.PostAll(OpKind::kAllReduce, count);
      job.PostAll(OpKind::kAllReduce, 60'000);
    }
    for (int cut = 0; cut < 4; ++cut) {
      world.RunFor(RandomUs(random, 800));
      const auto& reports = world.host(static_cast<int>(random() % 4)).controller().reports;
      if (reports.empty()) continue;
      const auto& lanes = reports.begin()->second.lanes();
      const std::string local = lanes[static_cast<int>(random() % lanes.size())].local();
      cuts += world.CutLane(local);
    }
    EXPECT_EQ(job.Finish(OpKind::kAllReduce, 60'000), "");
  }
  EXPECT_GT(cuts, Seeds(kSeeds).size());
}

}  // namespace algorithms_test
}  // namespace mccs
