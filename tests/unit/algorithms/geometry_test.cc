#include "algorithms/geometry.h"

#include <algorithm>
#include <cstdio>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/algorithms/plan_cases.h"

namespace mccs {
namespace geometry_test {

constexpr uint32_t kSlotBytes = 256 << 10;

Plan MakePlan(OpKind kind, std::vector<int> ranks, int channels = 1, bool packed = false) {
  PlanKey key = KeyOf(kind);
  key.packed = packed;
  return BuildAll(key, BlockLayout(ranks),
                  VariedOrders(static_cast<int>(ranks.size()), channels))[0];
}

// Every block is covered once by each part, in order of channels and rounds, in multiples of 64
// bytes.
void ExpectCovered(const Plan& plan, DataType type, uint64_t count, uint32_t slot_bytes) {
  const Geometry geometry(plan, type, count, slot_bytes);
  uint64_t total = 0;
  for (int32_t block = 0; block < plan.blocks; ++block) {
    uint64_t covered = 0;
    size_t next_part = 0;
    for (const Program& program : plan.programs) {
      for (uint64_t round = 0; round < geometry.rounds(program.channel); ++round) {
        const Extent slice = geometry.Slice(program.channel, round, block);
        const IndexRange parts = geometry.Parts(round);
        ASSERT_EQ(parts.begin, next_part);
        next_part = parts.end % static_cast<size_t>(plan.parts);
        if (slice.count == 0) continue;
        ASSERT_LE(
            slice.count * SizeOf(type) * static_cast<uint64_t>(plan.max_pieces) * parts.size(),
            slot_bytes);
        if (parts.begin > 0) continue;
        ASSERT_EQ(slice.begin, covered);
        ASSERT_EQ(slice.begin * SizeOf(type) % kAlignmentBytes, 0u);
        covered += slice.count;
      }
      ASSERT_EQ(next_part, 0u);
      ASSERT_EQ(geometry.Slice(program.channel, geometry.rounds(program.channel), block).count, 0u);
    }
    ASSERT_EQ(covered, geometry.BlockLength(block));
    total += covered;
  }
  ASSERT_EQ(total, plan.count_spans_blocks ? count : count * static_cast<uint64_t>(plan.blocks));
}

TEST(Geometry, CoversEveryElementOnce) {
  constexpr uint64_t kSeed = 20261121;
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  std::mt19937_64 random(kSeed);
  for (OpKind kind : {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kAllGather,
                      OpKind::kBroadcast, OpKind::kAllToAll}) {
    for (const std::vector<int>& ranks :
         {std::vector<int>{1}, {4}, {1, 1}, {2, 3, 1}, {1, 1, 1, 1, 1}}) {
      for (int channels : {1, 2, 3, 4}) {
        const Plan plan = MakePlan(kind, ranks, channels, random() % 2 == 0);
        for (int i = 0; i < 60; ++i) {
          const uint64_t count = random() >> (44 + random() % 20);
          const DataType type = static_cast<DataType>(random() % kDataTypes);
          const uint32_t slot_bytes = 64u * static_cast<uint32_t>(plan.max_pieces) +
                                      static_cast<uint32_t>(random() % kSlotBytes);
          ExpectCovered(plan, type, count, slot_bytes);
          if (testing::Test::HasFatalFailure()) {
            FAIL() << Name(kind) << " count " << count << " type " << Name(type) << " slot "
                   << slot_bytes;
          }
        }
      }
    }
  }
}

TEST(Geometry, NothingToDoIsNoRound) {
  const Plan plan = MakePlan(OpKind::kAllReduce, {1, 1}, 2);
  const Geometry geometry(plan, DataType::kFloat32, 0, kSlotBytes);
  EXPECT_EQ(geometry.rounds(ChannelId(0)), 0u);
  EXPECT_EQ(geometry.rounds(ChannelId(1)), 0u);
}

TEST(Geometry, ATinyAllReduceIsAllInBlockZeroOnChannelZero) {
  const Plan plan = MakePlan(OpKind::kAllReduce, {1, 1, 1}, 2);
  const Geometry geometry(plan, DataType::kFloat32, 16, kSlotBytes);
  EXPECT_EQ(geometry.rounds(ChannelId(0)), 1u);
  EXPECT_EQ(geometry.rounds(ChannelId(1)), 0u);
  EXPECT_EQ(geometry.Slice(ChannelId(0), 0, 0).count, 16u);
  EXPECT_EQ(geometry.Slice(ChannelId(0), 0, 1).count, 0u);
}

TEST(Geometry, SmallBlocksUseFewChannels) {
  const Plan plan = MakePlan(OpKind::kBroadcast, {1, 1}, 4);
  const auto channels = [&](uint64_t bytes) {
    const Geometry geometry(plan, DataType::kInt8, bytes, kSlotBytes);
    int used = 0;
    for (int c = 0; c < 4; ++c) used += geometry.rounds(ChannelId(c)) > 0;
    return used;
  };
  EXPECT_EQ(channels(1), 1);
  EXPECT_EQ(channels(2 * kMinSliceBytes - 1), 1);
  EXPECT_EQ(channels(2 * kMinSliceBytes), 2);
  EXPECT_EQ(channels(4 * kMinSliceBytes), 4);
  EXPECT_EQ(channels(100 * kMinSliceBytes), 4);
}

// Each kernel works on its whole share at once, up to a limit.
TEST(Geometry, SlicesForKernelsOfOneHostAreLarge) {
  const Plan plan = MakePlan(OpKind::kAllReduce, {4}, 2);
  const auto cut = [&](uint64_t bytes) {
    return Geometry(plan, DataType::kInt8, bytes, kKernelSlices.most_bytes, kKernelSlices);
  };
  EXPECT_EQ(cut(2 * kMinSliceBytes - 1).rounds(ChannelId(0)), 1u);
  EXPECT_EQ(cut(2 * kMinSliceBytes - 1).rounds(ChannelId(1)), 0u) << "small calls use one channel";
  EXPECT_EQ(cut(4 << 20).rounds(ChannelId(0)), 1u);
  EXPECT_EQ(cut(4 << 20).rounds(ChannelId(1)), 1u);
  EXPECT_EQ(cut(64 << 20).rounds(ChannelId(0)), 4u);
  EXPECT_EQ(cut(64 << 20).Slice(ChannelId(1), 0, 0).count, 8u << 20);
}

TEST(Geometry, AMediumBufferStillFillsThePipeline) {
  const Plan plan = MakePlan(OpKind::kAllReduce, {1, 1});
  for (uint64_t bytes = 2 * kTargetRounds * kMinSliceBytes; bytes <= 64 << 20; bytes *= 2) {
    EXPECT_GE(Geometry(plan, DataType::kInt8, bytes, 1 << 20).rounds(ChannelId(0)), kTargetRounds)
        << bytes;
  }
}

TEST(Geometry, SlicesHaveAMinimumLength) {
  const Plan plan = MakePlan(OpKind::kAllGather, {1, 1});
  const Geometry geometry(plan, DataType::kInt8, 2 * kMinSliceBytes, 1 << 20);
  EXPECT_EQ(geometry.rounds(ChannelId(0)), 2u);
  EXPECT_EQ(geometry.Slice(ChannelId(0), 0, 0).count, kMinSliceBytes);
}

TEST(Geometry, AStraightSliceIsOnePartOfOneBlock) {
  const Plan plan = MakePlan(OpKind::kAllToAll, {4, 4}, 2);
  for (uint64_t bytes : {kMaxPackedBytes + 1, uint64_t{kSlotBytes}, uint64_t{16} << 20}) {
    const Geometry geometry(plan, DataType::kInt8, bytes, kSlotBytes);
    for (int32_t c : {0, 1}) {
      for (uint64_t round = 0; round < geometry.rounds(ChannelId(c)); ++round) {
        EXPECT_EQ(geometry.Parts(round).size(), 1u);
      }
    }
    EXPECT_GE(geometry.Slice(ChannelId(0), 0, 0).count, kMaxPackedBytes);
  }
  // Full slots, except for what a division by whole slices takes.
  EXPECT_GE(Geometry(plan, DataType::kInt8, 64 << 20, kSlotBytes).Slice(ChannelId(0), 0, 0).count,
            kSlotBytes - kSlotBytes / 64);
}

TEST(Geometry, APackedSliceHasSeveralWholeBlocks) {
  const Plan plan = MakePlan(OpKind::kAllToAll, {8, 8}, 2, true);
  const auto slices = [&](uint64_t bytes) {
    const Geometry geometry(plan, DataType::kInt8, bytes, 96 << 10);
    EXPECT_EQ(geometry.Slice(ChannelId(0), 0, 0).count, bytes) << "the whole block";
    EXPECT_EQ(geometry.rounds(ChannelId(1)), 0u) << "all on the first channel";
    return geometry.rounds(ChannelId(0));
  };
  EXPECT_EQ(slices(8), 1u);
  EXPECT_EQ(slices(kMinSliceBytes / 64), 1u);
  EXPECT_EQ(slices(kMinSliceBytes / 32), 2u);
  EXPECT_EQ(slices(kMinSliceBytes / 8), kTargetRounds);
  EXPECT_EQ(slices(kMaxPackedBytes), 11u) << "six blocks fill a slot";
}

TEST(Geometry, TheLastSliceIsNotTiny) {
  const Plan plan = MakePlan(OpKind::kBroadcast, {1, 1});
  const uint64_t count = 10 * uint64_t{kSlotBytes} + 1;
  const Geometry geometry(plan, DataType::kInt8, count, kSlotBytes);
  const uint64_t rounds = geometry.rounds(ChannelId(0));
  EXPECT_EQ(rounds, 11u);
  const uint64_t slice = geometry.Slice(ChannelId(0), 0, 0).count;
  EXPECT_GE(geometry.Slice(ChannelId(0), rounds - 1, 0).count + rounds * kAlignmentBytes, slice);
}

TEST(Geometry, OneHostIsCutForCachesAndWorkers) {
  const Plan plan = MakePlan(OpKind::kAllReduce, {2});
  const Geometry large(plan, DataType::kFloat32, 64 << 20, 16 << 20);
  EXPECT_EQ(large.Slice(ChannelId(0), 0, 0).count * 4, kLocalSliceBytes);
  const Geometry cut(plan, DataType::kFloat32, 64 << 20, 4096);
  EXPECT_EQ(cut.Slice(ChannelId(0), 0, 0).count * 4, 4096u);
}

TEST(Geometry, HugeCountsDoNotOverflow) {
  const uint64_t count = (uint64_t{1} << 40) - 1;
  for (OpKind kind : {OpKind::kAllReduce, OpKind::kAllGather}) {
    const Plan plan = MakePlan(kind, {4, 4, 4, 4}, 3);
    for (DataType type : {DataType::kInt8, DataType::kFloat64}) {
      const Geometry geometry(plan, type, count, kSlotBytes);
      const ChannelId last_channel(2);
      const int32_t last_block = plan.blocks - 1;
      const uint64_t length = geometry.BlockLength(last_block);
      uint64_t end = 0;
      for (uint64_t back = 1; back <= 64;
           ++back) {  // The last block is slightly shorter than the others.
        const Extent slice =
            geometry.Slice(last_channel, geometry.rounds(last_channel) - back, last_block);
        end = std::max(end, slice.begin + slice.count);
      }
      EXPECT_EQ(end, length);
      EXPECT_EQ(geometry.BlockOffset(last_block) + length,
                plan.count_spans_blocks ? count : count * static_cast<uint64_t>(plan.blocks));
    }
  }
}

}  // namespace geometry_test
}  // namespace mccs
