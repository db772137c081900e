// Failures that the agreement on the first operation of a new strategy must avoid; each test is
// named after one. The published prototype had all of them:
// - An operation that arrives during the agreement and is needed to reach the agreed count is
// queued
//   forever.
// - An operation that arrives between "reached" and "ready" is dropped.
// - Only one kind of collective is counted.
// - Waiting operations are not separated by communicator.
// Production daemons over a simulated clock and network.
//
// A partition of the leader from one host stops the agreement at a known point, so that operations
// certainly arrive at that point. For random times see strategy_change_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/sim/scenario.h"

namespace mccs {
namespace change_agreement_test {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kHeld[] = "holding operations";
constexpr char kWaitsForBoundary[] = "starts after operation";
constexpr char kInForce[] = "active";
constexpr int64_t kLongNs = 20 * kNsPerMs;  // hundreds of round trips

// Until Resume, the leader and host 2 are partitioned and all hosts are in the hold step.
class HeldAgreement {
 public:
  HeldAgreement(SimWorld& world, std::vector<ProposedChanges*> changes)
      : world_(world), changes_(std::move(changes)) {
    held_ = world.RunUntil([&] { return AllHeld(2); });
    world.network().Partition(world.host(0).address(), world.host(2).address());
    held_ &= world.RunUntil([&] { return AllHeld(0) && AllHeld(1); });
  }
  ~HeldAgreement() { Resume(); }
  void Resume() { world_.network().Heal(world_.host(0).address(), world_.host(2).address()); }
  bool held() { return held_ && AllHeld(0) && AllHeld(1) && AllHeld(2); }

 private:
  bool AllHeld(int host) {
    return std::ranges::all_of(changes_, [&](auto* each) { return each->IsInState(host, kHeld); });
  }

