// Puts, signals and waits through production daemons, over a simulated clock and network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "tests/sim/scenario.h"

namespace mccs {
namespace one_sided_test {

using testing::HasSubstr;

constexpr uint64_t kSeeds = 60;
constexpr size_t kBytes = 1 << 20;
constexpr uint64_t kElements = kBytes / sizeof(float);
// Longer than any wait for departed ranks.
constexpr int64_t kDepartureTimeoutNs = 40 * kNsPerSec;

const std::vector<std::vector<int>> kOneHostOrTwo = {{0, 0}, {0, 1}};

struct Planned {
  int from = 0;
  SimJob::Put put;
};

// Random puts that do not overlap; `filled`: by rank, the used elements of its window.
std::vector<Planned> PlanPuts(std::mt19937_64& random, std::vector<uint64_t>& filled) {
  const auto ranks = static_cast<uint64_t>(filled.size());
  std::vector<Planned> puts;
  for (uint64_t n = random() % 16; n > 0; --n) {
    SimJob::Put put{.peer = static_cast<int>(random() % ranks),
                    .signal = static_cast<uint32_t>(random() % 3)};
    put.count = random() % 4 == 0 ? 0 : random() % (random() % 2 == 0 ? 100 : 15'000);
    put.at = random() % (kElements - put.count);
    uint64_t& at = filled[static_cast<size_t>(put.peer)];
    if (put.count > kElements - at) put.count = 0;
    put.to = at;
    at += put.count;
    puts.push_back({static_cast<int>(random() % ranks), put});
  }
  return puts;
}

// Every rank puts, in one group or in several, then waits for the puts to it.
void PostAll(SimJob& job, const std::vector<Planned>& puts, std::mt19937_64& random) {
  for (int r = 0; r < job.ranks(); ++r) {
    const bool together = random() % 2 == 0;
    std::map<std::pair<int, uint32_t>, uint64_t> wanted;
    for (const Planned& each : puts) {
      SimJob::Put put = each.put;
      put.more = together;
      if (each.from == r) job.Post(r, put);
      if (put.peer == r) ++wanted[{each.from, put.signal}];
    }
    for (const auto& [whose, signals] : wanted) {
      job.Post(
          r,
          SimJob::Wait{
              .peer = whose.first, .signals = signals, .signal = whose.second, .more = together});
    }
    // Ends the group.
    job.Post(r, SimJob::Wait{.peer = 0, .signals = 0});
  }
}

uint64_t WrongElements(const SimJob& job, const std::vector<Planned>& puts) {
  uint64_t wrong = 0;
  for (const Planned& each : puts) {
    for (uint64_t i = 0; i < each.put.count; ++i) {
      wrong += job.output(each.put.peer, each.put.to + i) !=
               SimJob::InputValue(each.from, each.put.at + i);
    }
  }
  return wrong;
}

TEST(SimOneSided, DataArrivesBeforeItsSignal) {
  const std::vector<std::vector<int>> layouts = {
      {0}, {0, 0}, {0, 1}, {0, 0, 1, 1}, {0, 1, 0, 1}, {0, 1, 2}, {0, 0, 0, 1, 2, 2}};
  for (auto [seed, random] : Seeds(kSeeds)) {
    const LaneShape lanes{.slots = 2 + static_cast<uint32_t>(random() % 4),
                          .slot_bytes = 16u << 10};
    auto [world, job] = JobWorld({.seed = seed, .hosts = 3, .lanes = lanes},
                                 layouts[random() % layouts.size()], kBytes);
    job.Fill(kElements);
    std::vector<uint64_t> filled(static_cast<size_t>(job.ranks()), 0);
    // Some ranks register their window before there are puts, some after.
    for (int r = 0; r < job.ranks(); r += 2) job.OpenWindow(r, kElements);
    for (int round = 0; round < 4; ++round) {
      const std::vector<Planned> puts = PlanPuts(random, filled);
      PostAll(job, puts, random);
      if (round == 0) {
        world.RunFor(RandomUs(random, 500));
        for (int r = 1; r < job.ranks(); r += 2) job.OpenWindow(r, kElements);
      }
      ASSERT_TRUE(job.Complete()) << "round " << round;
      ASSERT_EQ(WrongElements(job, puts), 0u) << "round " << round;
    }
  }
}

TEST(SimOneSided, PutWaitsForThePeersWindow) {
  for (const std::vector<int>& layout : kOneHostOrTwo) {
    auto [world, job] = JobWorld({.seed = 2}, layout, kBytes);
    job.Fill(kElements);
    job.OpenWindow(0, kElements);
    job.Post(0, SimJob::Put{.peer = 1, .count = 1000});
    job.Post(1, SimJob::Wait{.peer = 0});
    world.RunFor(50 * kNsPerMs);
    EXPECT_EQ(job.rank(0).done(), 0u);
    job.OpenWindow(1, kElements);
    ASSERT_TRUE(job.Complete());
    EXPECT_EQ(WrongElements(job, {{0, {.peer = 1, .count = 1000}}}), 0u);
  }
}

// A rank that signals and then sends must not block a peer that receives and then waits.
TEST(SimOneSided, SignalWaitsForNoCallOfItsPeer) {
  for (const std::vector<int>& layout : kOneHostOrTwo) {
    auto [world, job] = JobWorld({.seed = 3}, layout, kBytes);
    job.Fill(kElements);
    job.Post(0, SimJob::Put{.peer = 1});  // of 0 elements: only the signal
    job.Post(0, SimJob::Message{.sends = true, .peer = 1, .count = 1000});
    job.Post(1, SimJob::Message{.sends = false, .peer = 0, .count = 1000});
    job.Post(1, SimJob::Wait{.peer = 0});
    ASSERT_TRUE(job.Complete());
  }
}

TEST(SimOneSided, BrokenLaneLosesAndRepeatsNoSignal) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    auto [world, job] = JobWorld({.seed = seed}, {0, 1}, kBytes);
    job.Fill(kElements);
    std::vector<Planned> puts;
    for (int r = 0; r < 2; ++r) {
      job.OpenWindow(r, kElements);
      for (uint64_t i = 0; i < 5; ++i) {
        puts.push_back({r, {.peer = 1 - r, .at = 7 * i, .count = 40'000, .to = i * 40'000}});
        job.Post(r, puts.back().put);
      }
      job.Post(r, SimJob::Wait{.peer = 1 - r, .signals = 5});
    }
    world.RunFor(RandomUs(random, 2000));
    for (const auto& lane : world.host(0).controller().reports.begin()->second.lanes()) {
      world.CutLane(lane.local());
    }
    ASSERT_TRUE(job.Complete());
    EXPECT_EQ(WrongElements(job, puts), 0u);
    // No signal is left over.
    job.Post(0, SimJob::Wait{.peer = 1});
    world.RunFor(20 * kNsPerMs);
    EXPECT_FALSE(job.Done());
  }
}

TEST(SimOneSided, PutOutsideTheWindowFailsWithItsBounds) {
  for (const std::vector<int>& layout : kOneHostOrTwo) {
    for (uint64_t to : {uint64_t{1}, uint64_t{101}, uint64_t{1} << 60}) {
      auto [world, job] = JobWorld({.seed = 4}, layout, kBytes);
      job.Fill(kElements);
      job.OpenWindow(0, kElements);
      job.OpenWindow(1, 100);
      job.Post(0, SimJob::Put{.peer = 1, .count = 100, .to = to});
      ASSERT_TRUE(job.RunUntilFailed({0, 1}));
      EXPECT_THAT(job.rank(0).failure(), HasSubstr("400 bytes"));
      EXPECT_THAT(job.rank(1).failure(), HasSubstr("window #1"));
      for (uint64_t i = 0; i < kElements; ++i) ASSERT_EQ(job.output(1, i), SimJob::kUnwritten);
    }
  }
}

TEST(SimOneSided, PutIntoADeregisteredWindowFailsWithItsNumber) {
  for (const std::vector<int>& layout : kOneHostOrTwo) {
    for (bool used_before : {false, true}) {
      auto [world, job] = JobWorld({.seed = 5}, layout, kBytes);
      job.OpenWindow(1, kElements);
      if (used_before) {
        job.Post(0, SimJob::Put{.peer = 1, .count = 10});
        ASSERT_TRUE(job.Complete());
      }
      job.tenant(1).CloseWindow(job.rank(1), 1);
      world.RunFor(kNsPerMs);
      job.Post(0, SimJob::Put{.peer = 1, .count = 10});
      ASSERT_TRUE(job.RunUntilFailed({0, 1}));
      EXPECT_THAT(job.rank(0).failure(), HasSubstr("window #1"));
      EXPECT_THAT(job.rank(0).failure(), HasSubstr("deregistered"));
    }
  }
}

// A window does not keep memory mapped that the program frees.
TEST(SimOneSided, PutIntoAReleasedWindowFails) {
  for (const std::vector<int>& layout : kOneHostOrTwo) {
    auto [world, job] = JobWorld({.seed = 6}, layout, kBytes);
    job.OpenWindow(1, kElements);
    job.Post(0, SimJob::Put{.peer = 1, .count = 200'000});
    ASSERT_TRUE(job.Complete());
    job.Release(1);
    ASSERT_TRUE(world.RunUntil([&] { return job.IsReleased(1); }));
    job.Post(0, SimJob::Put{.peer = 1, .count = 10});
    ASSERT_TRUE(job.RunUntilFailed({0, 1}));
    EXPECT_THAT(job.rank(0).failure(), HasSubstr("window #1 of rank 1 has no memory"));
  }
}

TEST(SimOneSided, PutsOfADepartedRankArrive) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    auto [world, job] = JobWorld({.seed = seed}, kOneHostOrTwo[seed % 2], kBytes);
    job.Fill(kElements);
    job.OpenWindow(1, kElements);
    job.Post(1, SimJob::Wait{.peer = 0, .signals = 3});
    for (uint64_t i = 0; i < 3; ++i) {
      job.Post(0, SimJob::Put{.peer = 1, .count = 30'000, .to = i * 30'000});
    }
    job.Destroy(0);
    ASSERT_TRUE(world.RunUntil([&] { return job.rank(0).ended && job.rank(1).done() == 1; }));
    EXPECT_FALSE(job.rank(1).failed());
    EXPECT_EQ(WrongElements(job, {{0, {.peer = 1, .count = 30'000, .to = 60'000}}}), 0u);
  }
}

TEST(SimOneSided, WaitForADepartedRankFailsWithItsRank) {
  for (const std::vector<int>& layout : kOneHostOrTwo) {
    for (bool dies : {false, true}) {
      auto [world, job] = JobWorld({.seed = 8}, layout, kBytes);
      job.Post(0, SimJob::Put{.peer = 1});
      job.Post(1, SimJob::Wait{.peer = 0, .signals = 2});
      ASSERT_TRUE(world.RunUntil([&] { return job.rank(0).done() == 1; }));
      if (dies) {
        job.tenant(0).Kill();
      } else {
        job.Destroy(0);
      }
      ASSERT_TRUE(job.RunUntilFailed({1}, kDepartureTimeoutNs));
      EXPECT_THAT(job.rank(1).failure(),
                  HasSubstr("wait #1 of rank 1 for 2 signals of rank 0 cannot complete: rank 0"));
    }
  }
}

TEST(SimOneSided, PutToADepartedRankFailsWithItsRank) {
  for (const std::vector<int>& layout : kOneHostOrTwo) {
    auto [world, job] = JobWorld({.seed = 9}, layout, kBytes);
    job.Destroy(0);
    ASSERT_TRUE(job.RunUntilEnded(0));
    job.Post(1, SimJob::Put{.peer = 0, .count = 10});
    ASSERT_TRUE(job.RunUntilFailed({1}, kDepartureTimeoutNs));
    EXPECT_THAT(job.rank(1).failure(), HasSubstr("put #1 of rank 1 to rank 0"));
    EXPECT_THAT(job.rank(1).failure(), HasSubstr("cannot complete: rank 0"));
  }
}

// Once ncclCommAbort, ncclCommDestroy or ncclCommWindowDeregister returns, the program owns the
// window's memory again, although a peer's put has begun.
TEST(SimOneSided, NothingIsWrittenAfterTheWindowIsReleased) {
  constexpr uint64_t kLargeElements = 2 * kElements;  // more than one turn copies
  enum class Ending { kAbort, kDestroy, kDeregister };
  for (const Ending how : {Ending::kAbort, Ending::kDestroy, Ending::kDeregister}) {
    for (uint64_t seed = 1; seed <= kSeeds / 3; ++seed) {
      SCOPED_TRACE(testing::Message() << "ending " << static_cast<int>(how) << ", seed " << seed);
      std::mt19937_64 random(seed);
      SimWorld world({.seed = seed});
      // A rank beside it stays; otherwise its lanes would end with it.
      SimJob job(world, seed % 6 == 0 ? std::vector{0, 0, 0} : std::vector{0, 1, 1},
                 kLargeElements * sizeof(float));
      ASSERT_TRUE(job.Form());
      job.Fill(kLargeElements);
      job.OpenWindow(1, kLargeElements);
      job.Post(0, SimJob::Put{.peer = 1, .count = kLargeElements});
      const uint64_t reached = random() % kElements;
      ASSERT_TRUE(world.RunUntil([&] { return job.output(1, reached) != SimJob::kUnwritten; }));
      SimRank& rank = job.rank(1);
      switch (how) {
        case Ending::kAbort:
          job.tenant(1).Abort(rank);
          break;
        case Ending::kDestroy:
          job.tenant(1).Destroy(rank);
          break;
        case Ending::kDeregister:
          job.tenant(1).CloseWindow(rank, 1);
          break;
      }
      ASSERT_TRUE(world.RunUntil([&] { return rank.ended || rank.closed; }, kNsPerSec));
      std::vector<float> then(kLargeElements);
      for (uint64_t i = 0; i < kLargeElements; ++i) then[i] = job.output(1, i);
      world.RunFor(100 * kNsPerMs);
      uint64_t changed = 0;
      for (uint64_t i = 0; i < kLargeElements; ++i) changed += then[i] != job.output(1, i);
      EXPECT_EQ(changed, 0u);
    }
  }
}

TEST(SimOneSided, AbortFailsThePeer) {
  for (int aborts : {0, 1}) {
    auto [world, job] = JobWorld({.seed = 10}, {0, 1}, kBytes);
    job.OpenWindow(1, kElements);
    job.Post(0, SimJob::Put{.peer = 1, .count = 200'000});
    job.Post(1, SimJob::Wait{.peer = 0});
    world.RunFor(200 * kNsPerUs);
    job.Abort(aborts);
    SimRank& other = job.rank(1 - aborts);
    ASSERT_TRUE(world.RunUntil([&] { return job.rank(aborts).ended && other.failed(); },
                               kDepartureTimeoutNs));
    EXPECT_THAT(other.failure(), HasSubstr(aborts == 0 ? "rank 0" : "rank 1"));
  }
}

}  // namespace one_sided_test
}  // namespace mccs
