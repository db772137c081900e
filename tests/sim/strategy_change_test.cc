// Running communicators change their strategy: production daemons over a simulated clock and
// network, in one thread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "service/communicator/schedule/change_leader.h"
#include "tests/sim/scenario.h"

namespace mccs {
namespace strategy_change_test {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kSeeds = 150;

// `operations` all-reduces of every rank, each with its own memory, posted in order and at the
// ranks' own limits.
class Operations {
 public:
  // REQUIRES: buffers of operations × count elements.
  Operations(SimJob& job, uint64_t operations, uint64_t count)
      : job_(job), operations_(operations), count_(count) {
    job_.Fill(operations_ * count_);
    posted_.resize(static_cast<size_t>(job_.ranks()));
  }
  bool AllPosted() const { return std::ranges::min(posted_) == operations_; }
  void PostOne(size_t rank) {
    if (posted_[rank] == operations_) return;
    job_.PostInPlace(static_cast<int>(rank), count_, posted_[rank]++ * count_);
  }
  void PostOne(std::mt19937_64& random) { PostOne(random() % posted_.size()); }
  void PostAll() {
    while (!AllPosted()) {
      for (size_t r = 0; r < posted_.size(); ++r) PostOne(r);
    }
  }
  // Number of elements of all operations that are not the sum.
  uint64_t Wrong() const { return job_.Wrong(OpKind::kAllReduce, operations_ * count_); }

