// A hostile tenant with invalid ranges and chunks, beside a neighbor whose results stay right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "tests/sim/sim_job.h"
#include "tests/unit/device/emulated_allocation.h"
#include "tests/unit/frontend/raw_tenant.h"

namespace mccs {
namespace hostile_ranges_test {

using ::testing::HasSubstr;

constexpr uint64_t kChunk = 64 * kKiB;
constexpr uint64_t kRange = 16 * kChunk;

void ExpectNeighborWorks(SimWorld& world, SimJob& job) {
  job.Fill(500);
  job.PostAll(OpKind::kAllReduce, 500);
  ASSERT_TRUE(world.RunUntil([&] { return job.Done(); })) << job.rank(0).failure();
  ASSERT_EQ(job.Wrong(OpKind::kAllReduce, 500), 0u);
}

class SimHostileRanges : public ::testing::Test {
 protected:
  SimHostileRanges() {
    EXPECT_TRUE(neighbor_.Form());
    EXPECT_TRUE(hostile_.Greet());
  }
  ~SimHostileRanges() override { ExpectNeighborWorks(world_, neighbor_); }

  uint32_t Reserve(uint64_t bytes) {
    wire::ReserveRange message{};
    message.bytes = bytes;
    const auto reply = hostile_.Await<wire::RegisterReply>(hostile_.Send(message));
    EXPECT_TRUE(reply.has_value());
    error_ = reply->status.text;
    return reply->status.error == wire::ErrorClass::kNone ? reply->buffer_id : 0;
  }
  // The daemon's error message; "" if it accepts the chunk.
  std::string Map(uint32_t id, uint64_t offset, uint64_t bytes, UniqueFd fd) {
    wire::MapChunk message{};
    message.buffer_id = id;
    message.offset = offset;
    message.bytes = bytes;
    hostile_.pipe().descriptors.push_back(std::move(fd));
    return ErrorOf(hostile_.Send(message));
  }
  std::string Unmap(uint32_t id, uint64_t offset, uint64_t bytes) {
    wire::UnmapChunks message{};
    message.buffer_id = id;
    message.offset = offset;
    message.bytes = bytes;
    return ErrorOf(hostile_.Send(message));
  }
  static UniqueFd Memory(uint64_t bytes) { return EmulatedAllocation(bytes).TakeFd(); }

  SimWorld world_{{.seed = 7, .network = {}}};
  SimJob neighbor_{world_, {0, 1}, 4096};
  RawTenant hostile_{world_, 0, TenantIdentity{"red", 5000}};
  std::string error_;

 private:
  std::string ErrorOf(uint64_t request) {
    const auto reply = hostile_.Await<wire::Done>(request);
    EXPECT_TRUE(reply.has_value()) << "the session must stay open";
    return reply.has_value() ? reply->status.text : "no answer";
  }
};

TEST_F(SimHostileRanges, RejectsInvalidChunksWithAReason) {
  const uint32_t id = Reserve(kRange);
  ASSERT_NE(id, 0u) << error_;
  EXPECT_EQ(Map(id, kChunk, kChunk, Memory(kChunk)), "");
  EXPECT_THAT(Map(id, kChunk, kChunk, Memory(kChunk)), HasSubstr("overlaps"));
  EXPECT_THAT(Map(id, 0, 2 * kChunk, Memory(2 * kChunk)), HasSubstr("overlaps"));
  EXPECT_THAT(Map(id, kRange, kChunk, Memory(kChunk)), HasSubstr("exceeds its range"));
  EXPECT_THAT(Map(id, ~uint64_t{0}, kChunk, Memory(kChunk)), HasSubstr("exceeds its range"));
  EXPECT_THAT(Map(id, 0, kChunk, Memory(4096)), HasSubstr("offered"));
  EXPECT_THAT(Map(id, 0, 5000, Memory(8192)), HasSubstr("whole pages"));
  EXPECT_THAT(Map(id, 0, kChunk, UniqueFd()), HasSubstr("no descriptor"));
  EXPECT_THAT(Map(id, 0, 4096, UniqueFd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC))),
              HasSubstr("not a memory file"));
  EXPECT_THAT(Map(id, 0, 4096, EmulatedAllocation(4096, 0).TakeFd()), HasSubstr("sealed"));
  EXPECT_THAT(Map(id + 5, 0, 4096, Memory(4096)), HasSubstr("not registered"));
}

TEST_F(SimHostileRanges, RejectsRangesAboveTheLimits) {
  EXPECT_EQ(Reserve(~uint64_t{0}), 0u);
  EXPECT_THAT(error_, HasSubstr("mapped_bytes_per_tenant"));
  EXPECT_EQ(Reserve(0), 0u);
  EXPECT_EQ(Reserve(12345), 0u);
  const uint32_t id = Reserve(uint64_t{kDefaultBuffersPerTenant} * 4096);
  ASSERT_NE(id, 0u) << error_;
  std::string refused;
  const UniqueFd page = Memory(4096);
  uint64_t mapped = 0;
  for (; refused.empty() && mapped < kDefaultBuffersPerTenant; ++mapped) {
    refused = Map(id, mapped * 4096, 4096, UniqueFd(dup(page.get())));
  }
  EXPECT_THAT(refused, HasSubstr("buffers_per_tenant"));
  EXPECT_LE(mapped, kDefaultBuffersPerTenant / ChunkedBuffer::kSharesOfChunk);
  EXPECT_EQ(Unmap(id, 0, ~uint64_t{0}), "") << "all chunks";
}

TEST_F(SimHostileRanges, RandomRangeMessagesHarmNoNeighbor) {
  const uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  const auto random_offset = [&] {
    return random() % 20 * (kChunk / 2) + random() % 8 / 7 * random();
  };
  for (int i = 0; i < 3000; ++i) {
    const auto id = static_cast<uint32_t>(random() % 6);
    switch (random() % 8) {
      case 0:
        Reserve(random() % 4 * kRange + random() % 16 / 15);
        break;
      case 1:
      case 2:
        Unmap(id, random_offset(), random_offset());
        break;
      case 3: {
        wire::ReleaseBuffer message{};
        message.buffer_id = id;
        hostile_.Send(message);
        break;
      }
      default:
        Map(id, random_offset(), (1 + random() % 4) * kChunk / 2, Memory(kChunk));
    }
    if (i % 1000 == 0) ExpectNeighborWorks(world_, neighbor_);
  }
}

}  // namespace hostile_ranges_test
}  // namespace mccs
