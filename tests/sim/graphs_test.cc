// Work captured into CUDA graphs and replayed through production daemons over a simulated clock and
// network. The test plays the streams: it writes what their graph nodes write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

#include "service/communicator/schedule/departures.h"
#include "tests/sim/scenario.h"

namespace mccs {
namespace graphs_test {

using testing::HasSubstr;

constexpr uint64_t kSeeds = 60;
constexpr size_t kBytes = 1 << 20;
constexpr uint64_t kElements = kBytes / sizeof(float);
// A call that waits for a departed rank fails after kDepartureTimeoutNs.
constexpr int64_t kLongerThanDepartureTimeoutNs = 2 * Departures::kDepartureTimeoutNs;

class Graphs {
 public:
  Graphs(SimWorld& world, SimJob& job) : world_(world), job_(job) {}

  // Captures the calls on rank r; false if the daemon rejects them.
  bool Capture(int r, const SimCaptureSlot& place, const std::vector<SimCall>& calls) {
    SimRank& rank = job_.rank(r);
    job_.tenant(r).Capture(rank, place, calls);
    return world_.RunUntil([&] { return rank.captured; }) &&
           rank.capture_status.error == wire::ErrorClass::kNone;
  }
  bool CaptureAll(const SimCaptureSlot& place, OpKind kind, uint64_t count, uint64_t at = 0) {
    bool all = true;
    for (int r = 0; r < job_.ranks(); ++r) {
      all &= Capture(r, place, {job_.CallOf(r, kind, count, at)});
    }
    return all;
  }
  void ReplayAll(const SimCaptureSlot& place) {
    for (int r = 0; r < job_.ranks(); ++r) SimTenant::Replay(job_.rank(r), place);
  }
  bool AllReplayed(const SimCaptureSlot& place) {
    bool all = true;
    for (int r = 0; r < job_.ranks(); ++r) all &= SimTenant::Replayed(job_.rank(r), place);
    return all;
  }
  bool AnyFailed() {
    bool any = false;
    for (int r = 0; r < job_.ranks(); ++r) any |= job_.rank(r).failed();
    return any;
  }
  bool RunReplay(const SimCaptureSlot& place) {
    ReplayAll(place);
    return world_.RunUntil([&] { return AllReplayed(place) || AnyFailed(); }) && !AnyFailed();
  }