 private:
  SimJob& job_;
  const uint64_t operations_, count_;
  std::vector<uint64_t> posted_;  // by rank
};

TEST(SimStrategyChange, ChangesAnIdleCommunicator) {
  auto [world, job, changes] = RunningJob(1);
  ASSERT_TRUE(changes.Apply(changes.Reversed(2)));
  world.RunFor(kNsPerSec);  // for the old lanes to close
  EXPECT_EQ(world.network().open_streams(), 2u + 3u) << "control links and one ring of lanes";
  EXPECT_EQ(job.Run(OpKind::kAllReduce, 1000), "");
}

TEST(SimStrategyChange, ChangesACommunicatorOnOneHost) {
  auto [world, job, changes] = RunningJob(1, {0, 0});
  Strategy more = changes.InOrder(2);
  more.channels.resize(3, more.channels.front());
  changes.Propose(more);
  job.Fill(1000);
  for (int i = 0; i < 20; ++i) job.PostAll(OpKind::kAllReduce, 1000);
  ASSERT_TRUE(world.RunUntil([&] { return changes.AllAt(2) && job.Done(); }));
  EXPECT_EQ(job.Wrong(OpKind::kAllReduce, 1000), 0u);
}

// Ranks post at their own limits, so hosts are at different operations when the agreement begins;
// proposals overtake each other.
TEST(SimStrategyChange, EveryOperationRunsOnceUnderOneStrategy) {
  uint64_t changed = 0;
  for (auto [seed, random] : Seeds(kSeeds)) {
    const int hosts = 2 + static_cast<int>(random() % 3);
    std::vector<int> layout;
    for (int r = 0; r < hosts + static_cast<int>(random() % 4); ++r) layout.push_back(r % hosts);
    constexpr uint64_t kOperations = 24, kLargestCount = 10'000;
    auto [world, job, changes] =
        RunningJob(seed, layout, kOperations * kLargestCount * sizeof(float));
    const uint64_t count = 1 + random() % kLargestCount;
    Operations operations(job, kOperations, count);
    uint64_t epoch = 1;
    while (!operations.AllPosted()) {
      operations.PostOne(random);
      if (random() % 12 == 0) changes.Propose(changes.Random(++epoch, random));
      if (random() % 3 == 0) world.RunFor(RandomUs(random, 300));
    }
    changes.Propose(changes.Random(++epoch, random));
    ASSERT_TRUE(world.RunUntil([&] { return job.Done() && changes.AllAt(epoch); }))
        << job.rank(0).failure() << changes.change_error();
    EXPECT_EQ(operations.Wrong(), 0u);
    for (int h = 0; h < hosts; ++h) {
      const auto& report = world.host(h).controller().reports.at(changes.id());
      EXPECT_EQ(report.state(), "active");
    }
    changed += epoch - 1;
    // The strategy proposed last stays in use.
    const OpKind kind = OpKind::kAllGather;
    EXPECT_EQ(job.Run(kind, count), "");
  }
  EXPECT_GT(changed, 2 * Seeds(kSeeds).size());
}

TEST(SimStrategyChange, AThousandChangesInARowLoseNothing) {
  std::mt19937_64 random(1);
  constexpr uint64_t kOperations = 3, kLargestCount = 5000;
  auto [world, job, changes] =
      RunningJob(1, {0, 1, 2, 0}, kOperations * kLargestCount * sizeof(float));
  constexpr uint64_t kChanges = 1000;
  for (uint64_t epoch = 2; epoch <= kChanges + 1; ++epoch) {
    Operations operations(job, kOperations, 1 + random() % kLargestCount);
    changes.Propose(changes.Random(epoch, random));
    operations.PostAll();
    ASSERT_TRUE(world.RunUntil([&] { return job.Done() && changes.AllAt(epoch); }))
        << "epoch " << epoch << job.rank(0).failure() << changes.change_error();
    ASSERT_EQ(operations.Wrong(), 0u) << "epoch " << epoch;
  }
  world.RunFor(kNsPerSec);
  const auto& report = world.host(0).controller().reports.at(changes.id());
  EXPECT_EQ(report.operations(), kOperations * kChanges);
  EXPECT_LE(world.network().open_streams(), 2u + 3u * report.lanes_size())
      << "old lanes must close";
}

// Each lane moves by itself, in the middle of operations.
TEST(SimStrategyChange, ChangeOfPortsMovesOnlyTheLanes) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    auto [world, job, changes] = RunningJob(seed, {0, 1, 2}, 400'000 * sizeof(float));
    ASSERT_TRUE(changes.Apply(changes.InOrder(2)));
    Operations operations(job, 4, 100'000);
    operations.PostAll();
    Strategy moved = changes.InOrder(2);
    for (uint64_t epoch = 3; epoch <= 6; ++epoch) {
      world.RunFor(RandomUs(random, 2000));
      moved.epoch = Epoch(epoch);
      moved.channels[0].source_ports.clear();
      for (int h = 0; h < 3; ++h) {
        moved.channels[0].source_ports.push_back(static_cast<uint16_t>(20'000 + 10 * epoch + h));
      }
      changes.Propose(moved);
    }
    ASSERT_TRUE(world.RunUntil([&] { return job.Done() && changes.AllAt(6); }))
        << job.rank(0).failure();
    EXPECT_EQ(operations.Wrong(), 0u);
    world.RunFor(kNsPerSec);
    for (int h = 0; h < 3; ++h) {
      job.PostAll(OpKind::kAllReduce, 10);  // triggers a report
      world.RunFor(kNsPerSec);
      const auto& lane = world.host(h).controller().reports.at(changes.id()).lanes(0);
      EXPECT_THAT(lane.local(), HasSubstr(":" + std::to_string(20'060 + h)));
      EXPECT_GE(lane.reconnects(), 1u);
      EXPECT_EQ(lane.state(), "up");
    }
  }
}

// Hosts still agree on the first operation with the new choice.
TEST(SimStrategyChange, ChangeOfAlgorithmsKeepsTheLanes) {
  constexpr Algorithm kAlgorithm[] = {Algorithm::kRing, Algorithm::kTree, Algorithm::kDirect};
  for (auto [seed, random] : Seeds(kSeeds)) {
    constexpr uint64_t kOperations = 20, kLargestCount = 12'000;
    auto [world, job, changes] =
        RunningJob(seed, {0, 1, 2, 3}, kOperations * kLargestCount * sizeof(float));
    ASSERT_TRUE(changes.Apply(changes.InOrder(2)));
    const auto lane_of = [&](int h) {
      return world.host(h).controller().reports.at(changes.id()).lanes(0);
    };
    std::vector<std::string> before;
    for (int h = 0; h < 4; ++h) before.push_back(lane_of(h).local());
    Operations operations(job, kOperations, 1 + random() % kLargestCount);
    uint64_t epoch = 2;
    while (!operations.AllPosted()) {
      operations.PostOne(random);
      if (random() % 8 == 0) {
        Strategy chosen = changes.InOrder(++epoch);
        chosen.algorithms.rules = {{OpKind::kAllReduce, kAlgorithm[random() % 3]}};
        chosen.algorithms.costs.hop_us = static_cast<double>(random() % 100);
        changes.Propose(chosen);
      }
      if (random() % 3 == 0) world.RunFor(RandomUs(random, 300));
    }
    changes.Propose(changes.InOrder(++epoch));
    ASSERT_TRUE(world.RunUntil([&] { return job.Done() && changes.AllAt(epoch); }))
        << job.rank(0).failure() << changes.change_error();
    EXPECT_EQ(operations.Wrong(), 0u);
    for (int h = 0; h < 4; ++h) {
      EXPECT_EQ(lane_of(h).local(), before[static_cast<size_t>(h)]);
      EXPECT_EQ(lane_of(h).reconnects(), 0u);
    }
  }
}

TEST(SimStrategyChange, BrokenLaneDuringAChangeLosesNothing) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    auto [world, job, changes] = RunningJob(seed, {0, 1, 2}, 400'000 * sizeof(float));
    Operations operations(job, 4, 100'000);
    operations.PostAll();
    changes.Propose(changes.Random(2, random));
    for (int cut = 0; cut < 3; ++cut) {
      world.RunFor(RandomUs(random, 1500));
      const int h = static_cast<int>(random() % 3);
      const auto& lanes = world.host(h).controller().reports.at(changes.id()).lanes();
      world.CutLane(lanes[static_cast<int>(random() % lanes.size())].local());
    }
    ASSERT_TRUE(world.RunUntil([&] { return job.Done() && changes.AllAt(2); }, 30 * kNsPerSec))
        << job.rank(0).failure() << changes.change_error();
    EXPECT_EQ(operations.Wrong(), 0u);
  }
}

TEST(SimStrategyChange, DropsAndReportsAChangeThatAHostCannotPrepare) {
  auto [world, job, changes] = RunningJob(1);
  Strategy parted = changes.Reversed(2);
  // In the current ring, host 2 sends nothing to host 1 and receives nothing from it.
  world.network().Partition(world.host(2).address(), world.host(1).address());
  changes.Propose(parted);
  ASSERT_TRUE(world.RunUntil([&] { return !changes.change_error().empty(); },
                             2 * ChangeLeader::kPrepareTimeoutNs));
  world.network().Heal(world.host(2).address(), world.host(1).address());
  EXPECT_EQ(job.Run(OpKind::kAllReduce, 1000), "");
  EXPECT_TRUE(changes.AllAt(1));
  // The next proposal is accepted.
  parted.epoch = Epoch(3);
  ASSERT_TRUE(changes.Apply(parted)) << changes.change_error();
  EXPECT_THAT(changes.change_error(), IsEmpty());
}

TEST(SimStrategyChange, RejectsInvalidProposalWithAReason) {
  auto [world, job, changes] = RunningJob(1, {0, 1});
  changes.Propose(changes.InOrder(1));
  ASSERT_TRUE(world.RunUntil([&] { return !changes.change_error().empty(); }));
  EXPECT_THAT(changes.change_error(), HasSubstr("epoch 1"));
  Strategy bad = changes.InOrder(2);
  bad.channels[0].ring.pop_back();
  changes.Propose(bad);
  ASSERT_TRUE(
      world.RunUntil([&] { return changes.change_error().find("ring") != std::string::npos; }));
  EXPECT_TRUE(changes.AllAt(1));
}

// A daemon dies at a random time of the agreement: all ranks get an error, none waits forever.
TEST(SimStrategyChange, DeadHostDuringAChangeFailsTheCommunicator) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    auto [world, job, changes] = RunningJob(seed);
    for (int i = 0; i < 4; ++i) job.PostAll(OpKind::kAllReduce, 100'000);
    changes.Propose(changes.Random(2, random));
    world.RunFor(RandomUs(random, 2000));
    const int dead = static_cast<int>(random() % 3);
    world.Kill(dead);
    for (int r = 0; r < 3; ++r) {
      if (r == dead) continue;
      ASSERT_TRUE(world.RunUntil([&] { return job.rank(r).failed() || job.Done(); }));
      if (!job.Done()) {
        EXPECT_THAT(job.rank(r).failure(), HasSubstr("connection to host h"));
      }
    }
  }
}

// The new lanes are opened while the old lanes still hold their ports.
TEST(SimStrategyChange, ChangeOfRingOrderMayKeepThePorts) {
  auto [world, job, changes] = RunningJob(1, {0, 1});
  constexpr uint16_t kPort[] = {20'000, 20'001};  // by the host that sends
  for (uint64_t epoch = 2; epoch <= 5; ++epoch) {
    Strategy strategy = changes.InOrder(epoch);
    std::vector<HostIndex>& ring = strategy.channels[0].ring;
    if (epoch % 2 == 1) std::reverse(ring.begin(), ring.end());
    for (HostIndex host : ring) strategy.channels[0].source_ports.push_back(kPort[host.value()]);
    changes.Propose(strategy);
    job.Fill(1000);
    for (int i = 0; i < 5; ++i) job.PostAll(OpKind::kAllReduce, 1000);
    ASSERT_TRUE(world.RunUntil([&] { return job.Done() && changes.AllAt(epoch); }))
        << changes.change_error();
    EXPECT_EQ(job.Wrong(OpKind::kAllReduce, 1000), 0u);
    world.RunFor(3 * kNsPerSec);
    job.PostAll(OpKind::kAllReduce, 1000);  // triggers a report
    world.RunFor(kNsPerSec);
    for (int h = 0; h < 2; ++h) {
      const auto& lane = world.host(h).controller().reports.at(changes.id()).lanes(0);
      EXPECT_THAT(lane.local(), HasSubstr(":" + std::to_string(kPort[h]))) << "epoch " << epoch;
      EXPECT_EQ(lane.state(), "up");
    }
  }
}

TEST(SimStrategyChange, DepartureDuringAChangeBlocksNoRank) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    auto [world, job, changes] = RunningJob(seed);
    for (int i = 0; i < 3; ++i) job.PostAll(OpKind::kAllReduce, 100'000);
    changes.Propose(changes.Random(2, random));
    world.RunFor(RandomUs(random, 3000));
    for (int r = 0; r < 3; ++r) {
      job.Destroy(r);
      world.RunFor(RandomUs(random, 500));
    }
    ASSERT_TRUE(world.RunUntil([&] { return job.Ended(); }));
    for (int r = 0; r < 3; ++r) EXPECT_FALSE(job.rank(r).failed()) << job.rank(r).failure();
    for (int h = 0; h < 3; ++h) {
      EXPECT_FALSE(world.host(h).log().Contains("message rejected"));
      EXPECT_FALSE(world.host(h).log().Contains("unexpected step"));
    }
  }
}

}  // namespace strategy_change_test
}  // namespace mccs
