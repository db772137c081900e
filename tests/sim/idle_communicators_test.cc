// Many idle communicators beside some busy ones: the idle ones get no turns, and still react when
// an event concerns them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/scenario.h"

namespace mccs {
namespace idle_communicators_test {

using testing::HasSubstr;

constexpr size_t kBytes = 64 << 10;
constexpr uint64_t kCount = 1000;
constexpr size_t kMany = 40;
// Longer than any report, lane timeout or departure takes.
constexpr int64_t kLongNs = 10 * kNsPerSec;

// One process per rank, which split their first communicator into many of the same ranks.
class ManyCommunicators {
 public:
  ManyCommunicators(SimWorld& world, std::vector<int> host_of_rank)
      : world_(world), host_of_rank_(host_of_rank), parent_(world, host_of_rank, kBytes) {}

  bool Form(size_t communicators) {
    if (!parent_.Form()) return false;
    while (jobs_.size() < communicators) {
      std::vector<SimJob::RankOfTenant> seats;
      for (int r = 0; r < ranks(); ++r) {
        seats.push_back({&parent_.tenant(r), &parent_.tenant(r).Split(parent_.rank(r), 0, r)});
      }
      const bool answered = world_.RunUntil([&] {
        return std::ranges::all_of(
            seats, [](const SimJob::RankOfTenant& seat) { return seat.rank->answered; });
      });
      if (!answered) return false;
      jobs_.emplace_back(world_, seats, kBytes);
      if (!jobs_.back().Formed()) return false;
    }
    world_.RunFor(kLongNs);
    return true;
  }

  int ranks() const { return static_cast<int>(host_of_rank_.size()); }
  std::deque<SimJob>& jobs() { return jobs_; }
  SimJob& parent() { return parent_; }

  // Turns of a communicator on the host of rank r.
  uint64_t TurnsOf(SimJob& job, int r) {
    SimHost& host = world_.host(host_of_rank_[static_cast<size_t>(r)]);
    return host.daemon().TurnsOf(job.rank(r).id);
  }
  std::map<std::pair<const SimJob*, int>, uint64_t> AllTurns() {
    std::map<std::pair<const SimJob*, int>, uint64_t> turns;
    for (int r = 0; r < ranks(); ++r) {
      turns[{&parent_, r}] = TurnsOf(parent_, r);
      for (SimJob& job : jobs_) turns[{&job, r}] = TurnsOf(job, r);
    }
    return turns;
  }
  void ExpectWorks(SimJob& job) { EXPECT_EQ(job.Run(OpKind::kAllReduce, kCount), ""); }
  // Breaks a lane of the communicator that leaves rank r's host, by the last report.
  bool CutLane(SimJob& job, int r) {
    SimHost& host = world_.host(host_of_rank_[static_cast<size_t>(r)]);
    const auto report = host.controller().reports.find(job.rank(r).id);
    if (report == host.controller().reports.end() || report->second.lanes().empty()) return false;
    return world_.CutLane(report->second.lanes(0).local());
  }

