// A hostile tenant that writes random bytes into its work rings and its socket, beside a neighbor
// whose results stay right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/fuzz/fuzz_run.h"
#include "tests/sim/sim_job.h"
#include "tests/unit/frontend/raw_tenant.h"

namespace mccs {
namespace hostile_process_test {

// Each record costs the forming of a communicator, as the first bad record ends its rank;
// rank_endpoint_test runs ten times as many through one ring.
constexpr int64_t kRecords = 10'000;
constexpr int kRecordsPerWorld = 1000;
constexpr int64_t kMessages = 100'000;

void ExpectNeighborWorks(SimWorld& world, SimJob& job) {
  job.Fill(500);
  job.PostAll(OpKind::kAllReduce, 500);
  ASSERT_TRUE(world.RunUntil([&] { return job.Done(); })) << job.rank(0).failure();
  ASSERT_EQ(job.Wrong(OpKind::kAllReduce, 500), 0u);
}

// Adds the number of failed hostile communicators to *failed.
void RunHostileRecords(FuzzRun& run, int* failed) {
  std::mt19937_64& random = run.random();
  SimWorld world({.seed = random(), .network = {}});
  SimJob neighbor(world, {0, 1}, 4096);
  ASSERT_TRUE(neighbor.Form());
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
    if (failures % 100 == 0) ExpectNeighborWorks(world, neighbor);
  }
  ExpectNeighborWorks(world, neighbor);
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
  SimWorld world({.seed = run.seed(), .network = {}});
  SimJob neighbor(world, {0, 1}, 4096);
  ASSERT_TRUE(neighbor.Form());
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
    if (random() % 16 == 0) world.RunFor(static_cast<int64_t>(random() % 300) * kNsPerUs);
    if (random() % 4 == 0) hostile->pipe().to_tenant.clear();
    if (run.done() % 10'000 == 0) ExpectNeighborWorks(world, neighbor);
  }
  hostile->pipe().dead = true;
  ASSERT_TRUE(world.RunUntil([&] {
    return world.host(0).daemon().sessions() == 1 && world.host(0).daemon().communicators() == 1;
  }));
  ExpectNeighborWorks(world, neighbor);
  EXPECT_GT(sessions, 0u);
  EXPECT_TRUE(world.host(0).log().Contains("session of process"));
}

}  // namespace hostile_process_test
}  // namespace mccs
