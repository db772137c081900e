// Memory takes seconds to map and unmap: only the process that requested it waits.
#include <gtest/gtest.h>

#include <vector>

#include "tests/sim/scenario.h"

namespace mccs {
namespace slow_mapping_test {

constexpr uint64_t kSeeds = 30;
constexpr uint64_t kCount = 4'000;
constexpr int64_t kStepNs = 2 * kNsPerSec;
// Enough to map or unmap a few buffers, with any seed.
constexpr int64_t kLongNs = 200 * kStepNs;

class SlowWorld {
 public:
  explicit SlowWorld(uint64_t seed)
      : world({.seed = seed, .hosts = 2, .mapping_step_ns = kStepNs}), memory(1 << 20) {}

  SimTenant& Process(const std::string& tenant) {
    SimTenant& process = world.AddTenant(0, tenant);
    EXPECT_TRUE(world.RunUntil([&] { return process.connected(); }));
    return process;
  }
  void Register(SimTenant& process) { process.Register(memory.data(), memory.size()); }
  bool IsRegistered(const SimTenant& process) { return process.BufferAt(memory.data()) != 0; }
  // Buffers that count against the tenant's limits.
  int64_t Buffers(const std::string& tenant) {
    return world.host(0).daemon().counters()->Of(tenant)->buffers.value();
  }

  SimWorld world;
  std::vector<std::byte> memory;
};

TEST(SimSlowMapping, CallsContinueWhileAnotherProcessRegistersAndDies) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    SlowWorld slow(seed);
    SimWorld& world = slow.world;
    SimJob job(world, {0, 1}, kCount * sizeof(float));
    ASSERT_TRUE(job.Form());
    ASSERT_TRUE(world.RunUntil([&] { return job.BuffersAnswered(); }, kLongNs));
    SimTenant& large = slow.Process("uid 2000");
    for (int i = 0; i < 20; ++i) slow.Register(large);
    job.Fill(kCount);
    for (int call = 0; call < 40; ++call) {
      if (call == 20) large.Kill();
      job.PostAll(OpKind::kAllReduce, kCount);
      ASSERT_TRUE(job.Complete(kNsPerSec)) << "call " << call;
    }
    EXPECT_EQ(job.Wrong(OpKind::kAllReduce, kCount), 0u);
    EXPECT_TRUE(world.RunUntil([&] { return slow.Buffers("uid 2000") == 0; }, kLongNs));
  }
}

TEST(SimSlowMapping, SmallRegistrationWaitsForOneStepOfALargeTenant) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    SlowWorld slow(seed);
    SimTenant& large = slow.Process("uid 2000");
    SimTenant& small = slow.Process("uid 1000");
    for (int i = 0; i < 1000; ++i) slow.Register(large);
    slow.world.RunFor(kNsPerMs);
    slow.Register(small);
    // Two steps of its own, each after one step of the other tenant.
    EXPECT_TRUE(slow.world.RunUntil([&] { return slow.IsRegistered(small); }, 5 * kStepNs));
  }
}

TEST(SimSlowMapping, AnswersAReleaseAfterUnmapping) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    SlowWorld slow(seed);
    SimTenant& tenant = slow.Process("uid 1000");
    slow.Register(tenant);
    ASSERT_TRUE(slow.world.RunUntil([&] { return slow.IsRegistered(tenant); }, kLongNs));
    tenant.Release(slow.memory.data());
    const auto is_released = [&] { return tenant.IsReleased(slow.memory.data()); };
    EXPECT_TRUE(slow.world.RunUntil([&] { return is_released() || slow.Buffers("uid 1000") == 0; },
                                    kLongNs));
    EXPECT_EQ(slow.Buffers("uid 1000"), 0) << "answered before the buffer was unmapped";
    EXPECT_TRUE(slow.world.RunUntil(is_released, kLongNs));
  }
}

TEST(SimSlowMapping, SessionEndsAfterItsMappingsAreReleased) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    SlowWorld slow(seed);
    SimTenant& tenant = slow.Process("uid 1000");
    slow.Register(tenant);
    slow.world.RunFor(kNsPerMs);
    tenant.Kill();
    slow.world.RunFor(kNsPerMs);
    EXPECT_EQ(slow.Buffers("uid 1000"), 1) << "the buffer is still being mapped";
    const auto ended = [&] {
      return slow.world.host(0).daemon().sessions() == 0 && slow.Buffers("uid 1000") == 0;
    };
    EXPECT_TRUE(slow.world.RunUntil(ended, kLongNs));
  }
}

}  // namespace slow_mapping_test
}  // namespace mccs