  SimWorld& world_;
  const std::vector<ProposedChanges*> changes_;
  bool held_ = false;
};

// Hosts 0 and 1 have started operation 1. Host 2 reports in the agreement that it has not; its rank
// calls it afterwards. All hosts must complete it before any of them changes.
TEST(ChangeAgreement, RunsCallsThatTheBoundaryNeeds) {
  auto [world, job, changes] = RunningJob(1);
  job.Fill(10'000);
  for (const int r : {0, 1}) job.Post(r, OpKind::kAllReduce, 10'000);
  changes.Propose(changes.Reversed(2));
  HeldAgreement held_agreement(world, {&changes});
  ASSERT_TRUE(held_agreement.held());
  job.Post(2, OpKind::kAllReduce, 10'000);
  world.RunFor(kLongNs);
  EXPECT_TRUE(held_agreement.held()) << "the boundary must not be agreed on yet";
  EXPECT_FALSE(job.Done());
  held_agreement.Resume();
  ASSERT_TRUE(world.RunUntil([&] { return job.Done() && changes.AllAt(2); }))
      << changes.ChangeStateOf(2) << job.rank(2).failure();
  EXPECT_THAT(changes.FirstOperationsOf(2), ElementsAre("#2"))
      << "operation 1 runs under the old strategy";
  EXPECT_EQ(job.Wrong(OpKind::kAllReduce, 10'000), 0u);
}

// The boundary is agreed on, and not every host has reached it. A call that arrives on a host that
// has reached it or waits for it is the first one after the boundary.
TEST(ChangeAgreement, DoesNotDropCallsBetweenReachedAndReady) {
  struct Moment {
    OpKind last;        // before the boundary
    const char* stage;  // of host 0, when the call arrives
  };
  // With a broadcast host 0 completes its part before host 2 has called it; not with an all-reduce.
  for (const Moment& moment :
       {Moment{OpKind::kBroadcast, kInForce}, Moment{OpKind::kAllReduce, kWaitsForBoundary}}) {
    SCOPED_TRACE(moment.stage);
    auto [world, job, changes] = RunningJob(1);
    job.Fill(1000);
    for (const int r : {0, 1}) job.Post(r, moment.last, 1000);
    changes.Propose(changes.Reversed(2));
    ASSERT_TRUE(world.RunUntil([&] {
      return changes.IsInState(0, moment.stage) && changes.IsInState(2, kWaitsForBoundary);
    })) << changes.ChangeStateOf(0);
    for (const int r : {0, 1}) job.Post(r, OpKind::kAllGather, 1000);
    world.RunFor(kLongNs);
    EXPECT_TRUE(changes.IsInState(0, moment.stage));
    EXPECT_TRUE(changes.IsInState(2, kWaitsForBoundary));
    job.Post(2, moment.last, 1000);
    job.Post(2, OpKind::kAllGather, 1000);
    ASSERT_TRUE(world.RunUntil([&] { return job.Done() && changes.AllAt(2); }))
        << changes.ChangeStateOf(0) << job.rank(0).failure();
    EXPECT_THAT(changes.FirstOperationsOf(2), ElementsAre("#2"));
    EXPECT_EQ(job.Wrong(OpKind::kAllGather, 1000), 0u);
  }
}

// In each case hosts 0 and 1 have started the operation and host 2 has not.
TEST(ChangeAgreement, CountsEveryKindOfCollective) {
  auto [world, job, changes] = RunningJob(1);
  uint64_t epoch = 1;
  for (const OpKind kind :
       {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter, OpKind::kBroadcast,
        OpKind::kReduce, OpKind::kAllToAll, OpKind::kGather, OpKind::kScatter}) {
    SCOPED_TRACE(Name(kind));
    const uint64_t number = epoch++;  // operation number
    job.Fill(30'000);
    for (const int r : {0, 1}) job.Post(r, kind, 5000);
    changes.Propose(epoch % 2 == 0 ? changes.Reversed(epoch) : changes.InOrder(epoch));
    HeldAgreement held_agreement(world, {&changes});
    ASSERT_TRUE(held_agreement.held());
    job.Post(2, kind, 5000);
    world.RunFor(kLongNs);
    EXPECT_TRUE(held_agreement.held());
    EXPECT_EQ(job.rank(2).done(), number - 1);
    held_agreement.Resume();
    ASSERT_TRUE(world.RunUntil([&] { return job.Done() && changes.AllAt(epoch); }))
        << changes.ChangeStateOf(2) << job.rank(2).failure();
    EXPECT_THAT(changes.FirstOperationsOf(epoch), ElementsAre(absl::StrCat("#", number + 1)));
    EXPECT_EQ(job.Wrong(kind, 5000), 0u);
  }
}

// Lanes of messages belong to no epoch, so hosts need not agree on a count per pair: messages of an
// active pair neither delay a change nor are delayed by it.
TEST(ChangeAgreement, DoesNotDelayMessagesAndIsNotDelayedByThem) {
  auto [world, job, changes] = RunningJob(1);
  job.Fill(30'000);
  const auto send = [&](int from, int to, uint64_t at) {
    job.Post(from, SimJob::Message{.sends = true, .peer = to, .at = at, .count = 10'000});
  };
  const auto receive = [&](int from, int to, uint64_t at) {
    job.Post(to, SimJob::Message{.sends = false, .peer = from, .at = at, .count = 10'000});
  };
  send(0, 1, 0);  // no receive is posted
  send(0, 1, 10'000);
  changes.Propose(changes.Reversed(2));
  {
    HeldAgreement held_agreement(world, {&changes});
    ASSERT_TRUE(held_agreement.held());
    send(2, 1, 20'000);
    receive(0, 1, 0);
    receive(0, 1, 10'000);
    receive(2, 1, 20'000);
    ASSERT_TRUE(job.Complete()) << "the change must not delay messages";
    EXPECT_TRUE(held_agreement.held());
    send(0, 1, 0);
  }
  ASSERT_TRUE(world.RunUntil([&] { return changes.AllAt(2); }))
      << "a message must not delay the change";
  EXPECT_FALSE(job.Done());
  receive(0, 1, 0);
  ASSERT_TRUE(job.Complete());
  EXPECT_THAT(changes.FirstOperationsOf(2), ElementsAre("#1")) << "no collective was called";
  for (uint64_t i = 0; i < 30'000; ++i) {
    ASSERT_EQ(job.output(1, i), SimJob::InputValue(i < 20'000 ? 0 : 2, i)) << i;
  }
}

TEST(ChangeAgreement, MessagesOfAllPairsCompleteDuringChanges) {
  for (auto [seed, random] : Seeds(50)) {
    auto [world, job, changes] = RunningJob(seed);
    job.Fill(100'000);
    uint64_t epoch = 1;
    for (int round = 0; round < 6; ++round) {
      changes.Propose(changes.Random(++epoch, random));
      for (int r = 0; r < 3; ++r) {
        job.Post(r, {.sends = true, .peer = (r + 1) % 3, .at = 0, .count = 50'000, .more = true});
        job.Post(r, {.sends = false, .peer = (r + 2) % 3, .at = 0, .count = 50'000, .more = false});
        job.Post(r, OpKind::kAllReduce, 10);
        if (random() % 2 == 0) world.RunFor(RandomUs(random, 800));
      }
    }
    ASSERT_TRUE(world.RunUntil([&] { return job.Done() && changes.AllAt(epoch); }))
        << job.rank(0).failure() << changes.change_error();
    for (int r = 0; r < 3; ++r) {
      for (uint64_t i = 10; i < 50'000; i += 997) {
        ASSERT_EQ(job.output(r, i), SimJob::InputValue((r + 2) % 3, i));
      }
    }
  }
}

// Two communicators over the same hosts are in an agreement at the same time, each with waiting
// calls. A third one without a change waits for neither.
TEST(ChangeAgreement, SeparatesWaitingCallsByCommunicator) {
  // Nearly equal delays, so that both are in the hold step together.
  SimWorld world({.seed = 1,
                  .hosts = 3,
                  .network = {.min_delay_ns = 100 * kNsPerUs, .max_delay_ns = 101 * kNsPerUs}});
  const std::vector<int> layout = {0, 1, 2};
  SimJob one(world, layout, 1 << 20), two(world, layout, 1 << 20), third(world, {1, 2}, 1 << 20);
  for (SimJob* job : {&one, &two, &third}) {
    ASSERT_TRUE(job->Form());
    job->Fill(30'000);
  }
  ProposedChanges of_one(world, 3, one.rank(0).id), of_two(world, 3, two.rank(0).id);
  two.PostAll(OpKind::kBroadcast, 100);  // so that operation numbers differ
  ASSERT_TRUE(two.Complete());
  for (const int r : {0, 1}) {
    one.Post(r, OpKind::kAllReduce, 5000);
    two.Post(r, OpKind::kAllToAll, 3000);
  }
  of_one.Propose(of_one.Reversed(2));
  of_two.Propose(of_two.Reversed(2));
  HeldAgreement held_agreement(world, {&of_one, &of_two});
  ASSERT_TRUE(held_agreement.held());
  // Host 2's calls of both communicators, then further calls of all ranks.
  two.Post(2, OpKind::kAllToAll, 3000);
  one.Post(2, OpKind::kAllReduce, 5000);
  one.PostAll(OpKind::kAllGather, 5000);
  two.PostAll(OpKind::kReduceScatter, 2000);
  two.PostAll(OpKind::kAllToAll, 3000);
  third.PostAll(OpKind::kAllReduce, 20'000);
  ASSERT_TRUE(third.Complete()) << "it must not wait for another communicator's agreement";
  EXPECT_EQ(third.Wrong(OpKind::kAllReduce, 20'000), 0u);
  EXPECT_TRUE(held_agreement.held());
  held_agreement.Resume();
  ASSERT_TRUE(world.RunUntil([&] {
    return one.Done() && two.Done() && of_one.AllAt(2) && of_two.AllAt(2);
  })) << of_one.ChangeStateOf(2)
      << "; " << of_two.ChangeStateOf(2);
  EXPECT_THAT(of_one.FirstOperationsOf(2), ElementsAre("#2"));
  EXPECT_THAT(of_two.FirstOperationsOf(2), ElementsAre("#3"));
  EXPECT_EQ(one.Wrong(OpKind::kAllGather, 5000), 0u);
  EXPECT_EQ(two.Wrong(OpKind::kAllToAll, 3000), 0u);
  world.RunFor(kNsPerSec);  // for the reports
  for (int h = 0; h < 3; ++h) {
    const auto& reports = world.host(h).controller().reports;
    EXPECT_EQ(reports.at(of_one.id()).operations(), 2u);
    EXPECT_EQ(reports.at(of_two.id()).operations(), 4u);
    EXPECT_THAT(reports.at(of_one.id()).change_error(), IsEmpty());
  }
}

}  // namespace change_agreement_test
}  // namespace mccs
