// The checker must be able to fail: plans are broken in every way that it must detect.
#include "tests/unit/algorithms/plan_check.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/algorithms/plan_cases.h"

namespace mccs {
namespace plan_check_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Four hosts or fewer, one channel, a few rounds.
struct Bench {
  explicit Bench(std::vector<int> ranks, PlanKey key = {.kind = OpKind::kAllReduce})
      : layout(BlockLayout(ranks)),
        plans(BuildAll(key, layout, VariedOrders(layout.host_count(), 1))) {
    options.count = plans[0].count_spans_blocks ? 48 * ranks.size() : 48;
    options.slot_bytes = 64 * static_cast<uint32_t>(plans[0].max_pieces);
  }

  std::vector<Step>& steps(int host) { return plans[host].programs[0].steps; }
  Step& step(int host, size_t position) { return steps(host)[position]; }
  std::string Verdict() const { return std::string(CheckPlans(plans, layout, options).message()); }
  absl::Status Check() const { return CheckPlans(plans, layout, options); }

  Layout layout;
  std::vector<Plan> plans;
  CheckOptions options;
};

// Three hosts with two ranks each; program of each: combine 0, send 1, receive 2, combine 3, send
// 4, receive 5, combine 6 (whole), send 7, receive 8, send 9, combine 10, receive 11, combine 12.
constexpr size_t kFirstCombine = 0, kSecondCombine = 3, kWhole = 6, kSendWhole = 7, kLanding = 8,
                 kForward = 9;

TEST(PlanCheck, GoodPlansPass) {
  for (bool in_place : {false, true}) {
    Bench bench({2, 2, 2});
    bench.options.in_place = in_place;
    EXPECT_EQ(bench.Verdict(), "");
  }
}

TEST(PlanCheck, ADroppedContributionIsNamed) {
  Bench bench({2, 2, 2});
  bench.step(1, kSecondCombine).combines[0].sources.pop_back();
  EXPECT_THAT(bench.Verdict(),
              AllOf(HasSubstr("lacks rank 3's input"), HasSubstr("host "), HasSubstr("channel 0"),
                    HasSubstr("round 0"), HasSubstr("step ")));
}

TEST(PlanCheck, AContributionTwiceIsNamed) {
  Bench bench({2, 2, 2});
  auto& sources = bench.step(1, kSecondCombine).combines[0].sources;
  sources.push_back(sources.back());
  EXPECT_THAT(bench.Verdict(), HasSubstr("has rank 3's input (block 0, slice 0) twice"));
}

TEST(PlanCheck, AWrongBlockIsNamed) {
  Bench bench({2, 2, 2});
  for (Place& place : bench.step(1, kFirstCombine).combines[0].sources) place.block = 2;
  EXPECT_THAT(bench.Verdict(), AllOf(HasSubstr("rank 2's input (block 1"), HasSubstr("step ")));
}

TEST(PlanCheck, SendsInAnotherOrderAreNoticed) {
  Bench bench({2, 2, 2});
  std::swap(bench.step(0, kSendWhole).pieces, bench.step(0, kForward).pieces);
  EXPECT_THAT(bench.Verdict(),
              AllOf(HasSubstr("host 0, channel 0, round 0, step 7 (send)"), HasSubstr("race")));
}

TEST(PlanCheck, SendsInAnotherOrderWithoutARaceAreNoticed) {
  Bench bench({2, 2}, {.kind = OpKind::kAllGather});
  std::swap(bench.step(1, 0).pieces[0], bench.step(1, 0).pieces[1]);
  EXPECT_THAT(bench.Verdict(), HasSubstr("block 2 of the output of rank 0 has rank 3's input"));
}

TEST(PlanCheck, AMissingDependencyIsARace) {
  Bench bench({2, 2, 2});
  bench.step(2, kSendWhole).after.clear();
  EXPECT_THAT(bench.Verdict(),
              AllOf(HasSubstr("host 2, channel 0, round 0, step 7 (send) reads"),
                    HasSubstr("does not wait for host 2, channel 0, round 0, step 6")));
}

TEST(PlanCheck, FinishTwiceAndNeverAreNoticed) {
  Bench twice({2, 2, 2});
  twice.step(0, kSecondCombine).combines[0].finish = true;
  EXPECT_THAT(twice.Verdict(), HasSubstr("was finished 1 times before it was complete"));
  Bench never({2, 2, 2});
  never.step(0, kWhole).combines[0].finish = false;
  EXPECT_THAT(never.Verdict(), HasSubstr("was never finished"));
}

TEST(PlanCheck, AnInputSentDirectlyIsNotScaled) {
  Bench bench({1, 1, 1});
  for (Plan& plan : bench.plans) plan.key.scaled = true;
  EXPECT_THAT(bench.Verdict(), HasSubstr("has 2 of 3 inputs scaled"));
}

TEST(PlanCheck, DifferentExpressionsAreNamed) {
  Bench bench({2});
  const Place in0{Space::kInput, 0, 0, 0}, in1{Space::kInput, 1, 0, 0};
  const Place out0{Space::kOutput, 0, 0, 0}, out1{Space::kOutput, 1, 0, 0};
  bench.step(0, 0).combines = {{.sources = {in0, in1}, .destinations = {out0}, .finish = true},
                               {.sources = {in1, in0}, .destinations = {out1}, .finish = true}};
  EXPECT_THAT(bench.Verdict(),
              HasSubstr("block 0 of the output of rank 1 has another expression than rank 0"));
  bench.options.in_place = true;  // Now each also overwrites the other's source.
  EXPECT_THAT(bench.Verdict(), HasSubstr("race: host 0, channel 0, round 0, step 0 (combine)"));
}

TEST(PlanCheck, AnOverwrittenInputIsNoticedInPlace) {
  Bench bench({2});
  const Place in0{Space::kInput, 0, 0, 0}, in1{Space::kInput, 1, 0, 0};
  Step first, second;
  first.combines = {
      {.sources = {in0, in1}, .destinations = {{Space::kOutput, 0, 0, 0}}, .finish = true}};
  second.combines = {
      {.sources = {in0, in1}, .destinations = {{Space::kOutput, 1, 0, 0}}, .finish = true}};
  second.after = {0};
  bench.steps(0) = {first, second};
  EXPECT_EQ(bench.Verdict(), "");
  bench.options.in_place = true;
  EXPECT_THAT(
      bench.Verdict(),
      HasSubstr("host 0, channel 0, round 0, step 1 (combine) reads block 0 of the input "
                "of rank 0 after it was overwritten by host 0, channel 0, round 0, step 0"));
}

// A send reads its source until it is delivered: a write that waits only for the same steps is a
// race; a write that names the send is none.
TEST(PlanCheck, ASourceOverwrittenBeforeItIsDeliveredIsARace) {
  for (bool waits : {false, true}) {
    Bench bench({2, 2}, {.kind = OpKind::kBroadcast});
    const Place root{Space::kInput, 0, 0, 0}, out1{Space::kOutput, 1, 0, 0},
        out0{Space::kOutput, 0, 0, 0};
    // The root's host sends from an output that is written again later.
    Step copy, send, again;
    copy.combines = {{.sources = {root}, .destinations = {out0, out1}}};
    send = {.kind = StepKind::kSend,
            .combines = {},
            .pieces = {out1},
            .peer = HostIndex(1),
            .after = {0}};
    again.combines = {{.sources = {out0}, .destinations = {out1}}};
    again.after = waits ? std::vector<uint16_t>{0, 1} : std::vector<uint16_t>{0};
    bench.steps(0) = {copy, send, again};
    if (waits) {
      EXPECT_EQ(bench.Verdict(), "");
    } else {
      EXPECT_THAT(bench.Verdict(),
                  HasSubstr("step 2 (combine) writes block 0 of the output of local rank 1, but "
                            "does not wait for host 0, channel 0, round 0, step 1 (send)"));
    }
  }
}

TEST(PlanCheck, MoreSkewThanSlotsIsADeadlock) {
  for (uint32_t slots : {1u, 2u, 3u, 4u}) {
    Bench bench({1, 1, 1, 1});
    bench.options.count = 16 * 4 * 12;
    bench.options.slots = slots;
    bench.options.skew = slots - 1;
    EXPECT_EQ(bench.Verdict(), "");
    bench.options.skew = slots;
    EXPECT_THAT(bench.Verdict(), AllOf(HasSubstr("deadlock with"), HasSubstr("channel 0, round "),
                                       HasSubstr("waits for host")));
  }
}

TEST(PlanCheck, WaitingForALaterEventIsADeadlock) {
  // Both hosts send their first slice only after they have the other's.
  Bench bench({1, 1}, {.kind = OpKind::kAllGather});
  for (int host : {0, 1}) {
    std::swap(bench.step(host, 0), bench.step(host, 1));
    bench.step(host, 1).after = {0};
  }
  EXPECT_THAT(bench.Verdict(), HasSubstr("deadlock"));
}

TEST(PlanCheck, NamesLanesWithMismatchedEnds) {
  Bench missing({2, 2, 2});
  missing.steps(1).resize(11);  // Host 1 receives one slice less, without its last copy.
  EXPECT_THAT(missing.Verdict(), HasSubstr("has no receive; 12 are sent, 9 received"));
  Bench lengths({2, 2, 2});
  lengths.options.count = 40;  // Blocks of 16, 16 and 8 elements.
  lengths.step(0, kFirstCombine).combines[0].destinations[0].block = 2;
  lengths.step(0, 1).pieces[0].block = 2;
  EXPECT_THAT(lengths.Verdict(),
              HasSubstr("step 1 (send): slice 0 matches host 1, channel 0, round 0, step 2"));
  Bench astray({2, 2, 2});
  astray.step(0, kSendWhole).peer = HostIndex(2);
  EXPECT_THAT(astray.Verdict(),
              HasSubstr("slice 9 from host 0 to host 1 has no send; 9 are sent, 12 received"));
  for (int invalid : {-1, 0, 3}) {
    Bench bench({2, 2, 2});
    bench.step(0, kSendWhole).peer = HostIndex(invalid);
    EXPECT_THAT(bench.Verdict(),
                HasSubstr("step 7 (send) has invalid peer host " + std::to_string(invalid)));
  }
}

// Three hosts with two ranks each exchange all to all; program of each: combine 0, send 1 and
// receive 2 with the neighbours, send 3 and receive 4 with the hosts after them.
TEST(PlanCheck, ABlockForTheWrongRankIsNamed) {
  Bench bench({2, 2, 2}, KeyOf(OpKind::kAllToAll));
  ASSERT_EQ(bench.Verdict(), "");
  std::swap(bench.step(0, 1).pieces[0], bench.step(0, 1).pieces[1]);
  EXPECT_THAT(bench.Verdict(),
              HasSubstr("block 0 of the output of rank 2 has rank 0's input (block 3, slice 0) "
                        "instead of rank 0's input (block 2, slice 0)"));
}

TEST(PlanCheck, AGatherThatMissesARankIsNamed) {
  Bench bench({2, 2, 2}, KeyOf(OpKind::kGather, Rank(3)));
  ASSERT_EQ(bench.Verdict(), "");
  Step& local = bench.step(1, 0);
  local.combines.erase(local.combines.begin());
  EXPECT_THAT(bench.Verdict(), HasSubstr("block 2 of the output of rank 3 was never written"));
}

TEST(PlanCheck, AScatterFromAnotherThanTheRootIsNamed) {
  Bench bench({2, 2}, KeyOf(OpKind::kScatter, Rank(1)));
  ASSERT_EQ(bench.Verdict(), "");
  for (Place& place : bench.step(0, 1).pieces) place.index = 0;
  EXPECT_THAT(bench.Verdict(), HasSubstr("reads an input that rank 0 does not provide"));
}

// Slices are numbered per lane: a surplus on one lane does not make up for a missing slice on
// another.
TEST(PlanCheck, ASliceForTheWrongPeerIsNoticed) {
  Bench bench({1, 1, 1}, KeyOf(OpKind::kAllToAll));
  std::swap(bench.step(0, 1).pieces, bench.step(0, 3).pieces);
  EXPECT_THAT(bench.Verdict(), HasSubstr("block 0 of the output of rank 1 has rank 0's input"));
  Bench twice({1, 1, 1}, KeyOf(OpKind::kAllToAll));
  twice.step(0, 1).peer = twice.step(0, 3).peer;
  EXPECT_THAT(twice.Verdict(), HasSubstr("from host 0 to host 2 has no receive"));
}

// A host that sends all slices before it receives needs as many slots as it sends slices.
TEST(PlanCheck, ManySlicesAtOnceToAHostThatDoesTheSameAreADeadlock) {
  Bench bench({1, 1}, KeyOf(OpKind::kAllToAll));
  const auto send_thrice = [&](bool alternate) {
    for (int h : {0, 1}) {
      const Step send = bench.step(h, 1), receive = bench.step(h, 2);
      bench.steps(h).resize(1);
      for (int i = 0; i < 3; ++i) {
        bench.steps(h).push_back(send);
        if (alternate) bench.steps(h).push_back(receive);
      }
      if (!alternate) bench.steps(h).insert(bench.steps(h).end(), 3, receive);
    }
  };
  bench.options = {.count = 16, .slots = 2, .slot_bytes = 64, .skew = 0};
  const std::vector<Plan> plans = bench.plans;
  send_thrice(true);
  EXPECT_THAT(bench.Verdict(), Not(HasSubstr("deadlock")));
  bench.plans = plans;
  send_thrice(false);
  EXPECT_THAT(bench.Verdict(), HasSubstr("deadlock"));
}

TEST(PlanCheck, ASliceThatIsNotContiguousIsNamed) {
  PlanKey key = KeyOf(OpKind::kAllGather);
  key.packed = true;
  Bench bench({2, 2}, key);
  std::vector<Step>& steps = bench.steps(0);
  const auto receive = std::ranges::find(steps, StepKind::kReceive, &Step::kind);
  ASSERT_EQ(receive->pieces.size(), 2u);
  ASSERT_EQ(receive->pieces[0].space, Space::kOutput) << "two successive blocks";
  EXPECT_EQ(bench.Verdict(), "");
  std::swap(receive->pieces[0], receive->pieces[1]);
  EXPECT_THAT(bench.Verdict(), HasSubstr("has a slice of pieces that are not contiguous"));
  Bench whole({2, 2}, key);
  for (Plan& plan : whole.plans) plan.parts = 1;
  EXPECT_THAT(whole.Verdict(), HasSubstr("max_pieces is 1"));
}

TEST(PlanCheck, ACombineOfAPieceOfAnotherRoundIsNamed) {
  Bench bench({2, 2}, {.kind = OpKind::kReduceScatter});
  std::vector<Combine>& combines = bench.steps(0).back().combines;
  std::swap(combines[0], combines[1]);
  EXPECT_THAT(bench.Verdict(), HasSubstr("has combine 0 in another part than piece 1"));
}

TEST(PlanCheck, PlacesThatDoNotExistAreNamed) {
  Bench local({2, 2, 2});
  local.step(0, kWhole).combines[0].destinations[0].index = 2;
  EXPECT_THAT(local.Verdict(),
              HasSubstr("host 0, channel 0, step 6 (combine) names unknown local rank 2"));
  Bench block({2, 2, 2});
  block.step(0, kWhole).combines[0].destinations[0].block = 3;
  EXPECT_THAT(block.Verdict(), HasSubstr("names unknown block 3"));
  Bench slot({2, 2, 2});
  slot.step(0, kSecondCombine).combines[0].sources[0].index = 1;
  EXPECT_THAT(slot.Verdict(), HasSubstr("names the slot of step 1, which has none"));
  Bench foreign({2, 2}, {.kind = OpKind::kReduceScatter});
  foreign.steps(0).back().combines[0].destinations[0] = {Space::kOutput, 1, 0, 0};
  EXPECT_THAT(foreign.Verdict(),
              HasSubstr("of the output of rank 1, which contains only its own block"));
  Bench late({2, 2, 2});
  late.step(0, 1).after = {2};
  EXPECT_THAT(late.Verdict(), HasSubstr("must come after step 2"));
  Bench input({2, 2}, {.kind = OpKind::kBroadcast});
  input.step(0, 0).pieces[0].index = 1;
  EXPECT_THAT(input.Verdict(), HasSubstr("reads an input that rank 1 does not provide"));
}

TEST(PlanCheck, RejectsInvalidParameters) {
  Bench bench({2, 2});
  EXPECT_EQ(CheckPlans(std::span(bench.plans).first(1), bench.layout, bench.options).code(),
            absl::StatusCode::kInvalidArgument);
  bench.options.slot_bytes = 63;
  EXPECT_EQ(bench.Check().code(), absl::StatusCode::kInvalidArgument);
  bench.options.slot_bytes = 64;
  bench.options.count = uint64_t{1} << 30;
  EXPECT_THAT(bench.Verdict(), HasSubstr("lower the count"));
  Bench exchange({2, 2}, KeyOf(OpKind::kAllToAll));
  exchange.options.in_place = true;
  EXPECT_EQ(exchange.Check().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(exchange.Verdict(), HasSubstr("all_to_all has no in-place form"));
}

// Every small change to every plan is detected: no part of a plan is superfluous, and none is
// unchecked.
class Mutants : public testing::TestWithParam<PlanKey> {
 protected:
  void Expect(Bench& bench, const std::string& what, const std::function<void()>& change,
              const std::function<void()>& undo) {
    change();
    ++mutants_;
    std::string killed_by;
    for (bool in_place : {false, true}) {
      bench.options.in_place = in_place;
      if (killed_by.empty()) killed_by = bench.Verdict();
    }
    EXPECT_THAT(killed_by, AllOf(HasSubstr("host "), HasSubstr("channel 0")))
        << what << " of " << Describe(bench.plans[0].key, bench.layout);
    undo();
  }

  template <typename List>
  void ExpectErased(Bench& bench, const std::string& what, List& items, size_t at) {
    const List kept = items;
    Expect(
        bench, what, [&] { items.erase(items.begin() + static_cast<std::ptrdiff_t>(at)); },
        [&] { items = kept; });
  }

  int mutants_ = 0;
};

TEST_P(Mutants, AllAreKilled) {
  for (const std::vector<int>& ranks :
       {std::vector<int>{2, 1, 3}, {1, 2}, {2, 2, 1, 1}, {1, 2, 1, 1, 2}, {3}}) {
    const PlanKey& key = GetParam();
    if (!Supports(key.algorithm, key.kind, static_cast<int>(ranks.size()))) continue;
    Bench bench(ranks, GetParam());
    ASSERT_EQ(bench.Verdict(), "");
    for (int host = 0; host < bench.layout.host_count(); ++host) {
      for (size_t s = 0; s < bench.steps(host).size(); ++s) {
        Step& step = bench.step(host, s);
        const std::string where = "host " + std::to_string(host) + " step " + std::to_string(s);
        for (size_t i = 0; i < step.after.size(); ++i)
          ExpectErased(bench, where + ": no wait", step.after, i);
        for (size_t i = 0; i < step.pieces.size(); ++i)
          ExpectErased(bench, where + ": no piece", step.pieces, i);
        for (int peer = 0; peer < bench.layout.host_count(); ++peer) {
          const HostIndex kept = step.peer;
          if (step.kind == StepKind::kCombine || HostIndex(peer) == kept) continue;
          Expect(
              bench, where + ": other peer", [&] { step.peer = HostIndex(peer); },
              [&] { step.peer = kept; });
        }
        for (Combine& combine : step.combines) {
          for (size_t i = 0; i < combine.sources.size(); ++i) {
            ExpectErased(bench, where + ": no source", combine.sources, i);
            Expect(
                bench, where + ": source twice",
                [&] { combine.sources.push_back(combine.sources[i]); },
                [&] { combine.sources.pop_back(); });
          }
          for (size_t i = 0; i < combine.destinations.size(); ++i) {
            ExpectErased(bench, where + ": no destination", combine.destinations, i);
          }
          for (auto* places : {&combine.sources, &combine.destinations}) {
            for (Place& place : *places) {
              if (bench.plans[0].blocks == 1) continue;
              const Place kept = place;
              Expect(
                  bench, where + ": other block",
                  [&] { place.block = (place.block + 1) % bench.plans[0].blocks; },
                  [&] { place = kept; });
            }
          }
          Expect(
              bench, where + ": finish", [&] { combine.finish = !combine.finish; },
              [&] { combine.finish = !combine.finish; });
        }
      }
    }
  }
  std::printf("%d mutants killed\n", mutants_);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Mutants,
    testing::Values(PlanKey{.kind = OpKind::kAllReduce},
                    PlanKey{.kind = OpKind::kReduceScatter, .packed = true},
                    PlanKey{.kind = OpKind::kAllGather, .packed = true},
                    PlanKey{
                        .kind = OpKind::kAllToAll, .algorithm = Algorithm::kDirect, .packed = true},
                    PlanKey{.kind = OpKind::kAllReduce, .scaled = true},
                    PlanKey{.kind = OpKind::kReduceScatter},
                    PlanKey{.kind = OpKind::kReduceScatter, .scaled = true},
                    PlanKey{.kind = OpKind::kAllGather},
                    PlanKey{.kind = OpKind::kBroadcast, .root = Rank(1)},
                    PlanKey{.kind = OpKind::kReduce, .root = Rank(1)}, KeyOf(OpKind::kAllToAll),
                    KeyOf(OpKind::kGather, Rank(1)), KeyOf(OpKind::kScatter, Rank(1)),
                    PlanKey{.kind = OpKind::kAllToAll, .algorithm = Algorithm::kGrid},
                    PlanKey{.kind = OpKind::kAllGather, .algorithm = Algorithm::kPat},
                    PlanKey{.kind = OpKind::kReduceScatter, .algorithm = Algorithm::kPat}),
    [](const auto& info) {
      const PlanKey& key = info.param;
      return std::string(Name(key.kind)) + (key.scaled ? "_scaled" : "") +
             (key.packed ? "_packed" : "") +
             (key.algorithm == UsualAlgorithm(key.kind) ? ""
                                                        : "_" + std::string(Name(key.algorithm)));
    });

}  // namespace plan_check_test
}  // namespace mccs
