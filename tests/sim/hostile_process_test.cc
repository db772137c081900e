// A hostile tenant that writes random bytes into its work rings and its socket, beside a neighbor
// whose results stay right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "tests/fuzz/fuzz_run.h"
#include "tests/sim/scenario.h"
#include "tests/sim/sim_job.h"
#include "tests/unit/device/emulated_allocation.h"
#include "tests/unit/frontend/raw_tenant.h"

namespace mccs {
namespace hostile_process_test {

// Each record costs the forming of a communicator, as the first bad record ends its rank;
// rank_endpoint_test runs ten times as many through one ring.
constexpr int64_t kRecords = 10'000;
constexpr int kRecordsPerWorld = 1000;
constexpr int64_t kMessages = 100'000;

// Adds the number of failed hostile communicators to *failed.
void RunHostileRecords(FuzzRun& run, int* failed) {
  std::mt19937_64& random = run.random();
  auto [world, neighbor] = JobWorld({.seed = random()}, {0, 1}, 4096);
  int failures = 0;
  int records = 0;
  bool more = true;
  while (records < kRecordsPerWorld && more) {
    SimJob hostile(world, {0, 1}, 4096);
    ASSERT_TRUE(hostile.Form()) << hostile.rank(0).status.text;
    wire::CommRegion& region = hostile.rank(0).region();
    while (!hostile.rank(0).failed() && records < kRecordsPerWorld && (more = run.Next())) {
      hostile.Post(1, OpKind::kAllReduce, 100);
      hostile.Post(0, OpKind::kAllReduce, 100);
      const uint64_t tail = region.tail.load() - 1;
      auto* bytes = reinterpret_cast<std::byte*>(&region.records[tail % wire::kRingRecords]);
      const bool all = random() % 8 == 0;
      for (uint64_t n = all ? sizeof(wire::WorkRecord) : random() % 3; n > 0; --n) {
        bytes[all ? n - 1 : random() % sizeof(wire::WorkRecord)] = static_cast<std::byte>(random());
      }
      ++records;
      // Sometimes also the indices and the daemon's own words.
      if (random() % 64 == 0) region.head.store(random());
      if (random() % 256 == 0) region.tail.store(random());
      if (random() % 64 == 0) region.done.value.store(random());
      // Not reaching a ready word is not a failure, so set them all.
      for (auto& ready : region.ready) ready.value.store(~uint64_t{0} >> 1);
      world.RunUntil([&] { return hostile.rank(0).failed() || hostile.Done(); }, 5 * kNsPerMs);
      if (!hostile.Done()) break;
    }
    failures += hostile.rank(0).failed() ? 1 : 0;
    if (hostile.rank(0).failed()) {
      EXPECT_NE(hostile.rank(0).failure(), "");
    }
    for (int r = 0; r < 2; ++r) hostile.tenant(r).Kill();
    world.RunUntil([&] { return world.host(0).daemon().sessions() == 1; });
    if (failures % 100 == 0) {
      EXPECT_EQ(neighbor.Run(OpKind::kAllReduce, 500), "");
    }
  }
  EXPECT_EQ(neighbor.Run(OpKind::kAllReduce, 500), "");
  // A leader remains until the other host knows of its end.
  EXPECT_TRUE(world.RunUntil([&] {
    return world.host(0).daemon().sessions() == 1 && world.host(0).daemon().communicators() == 1;
  }));
  *failed += failures;
}

TEST(SimHostileProcess, RandomRecordsHarmNoNeighbor) {
  FuzzRun run("records through a daemon", "MCCS_FUZZ_DAEMON_RECORDS", kRecords);
  int failures = 0;
  while (run.Next()) {
    RunHostileRecords(run, &failures);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(failures, 0);
}

struct Shape {
  wire::MessageKind kind;
  size_t bytes;  // 0: any
};
template <typename Message>
Shape ShapeOf() {
  return {Message::kKind, sizeof(Message)};
}

TEST(SimHostileProcess, RandomMessagesHarmNoNeighbor) {
  FuzzRun run("messages", "MCCS_FUZZ_MESSAGES", kMessages);
  std::mt19937_64& random = run.random();
  auto [world, neighbor] = JobWorld({.seed = run.seed()}, {0, 1}, 4096);
  const Shape shapes[] = {ShapeOf<wire::Hello>(),
                          ShapeOf<wire::GetUniqueId>(),
                          ShapeOf<wire::RegisterBuffer>(),
                          ShapeOf<wire::CommInit>(),
                          ShapeOf<wire::ReleaseBuffer>(),
                          ShapeOf<wire::CommAbort>(),
                          ShapeOf<wire::CommDestroy>(),
                          ShapeOf<wire::CommSplit>(),
                          ShapeOf<wire::CommShrink>(),
                          ShapeOf<wire::CommGrow>(),
                          ShapeOf<wire::CommUniqueId>(),
                          ShapeOf<wire::CommRevoke>(),
                          ShapeOf<wire::CommSuspend>(),
                          ShapeOf<wire::RegisterWindow>(),
                          ShapeOf<wire::DeregisterWindow>(),
                          ShapeOf<wire::Estimate>(),
                          {static_cast<wire::MessageKind>(99), 0}};
  uint64_t sessions = 0;
  std::optional<RawTenant> hostile;
  std::optional<wire::UniqueId> id;
  while (run.Next()) {
    if (!hostile.has_value() || world.host(0).daemon().sessions() == 1) {
      hostile.emplace(world, 0, TenantIdentity{"red", static_cast<pid_t>(5000 + sessions++)});
      ASSERT_TRUE(hostile->Greet());
      id = hostile->GetUniqueId();
      ASSERT_TRUE(id.has_value());
    }
    const Shape& shape = shapes[random() % std::size(shapes)];
    std::vector<std::byte> bytes(shape.bytes == 0 ? random() % 1100 : shape.bytes);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 4 == 0 ? random() : 0);
    if (shape.kind == wire::CommInit::kKind && random() % 4 != 0) {  // almost valid
      wire::CommInit init =
          MakeCommInit(*id, static_cast<int>(random() % 4), static_cast<int>(random() % 3));
      if (random() % 4 == 0)
        init.unique_id[random() % sizeof(init.unique_id)] = static_cast<uint8_t>(random());
      std::memcpy(bytes.data(), &init, sizeof(init));
    }
    if (bytes.size() >= sizeof(wire::MessageHeader) && random() % 100 != 0) {
      const wire::MessageHeader header{.kind = shape.kind,
                                       .bytes = static_cast<uint32_t>(bytes.size()),
                                       .request = 1 + random() % 50};
      std::memcpy(bytes.data(), &header, sizeof(header));
    }
    hostile->SendBytes(bytes.data(), bytes.size());
    if (random() % 16 == 0) world.RunFor(RandomUs(random, 300));
    if (random() % 4 == 0) hostile->pipe().to_tenant.clear();
    if (run.done() % 10'000 == 0) {
      EXPECT_EQ(neighbor.Run(OpKind::kAllReduce, 500), "");
    }
  }
  hostile->pipe().dead = true;
  ASSERT_TRUE(world.RunUntil([&] {
    return world.host(0).daemon().sessions() == 1 && world.host(0).daemon().communicators() == 1;
  }));
  EXPECT_EQ(neighbor.Run(OpKind::kAllReduce, 500), "");
  EXPECT_GT(sessions, 0u);
  EXPECT_TRUE(world.host(0).log().Contains("session of process"));
}

// A hostile tenant with invalid ranges and chunks, beside a neighbor whose results stay right.
using ::testing::HasSubstr;

constexpr uint64_t kChunk = 64 * kKiB;
constexpr uint64_t kRange = 16 * kChunk;

class SimHostileRanges : public ::testing::Test {
 protected:
  SimHostileRanges() {
    EXPECT_TRUE(neighbor_.Form());
    EXPECT_TRUE(hostile_.Greet());
  }
  ~SimHostileRanges() override { EXPECT_EQ(neighbor_.Run(OpKind::kAllReduce, 500), ""); }

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