 private:
  SimWorld& world_;
  const std::vector<int> host_of_rank_;
  SimJob parent_;
  std::deque<SimJob> jobs_;
};

TEST(SimIdleCommunicators, GetNoTurnsWhileAnotherIsBusy) {
  for (const std::vector<int>& hosts : {std::vector<int>{0, 0}, {0, 1}, {0, 1, 1, 2}}) {
    SCOPED_TRACE(testing::Message() << hosts.size() << " ranks, the last on host " << hosts.back());
    SimWorld world({.seed = 1, .hosts = 3});
    ManyCommunicators many(world, hosts);
    ASSERT_TRUE(many.Form(kMany));
    SimJob& busy = many.jobs()[kMany / 2];
    const auto before = many.AllTurns();
    for (int i = 0; i < 50; ++i) many.ExpectWorks(busy);
    busy.Post(0, {.sends = true, .peer = 1, .at = 0, .count = kCount});
    busy.Post(1, {.sends = false, .peer = 0, .at = 0, .count = kCount});
    ASSERT_TRUE(busy.Complete());
    world.RunFor(kLongNs);
    for (const auto& [who, turns] : many.AllTurns()) {
      const auto& [job, r] = who;
      if (job == &busy) {
        EXPECT_GE(turns, before.at(who) + 50) << "rank " << r;
      } else {
        EXPECT_EQ(turns, before.at(who)) << "rank " << r << " of an idle communicator";
      }
    }
  }
}

// Processes that start, end and form other communicators give them no turns either.
TEST(SimIdleCommunicators, GetNoTurnsWhileOthersFormAndEnd) {
  SimWorld world({.seed = 2, .hosts = 2});
  ManyCommunicators many(world, {0, 1});
  ASSERT_TRUE(many.Form(kMany));
  const auto before = many.AllTurns();
  for (int i = 0; i < 3; ++i) {
    SimJob other(world, {0, 1, 1}, kBytes);
    ASSERT_TRUE(other.Form());
    many.ExpectWorks(other);
    other.tenant(i).Kill();
    for (int r = 0; r < other.ranks(); ++r) {
      if (r != i) other.Destroy(r);
    }
    world.RunFor(kLongNs);
  }
  EXPECT_EQ(many.AllTurns(), before);
}

TEST(SimIdleCommunicators, BecomeBusyInAnyOrder) {
  for (auto [seed, random] : Seeds(10)) {
    SimWorld world({.seed = seed, .hosts = 3, .channels = 2});
    ManyCommunicators many(world, {0, 1, 1, 2});
    ASSERT_TRUE(many.Form(12));
    int cut = 0;
    for (int step = 0; step < 30; ++step) {
      std::vector<SimJob*> working;
      for (SimJob& job : many.jobs()) {
        if (random() % 3 == 0) working.push_back(&job);
      }
      for (SimJob* job : working) {
        job->Fill(kCount);
        std::vector<int> order = {0, 1, 2, 3};
        std::shuffle(order.begin(), order.end(), random);
        for (int r : order) {
          if (random() % 4 == 0) world.RunFor(RandomUs(random, 300));
          job->Post(r, OpKind::kAllReduce, kCount);
        }
      }
      SimJob& victim = many.jobs()[random() % many.jobs().size()];
      if (random() % 3 == 0) cut += many.CutLane(victim, static_cast<int>(random() % 4));
      ASSERT_TRUE(world.RunUntil([&] {
        return std::ranges::all_of(working, [](SimJob* job) { return job->Done(); });
      })) << "step "
          << step;
      for (SimJob* job : working) EXPECT_EQ(job->Wrong(OpKind::kAllReduce, kCount), 0u);
      if (random() % 2 == 0) world.RunFor(static_cast<int64_t>(random() % 2000) * kNsPerMs);
    }
    EXPECT_GT(cut, 0);
  }
}

TEST(SimIdleCommunicators, ReopenBrokenLanes) {
  SimWorld world({.seed = 3, .hosts = 2});
  ManyCommunicators many(world, {0, 1});
  ASSERT_TRUE(many.Form(kMany));
  const size_t streams = world.network().open_streams();
  for (size_t i = 0; i < kMany; i += 3) ASSERT_TRUE(many.CutLane(many.jobs()[i], i % 2));
  EXPECT_LT(world.network().open_streams(), streams);
  world.RunFor(kLongNs);
  EXPECT_EQ(world.network().open_streams(), streams);
  for (SimJob& job : many.jobs()) many.ExpectWorks(job);
}

TEST(SimIdleCommunicators, FailAtOnceWhenADaemonDies) {
  SimWorld world({.seed = 4, .hosts = 3});
  ManyCommunicators many(world, {0, 1, 2});
  ASSERT_TRUE(many.Form(kMany));
  world.Kill(2);
  EXPECT_TRUE(world.RunUntil(
      [&] {
        return std::ranges::all_of(
            many.jobs(), [](SimJob& job) { return job.rank(0).failed() && job.rank(1).failed(); });
      },
      kNsPerSec));
  EXPECT_THAT(many.jobs().back().rank(1).failure(), HasSubstr("connection to host h2 lost"));
}

TEST(SimIdleCommunicators, ReportRanksThatDiedWhileIdle) {
  SimWorld world({.seed = 5, .hosts = 2});
  ManyCommunicators many(world, {0, 0, 1});
  ASSERT_TRUE(many.Form(kMany));
  many.parent().tenant(1).Kill();
  world.RunFor(kLongNs);
  for (SimJob& job : many.jobs()) {
    const std::atomic<uint32_t>& accepts_calls = job.rank(2).region().failure.accepts_calls;
    for (int r : {0, 2}) EXPECT_THAT(job.rank(r).failure(), HasSubstr("rank 1 left"));
    EXPECT_EQ(accepts_calls, 1u) << "calls that do not need rank 1 succeed";
    job.Post(2, OpKind::kAllReduce, kCount);
    EXPECT_TRUE(world.RunUntil([&] { return accepts_calls == 0; }, kNsPerSec));
    EXPECT_EQ(job.rank(2).done(), 0u) << "the call must not complete";
  }
}

TEST(SimIdleCommunicators, EachReportsItsMissingRanks) {
  SimWorld world({.seed = 6, .hosts = 2});
  ManyCommunicators many(world, {0, 1});
  ASSERT_TRUE(many.Form(kMany));
  std::mt19937_64 random(6);
  for (SimJob& job : many.jobs()) {
    job.Post(0, OpKind::kAllReduce, kCount);
    world.RunFor(static_cast<int64_t>(random() % 300) * kNsPerMs);
  }
  world.RunFor(11 * kNsPerSec);
  const auto& lines = world.host(1).log().lines;
  for (SimJob& job : many.jobs()) {
    const std::string name = FormatCommId(job.rank(0).id);
    EXPECT_EQ(std::ranges::count_if(lines,
                                    [&](const std::string& line) {
                                      return line.find(name) != std::string::npos &&
                                             line.find("waits for rank 1 on h1") !=
                                                 std::string::npos;
                                    }),
              1)
        << name;
    job.Post(1, OpKind::kAllReduce, kCount);
  }
  for (SimJob& job : many.jobs()) ASSERT_TRUE(job.Complete());
}

TEST(SimIdleCommunicators, CloseWhenTheirRanksHaveLeft) {
  SimWorld world({.seed = 7, .hosts = 3});
  ManyCommunicators many(world, {0, 1, 2});
  ASSERT_TRUE(many.Form(kMany));
  std::mt19937_64 random(7);
  for (SimJob& job : many.jobs()) {
    for (int r = 0; r < 3; ++r) {
      if (random() % 2 == 0) world.RunFor(static_cast<int64_t>(random() % 100) * kNsPerMs);
      job.Destroy(r);
    }
  }
  for (SimJob& job : many.jobs()) ASSERT_TRUE(world.RunUntil([&] { return job.Ended(); }));
  EXPECT_TRUE(world.RunUntil([&] { return world.communicators() == 3; }, kNsPerSec));
  many.ExpectWorks(many.parent());
}

// After a rank has left and while no call is posted, a broken lane between two others is not a
// failure; it stays broken.
TEST(SimIdleCommunicators, NeedNoTurnForAnUnneededBrokenLane) {
  auto [world, job] = JobWorld({.seed = 1, .hosts = 4}, {0, 1, 2, 3}, 4096);
  job.Destroy(3);
  ASSERT_TRUE(job.RunUntilEnded(3));
  world.RunFor(kNsPerMs);
  world.network().Partition(world.host(1).address(), world.host(2).address());
  ASSERT_GT(world.network().Cut(world.host(1).address(), world.host(2).address()), 0);
  world.RunFor(kLaneReconnectTimeoutNs + kNsPerUs);
  for (int h = 0; h < 4; ++h) {
    EXPECT_FALSE(job.rank(h).failed()) << job.rank(h).failure();
    EXPECT_GT(world.host(h).NextDeadline(), world.clock().Now()) << "h" << h;
  }
  job.Post(1, OpKind::kAllReduce, 1);
  EXPECT_TRUE(job.RunUntilFailed({1}, kNsPerSec));
}

// The proposal arrives over no stream of the communicator.
TEST(SimIdleCommunicators, AcceptAProposalAtOnce) {
  SimWorld world({.seed = 8});
  ManyCommunicators many(world, {0, 1});
  ASSERT_TRUE(many.Form(kMany));
  SimController& controller = world.host(0).controller();
  controller.awaits_proposal = true;
  SimJob job(world, {0, 1}, kBytes);
  ASSERT_TRUE(job.Begin());
  world.RunFor(50 * kNsPerMs);
  ASSERT_FALSE(job.Formed());
  Strategy strategy;
  strategy.lanes = {.slots = 4, .slot_bytes = 16u << 10};
  strategy.origin = "the test";
  strategy.channels.push_back({.ring = {HostIndex(1), HostIndex(0)}, .source_ports = {}});
  controller.proposals.push_back({controller.announced.back(), strategy});
  world.host(0).daemon().Poll(/*woken=*/true);  // as the agent wakes the daemon
  EXPECT_TRUE(world.RunUntil([&] { return job.Formed(); }, 20 * kNsPerMs));
  EXPECT_TRUE(world.host(0).log().Contains("strategy the test"));
}

// A tenant must not determine the length of a turn, by ending or by many calls at once.
void ExpectFewEndPerTurn(Daemon& daemon) {
  constexpr size_t kMaxPerTurn = 4;
  constexpr int kTurns = 1000;
  size_t left = daemon.communicators();
  for (int turn = 0; left > 0; ++turn) {
    ASSERT_LT(turn, kTurns) << left << " communicators are left";
    daemon.Poll();
    EXPECT_LE(left - daemon.communicators(), kMaxPerTurn) << "turn " << turn;
    left = daemon.communicators();
  }
}

TEST(SimIdleCommunicators, EndOverManyTurnsWhenTheirProcessDies) {
  SimWorld world({.seed = 1, .hosts = 1});
  ManyCommunicators many(world, {0});
  ASSERT_TRUE(many.Form(kMany));
  many.parent().tenant(0).Kill();
  ExpectFewEndPerTurn(world.host(0).daemon());
}

TEST(SimIdleCommunicators, EndOverManyTurnsWhenDestroyedTogether) {
  SimWorld world({.seed = 1, .hosts = 1});
  ManyCommunicators many(world, {0});
  ASSERT_TRUE(many.Form(kMany));
  SimTenant& tenant = many.parent().tenant(0);
  for (SimJob& job : many.jobs()) tenant.Destroy(job.rank(0));
  tenant.Destroy(many.parent().rank(0));
  ExpectFewEndPerTurn(world.host(0).daemon());
}

}  // namespace idle_communicators_test
}  // namespace mccs
