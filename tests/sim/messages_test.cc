// Sends and receives through production daemons, over a simulated clock and network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/sim/scenario.h"

namespace mccs {
namespace messages_test {

using testing::HasSubstr;

constexpr uint64_t kSeeds = 60;
constexpr size_t kBytes = 1 << 20;
constexpr uint64_t kElements = kBytes / sizeof(float);

// One message of a group and its position in both buffers.
struct Planned {
  int from = 0, to = 0;
  uint64_t count = 0, from_at = 0, to_at = 0;
};

// Random messages that do not overlap in the receivers' buffers.
std::vector<Planned> PlanGroup(std::mt19937_64& random, int ranks) {
  std::vector<Planned> messages;
  std::vector<uint64_t> filled(static_cast<size_t>(ranks), 0);
  for (uint64_t n = random() % 12; n > 0; --n) {
    Planned message{.from = static_cast<int>(random() % static_cast<uint64_t>(ranks)),
                    .to = static_cast<int>(random() % static_cast<uint64_t>(ranks))};
    message.count = random() % 4 == 0 ? 0 : random() % (random() % 2 == 0 ? 100 : 20'000);
    message.from_at = random() % (kElements - message.count);
    uint64_t& at = filled[static_cast<size_t>(message.to)];
    message.to_at = at;
    at += message.count;
    messages.push_back(message);
  }
  return messages;
}

// Posts the group on every rank: sends and receives of a rank in random order, those of one pair in
// the order of `messages`.
void PostGroup(SimJob& job, const std::vector<Planned>& messages, std::mt19937_64& random) {
  for (int r = 0; r < job.ranks(); ++r) {
    std::vector<SimJob::Message> sends, receives;
    for (const Planned& m : messages) {
      if (m.from == r) sends.push_back({true, m.to, m.from_at, m.count, true});
      if (m.to == r) receives.push_back({false, m.from, m.to_at, m.count, true});
    }
    size_t s = 0, t = 0;
    while (s < sends.size() || t < receives.size()) {
      const bool send = t == receives.size() || (s < sends.size() && random() % 2 == 0);
      SimJob::Message next = send ? sends[s++] : receives[t++];
      next.more = s < sends.size() || t < receives.size();
      job.Post(r, next);
    }
  }
}

uint64_t WrongElements(const SimJob& job, const std::vector<Planned>& messages) {
  uint64_t wrong = 0;
  for (const Planned& m : messages) {
    for (uint64_t i = 0; i < m.count; ++i) {
      wrong += job.output(m.to, m.to_at + i) != SimJob::InputValue(m.from, m.from_at + i);
    }
  }
  return wrong;
}

TEST(SimMessages, RandomGroupsArriveCompletely) {
  const std::vector<std::vector<int>> layouts = {
      {0}, {0, 0}, {0, 1}, {0, 0, 1, 1}, {0, 1, 0, 1}, {0, 1, 2}, {0, 0, 0, 1, 2, 2}};
  for (auto [seed, random] : Seeds(kSeeds)) {
    const LaneShape lanes{.slots = 2 + static_cast<uint32_t>(random() % 4),
                          .slot_bytes = 16u << 10};
    auto [world, job] = JobWorld({.seed = seed, .hosts = 3, .lanes = lanes},
                                 layouts[random() % layouts.size()], kBytes);
    job.Fill(kElements);
    for (int group = 0; group < 5; ++group) {
      const std::vector<Planned> messages = PlanGroup(random, job.ranks());
      PostGroup(job, messages, random);
      ASSERT_TRUE(job.Complete());
      ASSERT_EQ(WrongElements(job, messages), 0u);
    }
  }
}

TEST(SimMessages, CollectivesAndMessagesOfOneGroupCompleteInAnyOrder) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    auto [world, job] = JobWorld({.seed = seed}, {0, 1}, kBytes);
    job.Fill(kElements);
    const uint64_t count = 30'000;
    // Rank 0: {send, all-reduce}; rank 1: {all-reduce, receive}. Then with the ranks exchanged.
    for (int sender : {0, 1}) {
      job.Post(sender, {.sends = true, .peer = 1 - sender, .at = 50, .count = count, .more = true});
      job.PostAll(OpKind::kAllReduce, 1000);
      job.Post(1 - sender, {.sends = false, .peer = sender, .at = 100'000, .count = count});
    }
    ASSERT_TRUE(job.Complete());
    for (int receiver : {0, 1}) {
      EXPECT_EQ(WrongElements(job, {{1 - receiver, receiver, count, 50, 100'000}}), 0u);
    }
  }
}

TEST(SimMessages, LateReceiveDelaysNoOtherPair) {
  auto [world, job] =
      JobWorld({.seed = 3, .lanes = {.slots = 2, .slot_bytes = 16u << 10}}, {0, 0, 1, 1}, kBytes);
  job.Fill(kElements);
  job.Post(
      0, {.sends = true, .peer = 2, .at = 0, .count = 200'000});  // far more than the lane's credit
  world.RunFor(kNsPerMs);
  job.Post(1, {.sends = true, .peer = 3, .at = 0, .count = 200'000});
  job.Post(3, {.sends = false, .peer = 1, .at = 0, .count = 200'000});
  ASSERT_TRUE(world.RunUntil([&] { return job.rank(3).done() == 1 && job.rank(1).done() == 1; }));
  EXPECT_EQ(job.rank(0).done(), 0u);
  job.Post(2, {.sends = false, .peer = 0, .at = 0, .count = 200'000});
  ASSERT_TRUE(job.Complete());
  EXPECT_EQ(WrongElements(job, {{0, 2, 200'000, 0, 0}, {1, 3, 200'000, 0, 0}}), 0u);
}

TEST(SimMessages, ReopenBrokenLanesWithoutLoss) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    auto [world, job] = JobWorld({.seed = seed}, {0, 1}, kBytes);
    job.Fill(kElements);
    const std::vector<Planned> both = {{0, 1, 200'000, 0, 0}, {1, 0, 200'000, 7, 0}};
    PostGroup(job, both, random);
    world.RunFor(RandomUs(random, 2000));
    for (const auto& lane : world.host(0).controller().reports.begin()->second.lanes()) {
      world.CutLane(lane.local());
    }
    ASSERT_TRUE(job.Complete());
    EXPECT_EQ(WrongElements(job, both), 0u);
  }
}

TEST(SimMessages, ReportMismatchedEndsOnBothRanks) {
  for (const std::vector<int>& layout : {std::vector<int>{0, 0}, {0, 1}}) {
    auto [world, job] = JobWorld({.seed = 5}, layout, kBytes);
    job.Post(0, {.sends = true, .peer = 1, .at = 0, .count = 1000});
    job.Post(1, {.sends = false, .peer = 0, .at = 0, .count = 999});
    ASSERT_TRUE(job.RunUntilFailed({0, 1}));
    for (int r = 0; r < 2; ++r) {
      EXPECT_THAT(job.rank(r).failure(), HasSubstr("send #1 of rank 0 to rank 1 count 1000"));
      EXPECT_THAT(job.rank(r).failure(), HasSubstr("recv #1 of rank 1 from rank 0 count 999"));
    }
  }
}

TEST(SimMessages, MessagesOfADepartedRankArrive) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    auto [world, job] = JobWorld({.seed = seed}, {0, 1}, kBytes);
    job.Fill(kElements);
    job.Post(1, {.sends = false, .peer = 0, .at = 0, .count = 100});
    job.Post(0, {.sends = true, .peer = 1, .at = 0, .count = 100});
    job.Destroy(0);
    ASSERT_TRUE(world.RunUntil([&] { return job.rank(0).ended && job.rank(1).done() == 1; }));
    EXPECT_FALSE(job.rank(1).failed());
    EXPECT_EQ(WrongElements(job, {{0, 1, 100, 0, 0}}), 0u);
  }
}

TEST(SimMessages, MessageForADepartedRankFailsWithItsRank) {
  for (const std::vector<int>& layout : {std::vector<int>{0, 0}, {0, 1}}) {
    for (bool sends : {true, false}) {
      auto [world, job] = JobWorld({.seed = 8}, layout, kBytes);
      job.Destroy(0);
      ASSERT_TRUE(job.RunUntilEnded(0));
      job.Post(1, {.sends = sends, .peer = 0, .at = 0, .count = 100'000});
      ASSERT_TRUE(job.RunUntilFailed({1}, 40 * kNsPerSec));
      EXPECT_THAT(job.rank(1).failure(), HasSubstr(sends ? "send #1 of rank 1 to rank 0"
                                                         : "recv #1 of rank 1 from rank 0"));
      EXPECT_THAT(job.rank(1).failure(), HasSubstr("cannot complete: rank 0"));
    }
  }
}

TEST(SimMessages, AbortFailsThePeerAfterTheTimeout) {
  auto [world, job] = JobWorld({.seed = 9}, {0, 1}, kBytes);
  job.Fill(kElements);
  job.Post(0, {.sends = true, .peer = 1, .at = 0, .count = 200'000});
  job.Post(1, {.sends = false, .peer = 0, .at = 0, .count = 200'000});
  world.RunFor(200 * kNsPerUs);
  job.Abort(0);
  ASSERT_TRUE(job.RunUntilEnded(0, kNsPerSec));
  world.RunFor(28 * kNsPerSec);
  EXPECT_FALSE(job.rank(1).failed()) << "its own watchdog must fire first, as with NCCL";
  ASSERT_TRUE(job.RunUntilFailed({1}, 3 * kNsPerSec));
  EXPECT_THAT(job.rank(1).failure(), HasSubstr("rank 0 was aborted"));
}

}  // namespace messages_test
}  // namespace mccs