  SimWorld world_{{.seed = 7}};
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

// chunked_buffer_test has the others.
TEST_F(SimHostileRanges, RejectsInvalidRangesAndChunksWithAReason) {
  const uint32_t id = Reserve(kRange);
  ASSERT_NE(id, 0u) << error_;
  EXPECT_EQ(Map(id, kChunk, kChunk, Memory(kChunk)), "");
  EXPECT_THAT(Map(id, kChunk, kChunk, Memory(kChunk)), HasSubstr("overlaps"));
  EXPECT_THAT(Map(id, 0, kChunk, UniqueFd()), HasSubstr("no descriptor"));
  EXPECT_THAT(Map(id, 0, 4096, UniqueFd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC))),
              HasSubstr("not a memory file"));
  EXPECT_THAT(Map(id + 5, 0, 4096, Memory(4096)), HasSubstr("not registered"));
  EXPECT_EQ(Unmap(id, 0, ~uint64_t{0}), "") << "all chunks";
  EXPECT_EQ(Reserve(~uint64_t{0}), 0u);
  EXPECT_THAT(error_, HasSubstr("mapped_bytes_per_tenant"));
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
    if (i % 1000 == 0) {
      EXPECT_EQ(neighbor_.Run(OpKind::kAllReduce, 500), "");
    }
  }
}

}  // namespace hostile_process_test
}  // namespace mccs