 private:
  SimWorld& world_;
  SimJob& job_;
};

TEST(SimGraphs, ReplaysGiveTheResultsOfCalls) {
  for (const std::vector<int>& layout : {std::vector<int>{0}, {0, 0, 0}, {0, 1}, {0, 1, 0, 1, 2}}) {
    auto [world, job] = JobWorld({.seed = 4, .hosts = 3}, layout, kBytes);
    Graphs graphs(world, job);
    const SimCaptureSlot place{.capture = 1, .slot = 0};
    ASSERT_TRUE(graphs.CaptureAll(place, OpKind::kAllReduce, 10'000));
    for (int i = 0; i < 3; ++i) {
      job.Fill(kElements);
      ASSERT_TRUE(graphs.RunReplay(place));
      EXPECT_EQ(job.Wrong(OpKind::kAllReduce, 10'000), 0u);
    }
  }
}

// ---- Posted and captured work mixed -------------------------------------------------------------

// One item of work on a stream, the same on every rank.
struct Item {
  bool captured = false;
  int graph = 0;          // captured
  uint64_t sequence = 0;  // posted: its number in the work ring
};

struct Posted {
  uint32_t stream = 0;
  uint64_t count = 0;
};

// A program: two streams, each with its items in order. Posted items have one order over both.
struct Program {
  std::vector<uint64_t> graph_counts;  // all-reduce of so many elements, by graph
  std::vector<Posted> posted;          // by sequence - 1
  std::vector<Item> streams[2];
};

Program MakeProgram(std::mt19937_64& random) {
  Program program;
  const size_t graphs = 1 + random() % 4;
  uint64_t count = 10;  // all counts differ, to detect mismatched calls
  for (size_t g = 0; g < graphs; ++g) program.graph_counts.push_back(count += 1 + random() % 500);
  for (int n = 0; n < 30; ++n) {
    const size_t stream = random() % 2;
    if (random() % 2 == 0) {
      program.posted.push_back({static_cast<uint32_t>(stream), count += 1 + random() % 500});
      program.streams[stream].push_back(
          {.captured = false, .graph = 0, .sequence = program.posted.size()});
    } else if (const size_t graph = random() % graphs; graph % 2 == stream) {
      program.streams[stream].push_back({.captured = true, .graph = static_cast<int>(graph)});
    }
  }
  return program;
}

SimCaptureSlot CaptureSlotOf(int graph) {
  return {.capture = 1 + static_cast<uint64_t>(graph), .slot = static_cast<uint32_t>(graph)};
}

// The position of one stream of one rank.
struct StreamPosition {
  size_t next = 0;
  bool reached = false;
};

// Moves stream `s` by at most one step.
void Step(SimRank& rank, uint32_t s, const std::vector<Item>& items, StreamPosition& progress) {
  if (progress.next == items.size()) return;
  const Item& item = items[progress.next];
  if (!std::exchange(progress.reached, true)) {
    if (item.captured) SimTenant::Replay(rank, CaptureSlotOf(item.graph));
    if (!item.captured) SimTenant::MarkReached(rank, s, item.sequence);
    return;
  }
  const bool done = item.captured ? SimTenant::Replayed(rank, CaptureSlotOf(item.graph))
                                  : rank.done() >= item.sequence;
  if (!done) return;
  ++progress.next;
  progress.reached = false;
}

TEST(SimGraphs, ReplaysAndCallsOnTwoStreamsHaveOneOrderOnAllHosts) {
  const std::vector<std::vector<int>> layouts = {{0, 1}, {0, 0, 1, 1}, {0, 1, 2}, {0, 1, 0, 2, 2}};
  for (auto [seed, random] : Seeds(kSeeds)) {
    auto [world, job] =
        JobWorld({.seed = seed, .hosts = 3}, layouts[random() % layouts.size()], kBytes);
    job.Fill(kElements);
    Graphs graphs(world, job);
    const Program program = MakeProgram(random);
    for (size_t g = 0; g < program.graph_counts.size(); ++g) {
      ASSERT_TRUE(graphs.CaptureAll(CaptureSlotOf(static_cast<int>(g)), OpKind::kAllReduce,
                                    program.graph_counts[g]));
    }
    // All calls are posted at once, as by a program that does not wait; the streams reach them
    // later.
    for (int r = 0; r < job.ranks(); ++r) {
      for (const Posted& posted : program.posted) {
        SimCall call = job.CallOf(r, OpKind::kAllReduce, posted.count, 50'000);
        call.stream = posted.stream;
        job.tenant(r).Post(job.rank(r), call, /*reached=*/false);
      }
    }
    std::vector<StreamPosition> progress(static_cast<size_t>(job.ranks()) * 2);
    const auto finished = [&] {
      for (size_t i = 0; i < progress.size(); ++i) {
        if (progress[i].next < program.streams[i % 2].size()) return false;
      }
      return true;
    };
    for (int turn = 0; turn < 20'000 && !finished() && !graphs.AnyFailed(); ++turn) {
      for (size_t i = 0; i < progress.size(); ++i) {
        if (random() % 3 != 0) continue;
        Step(job.rank(static_cast<int>(i / 2)), static_cast<uint32_t>(i % 2),
             program.streams[i % 2], progress[i]);
      }
      world.RunFor(RandomUs(random, 100));
    }
    ASSERT_FALSE(graphs.AnyFailed()) << job.rank(0).failure();
    ASSERT_TRUE(finished());
  }
}

// ---- Late, mismatched and released captures -----------------------------------------------------

TEST(SimGraphs, WaitForAHostThatCapturesLate) {
  auto [world, job] = JobWorld({.seed = 6}, {0, 1}, kBytes);
  job.Fill(kElements);
  Graphs graphs(world, job);
  const SimCaptureSlot place{.capture = 1, .slot = 0};
  ASSERT_TRUE(graphs.Capture(0, place, {job.CallOf(0, OpKind::kAllReduce, 1000)}));
  SimTenant::Replay(job.rank(0), place);
  world.RunFor(5 * kNsPerMs);
  EXPECT_FALSE(SimTenant::Replayed(job.rank(0), place));
  ASSERT_TRUE(graphs.Capture(1, place, {job.CallOf(1, OpKind::kAllReduce, 1000)}));
  world.RunFor(5 * kNsPerMs);
  SimTenant::Replay(job.rank(1), place);
  ASSERT_TRUE(world.RunUntil([&] { return graphs.AllReplayed(place); }));
  EXPECT_EQ(job.Wrong(OpKind::kAllReduce, 1000), 0u);
}

TEST(SimGraphs, ReportMismatchedCapturedCallsOnBothHosts) {
  for (const std::vector<int>& layout : {std::vector<int>{0, 0}, {0, 1}}) {
    auto [world, job] = JobWorld({.seed = 5}, layout, kBytes);
    Graphs graphs(world, job);
    const SimCaptureSlot place{.capture = 1, .slot = 0};
    for (int r : {0, 1}) {
      ASSERT_TRUE(graphs.Capture(
          r, place, {job.CallOf(r, OpKind::kAllReduce, 1000 + static_cast<uint64_t>(r))}));
    }
    graphs.ReplayAll(place);
    ASSERT_TRUE(job.RunUntilFailed({0, 1}));
    EXPECT_THAT(job.rank(0).failure(), HasSubstr("mismatched collectives"));
    for (int i = 0; i < 2; ++i) {
      for (int r : {0, 1}) EXPECT_FALSE(SimTenant::Replayed(job.rank(r), place)) << "rank " << r;
      graphs.ReplayAll(place);
    }
  }
}

TEST(SimGraphs, ReleasedCapturesLetTheDaemonSleep) {
  auto [world, job] = JobWorld({.seed = 7}, {0, 1}, kBytes);
  Graphs graphs(world, job);
  world.RunFor(kNsPerSec);
  EXPECT_EQ(world.host(0).daemon().urgency(), Urgency::kSleep);
  const SimCaptureSlot place{.capture = 3, .slot = 0};
  ASSERT_TRUE(graphs.CaptureAll(place, OpKind::kAllReduce, 1000));
  ASSERT_TRUE(graphs.RunReplay(place));
  world.RunFor(kNsPerSec);
  EXPECT_EQ(world.host(0).daemon().urgency(), Urgency::kBackOff) << "a replay rings no doorbell";
  EXPECT_EQ(world.host(0).controller().reports.begin()->second.captured_groups(), 1u);
  for (int r : {0, 1}) job.tenant(r).ReleaseCapture(job.rank(r), 3);
  world.RunFor(kNsPerSec);
  EXPECT_EQ(world.host(0).daemon().urgency(), Urgency::kSleep);
}

// ---- Messages -----------------------------------------------------------------------------------

TEST(SimGraphs, MessagesArriveAtEachReplay) {
  for (const std::vector<int>& layout : {std::vector<int>{0, 0, 0}, {0, 1, 2}, {0, 1, 1}}) {
    auto [world, job] = JobWorld({.seed = 9, .hosts = 3}, layout, kBytes);
    Graphs graphs(world, job);
    const SimCaptureSlot place{.capture = 1, .slot = 0};
    const int ranks = job.ranks();
    for (int r = 0; r < ranks; ++r) {
      ASSERT_TRUE(graphs.Capture(
          r, place,
          {job.CallOf(r, {.sends = true, .peer = (r + 1) % ranks, .at = 7, .count = 40'000}),
           job.CallOf(r, {.sends = false, .peer = (r + ranks - 1) % ranks, .count = 40'000})}));
    }
    for (int i = 0; i < 3; ++i) {
      job.Fill(kElements);
      ASSERT_TRUE(graphs.RunReplay(place));
      uint64_t wrong = 0;
      for (int r = 0; r < ranks; ++r) {
        for (uint64_t e = 0; e < 40'000; ++e) {
          wrong += job.output(r, e) != SimJob::InputValue((r + ranks - 1) % ranks, e + 7);
        }
      }
      EXPECT_EQ(wrong, 0u);
    }
  }
}

// ---- Departures and failures --------------------------------------------------------------------

TEST(SimGraphs, DeadDaemonLeavesReplaysBlocked) {
  auto [world, job] = JobWorld({.seed = 11}, {0, 1}, kBytes);
  Graphs graphs(world, job);
  const SimCaptureSlot place{.capture = 1, .slot = 0};
  ASSERT_TRUE(graphs.CaptureAll(place, OpKind::kAllReduce, kElements));
  graphs.ReplayAll(place);
  world.RunFor(200 * kNsPerUs);
  world.Kill(1);
  ASSERT_TRUE(job.RunUntilFailed({0}));
  EXPECT_FALSE(SimTenant::Replayed(job.rank(0), place));
  SimTenant::Replay(job.rank(0), place);
  EXPECT_FALSE(SimTenant::Replayed(job.rank(0), place)) << "also a later replay";
}

TEST(SimGraphs, ReplayWithAnAbortingRankIsRightOrFails) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    auto [world, job] = JobWorld({.seed = seed}, {0, 1}, kBytes);
    job.Fill(kElements);
    Graphs graphs(world, job);
    const SimCaptureSlot place{.capture = 1, .slot = 0};
    ASSERT_TRUE(graphs.CaptureAll(place, OpKind::kAllReduce, kElements));
    SimTenant::Replay(job.rank(0), place);
    if (random() % 2 == 0) SimTenant::Replay(job.rank(1), place);
    world.RunFor(RandomUs(random, 500));
    job.Abort(1);
    const auto replayed = [&] { return SimTenant::Replayed(job.rank(0), place); };
    ASSERT_TRUE(
        world.RunUntil([&] { return job.rank(1).ended && (replayed() || job.rank(0).failed()); },
                       kLongerThanDepartureTimeoutNs));
    uint64_t wrong = 0;
    for (uint64_t e = 0; replayed() && e < kElements; ++e) {
      wrong += job.output(0, e) != SimJob::InputValue(0, e) + SimJob::InputValue(1, e);
    }
    EXPECT_EQ(wrong, 0u);
  }
}

TEST(SimGraphs, ReplayWithADestroyedRankFailsWithItsRank) {
  for (const std::vector<int>& layout : {std::vector<int>{0, 0}, {0, 1}}) {
    auto [world, job] = JobWorld({.seed = 12}, layout, kBytes);
    Graphs graphs(world, job);
    const SimCaptureSlot place{.capture = 1, .slot = 0};
    ASSERT_TRUE(graphs.CaptureAll(place, OpKind::kAllReduce, 1000));
    ASSERT_TRUE(graphs.RunReplay(place));
    job.Destroy(1);
    ASSERT_TRUE(job.RunUntilEnded(1));
    SimTenant::Replay(job.rank(0), place);
    ASSERT_TRUE(job.RunUntilFailed({0}, kLongerThanDepartureTimeoutNs));
    EXPECT_THAT(job.rank(0).failure(), HasSubstr("rank 1"));
    EXPECT_FALSE(SimTenant::Replayed(job.rank(0), place));
  }
}

TEST(SimGraphs, DestroyWaitsForARunningReplay) {
  auto [world, job] = JobWorld({.seed = 13}, {0, 1}, kBytes);
  job.Fill(kElements);
  Graphs graphs(world, job);
  const SimCaptureSlot place{.capture = 1, .slot = 0};
  ASSERT_TRUE(graphs.CaptureAll(place, OpKind::kAllReduce, 1000));
  graphs.ReplayAll(place);
  world.RunFor(kNsPerUs);
  for (int r : {0, 1}) job.Destroy(r);
  ASSERT_TRUE(world.RunUntil([&] { return job.Ended(); }));
  EXPECT_FALSE(graphs.AnyFailed());
  EXPECT_EQ(job.Wrong(OpKind::kAllReduce, 1000), 0u);
}

// Its calls are prepared over several turns.
TEST(SimGraphs, AGroupOfManyCallsRunsInOrder) {
  constexpr size_t kCalls = 700;
  auto [world, job] = JobWorld({.seed = 15}, {0, 0, 1}, kBytes);
  Graphs graphs(world, job);
  const SimCaptureSlot place{.capture = 1, .slot = 0};
  for (int r = 0; r < job.ranks(); ++r) {
    std::vector<SimCall> calls;
    for (size_t i = 0; i < kCalls; ++i) calls.push_back(job.CallOf(r, OpKind::kAllReduce, i + 1));
    ASSERT_TRUE(graphs.Capture(r, place, calls));
  }
  for (int replay = 0; replay < 2; ++replay) {
    job.Fill(kElements);
    ASSERT_TRUE(graphs.RunReplay(place));
    EXPECT_EQ(job.Wrong(OpKind::kAllReduce, kCalls), 0u);
  }
}

// Their memory is freed over several turns.
TEST(SimGraphs, RanksWithManyCapturedGroupsEnd) {
  auto [world, job] = JobWorld({.seed = 16}, {0, 0}, kBytes);
  Graphs graphs(world, job);
  for (uint32_t group = 1; group <= 500; ++group) {
    ASSERT_TRUE(
        graphs.CaptureAll({.capture = 1, .slot = 0, .group = group}, OpKind::kAllReduce, 8));
  }
  job.Destroy(0);
  job.tenant(1).Kill();
  ASSERT_TRUE(job.RunUntilEnded(0));
  EXPECT_TRUE(world.RunUntil([&] { return world.host(0).daemon().communicators() == 0; }));
  job.tenant(0).Kill();
  EXPECT_TRUE(world.RunUntil([&] { return world.host(0).daemon().sessions() == 0; }));
}

TEST(SimGraphs, ReportReplayThatWaitsForRanks) {
  auto [world, job] = JobWorld({.seed = 14}, {0, 0, 1}, kBytes);
  Graphs graphs(world, job);
  const SimCaptureSlot place{.capture = 1, .slot = 0};
  ASSERT_TRUE(graphs.CaptureAll(place, OpKind::kAllReduce, 1000));
  for (int r : {0, 1}) SimTenant::Replay(job.rank(r), place);
  world.RunFor(15 * kNsPerSec);
  EXPECT_TRUE(world.host(0).log().Contains("ranks 0, 1 wait for rank 2"));
  EXPECT_TRUE(world.host(0).log().Contains("captured"));
  SimTenant::Replay(job.rank(2), place);
  EXPECT_TRUE(world.RunUntil([&] { return graphs.AllReplayed(place); }));
}

}  // namespace graphs_test
}  // namespace mccs
