// The buffer limit of a tenant covers all its processes; a process that ends frees its share.
#include <gtest/gtest.h>

#include <array>

#include "tests/sim/sim_world.h"

namespace mccs {
namespace buffer_limit_test {

class SimBufferLimit : public testing::Test {
 protected:
  SimTenant& Process(const std::string& tenant) {
    SimTenant& process = world_.AddTenant(0, tenant);
    EXPECT_TRUE(world_.RunUntil([&] { return process.connected(); }));
    return process;
  }
  // Whether the daemon accepted the buffer.
  bool Register(SimTenant& process, size_t buffer) {
    process.Register(memory_[buffer].data(), memory_[buffer].size());
    world_.RunFor(kNsPerMs);
    return process.BufferAt(memory_[buffer].data()) != 0;
  }

  std::array<std::array<std::byte, 64>, 6> memory_;
  SimWorld world_{{.hosts = 1, .network = {}, .buffers = {.buffers_per_tenant = 3}}};
};

TEST_F(SimBufferLimit, AppliesToAllProcessesOfATenant) {
  SimTenant& first = Process("blue");
  SimTenant& second = Process("blue");
  SimTenant& neighbor = Process("red");
  EXPECT_TRUE(Register(first, 0) && Register(first, 1) && Register(second, 2));
  EXPECT_FALSE(Register(second, 3));
  EXPECT_TRUE(Register(neighbor, 4));
  first.Kill();
  ASSERT_TRUE(world_.RunUntil([&] { return world_.host(0).daemon().sessions() == 2; }));
  EXPECT_TRUE(Register(second, 5));
}

}  // namespace buffer_limit_test
}  // namespace mccs
