#include "service/probe/probe_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace probe_run_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ProbeTask Task(uint16_t port, int switches = 3) {
  return {.flow = {.source_address = 0x0a000001,
                   .destination_address = 0x0a000101,
                   .protocol = kProtocolTcp,
                   .source_port = port,
                   .destination_port = 7400},
          .switches = switches};
}

// The switch at which a packet of that flow expires.
uint32_t SwitchAt(const FiveTuple& flow, int ttl) {
  return 0x0aff0000u + flow.source_port % 2u * 100u + static_cast<uint32_t>(ttl);
}

// Time advances from deadline to deadline. An answer that `network` returns arrives at once.
class ProbeRunTest : public testing::Test {
 protected:
  using Network = std::function<std::optional<ProbeAnswer>(const ProbePacket&)>;

  std::vector<ProbeOutcome> Run(const std::vector<ProbeTask>& tasks, const Network& network) {
    SeededRandom random(1);
    ProbeRun run(tasks, &random);
    MonotonicNs last = -1;
    while (!run.IsDone(now_)) {
      if (const auto packet = run.Next(now_)) {
        if (last >= 0) {
          EXPECT_GE(now_ - last, ProbeRun::kGapNs);
        }
        last = now_;
        ++sent_[packet->flow.source_port][packet->ttl];
        if (const auto answer = network(*packet)) run.OnAnswer(*answer);
      } else {
        const MonotonicNs next = run.Deadline(now_);
        EXPECT_GT(next, now_) << "it would loop without progress";
        now_ = next;
      }
    }
    EXPECT_LT(now_, 2 * kNsPerSec + 64 * 16 * 4 * ProbeRun::kGapNs);
    return run.Outcomes();
  }

  static std::optional<ProbeAnswer> Honest(const ProbePacket& packet) {
    return ProbeAnswer{
        .from = SwitchAt(packet.flow, packet.ttl), .flow = packet.flow, .token = packet.token};
  }

  MonotonicNs now_ = 0;
  std::map<uint16_t, std::map<int, int>> sent_;  // by port and switch
};

TEST_F(ProbeRunTest, EachSwitchIsAskedOnceAndNoPacketReachesThePeer) {
  const auto outcomes = Run({Task(61000), Task(61001, 5)}, Honest);
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_THAT(outcomes[0].hops, ElementsAre(0x0aff0001, 0x0aff0002, 0x0aff0003));
  EXPECT_EQ(outcomes[1].hops.size(), 5u);
  EXPECT_EQ(outcomes[1].hops[4], 0x0aff0000u + 105);
  EXPECT_EQ(sent_[61000], (std::map<int, int>{{1, 1}, {2, 1}, {3, 1}}));
  EXPECT_EQ(sent_[61001].size(), 5u);
  EXPECT_LT(now_, 100 * kNsPerMs);
}

TEST_F(ProbeRunTest, RetriesWithoutAnAnswer) {
  std::map<int, int> asked;
  const auto outcomes = Run({Task(61000)}, [&](const ProbePacket& packet) {
    // Like a switch that limits its answers per second.
    return ++asked[packet.ttl] < packet.ttl + 1 ? std::nullopt : Honest(packet);
  });
  EXPECT_THAT(outcomes[0].hops, ElementsAre(0x0aff0001, 0x0aff0002, 0x0aff0003));
}

TEST_F(ProbeRunTest, SkipsASilentSwitchAfterAllAttempts) {
  const auto outcomes = Run({Task(61000)}, [](const ProbePacket& packet) {
    return packet.ttl == 2 ? std::nullopt : Honest(packet);
  });
  EXPECT_THAT(outcomes[0].hops, ElementsAre(0x0aff0001, 0, 0x0aff0003));
  EXPECT_EQ(outcomes[0].why_not, "");
  EXPECT_EQ(sent_[61000], (std::map<int, int>{{1, 1}, {2, ProbeRun::kAttempts}, {3, 1}}));
}

TEST_F(ProbeRunTest, ReportsTheReasonWithoutAnyAnswer) {
  const auto outcomes = Run({Task(61000)}, [](const ProbePacket&) { return std::nullopt; });
  EXPECT_THAT(outcomes[0].hops, IsEmpty());
  EXPECT_THAT(outcomes[0].why_not, HasSubstr("no switch on the path to 10.0.1.1"));
}

TEST_F(ProbeRunTest, IgnoresForeignAnswers) {
  std::mt19937 random(3);
  const auto outcomes = Run({Task(61000), Task(61001)}, [&](const ProbePacket& packet) {
    ProbeAnswer answer = *Honest(packet);
    switch (random() % 4) {
      case 0:
        answer.token = static_cast<uint32_t>(random());
        break;
      case 1:
        answer.flow.source_port ^= 1;  // another flow's answer
        break;
      case 2:
        answer.flow.protocol = kProtocolUdp;
        break;
      default:
        answer.from = 0;
    }
    return std::optional(answer);
  });
  EXPECT_THAT(outcomes[0].hops, IsEmpty());
  EXPECT_THAT(outcomes[1].hops, IsEmpty());
}

TEST_F(ProbeRunTest, TheFirstAnswerCounts) {
  SeededRandom random(1);
  ProbeRun run({Task(61000, 1)}, &random);
  const auto packet = run.Next(0);
  ASSERT_TRUE(packet.has_value());
  run.OnAnswer({.from = 7, .flow = packet->flow, .token = packet->token});
  run.OnAnswer({.from = 8, .flow = packet->flow, .token = packet->token});
  EXPECT_TRUE(run.IsDone(0));
  EXPECT_THAT(run.Outcomes()[0].hops, ElementsAre(7));
}

TEST_F(ProbeRunTest, AFailedFlowDoesNotAffectOthers) {
  SeededRandom random(1);
  ProbeRun run({Task(61000), Task(61001)}, &random);
  run.FailFlow(Task(61000).flow, "no such address");
  while (!run.IsDone(now_)) {
    if (const auto packet = run.Next(now_)) {
      EXPECT_EQ(packet->flow.source_port, 61001);
      run.OnAnswer(*Honest(*packet));
    } else {
      now_ = run.Deadline(now_);
    }
  }
  EXPECT_EQ(run.Outcomes()[0].why_not, "no such address");
  EXPECT_EQ(run.Outcomes()[1].hops.size(), 3u);
}

TEST_F(ProbeRunTest, ManyFlowsAreProbedInBoundedTime) {
  std::vector<ProbeTask> tasks;
  for (uint16_t i = 0; i < kMaxProbeTasks; ++i)
    tasks.push_back(Task(static_cast<uint16_t>(61000 + i), kMaxSwitches));
  std::mt19937 random(5);
  Run(tasks,
      [&](const ProbePacket& packet) { return random() % 3 == 0 ? Honest(packet) : std::nullopt; });
}

}  // namespace probe_run_test
}  // namespace mccs
