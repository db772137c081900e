// Lanes over RDMA with memory on GPUs, which the daemon has not mapped: NICs reach it by its
// dma-buf, and no processor copies it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tests/unit/device/gpu_memory.h"
#include "tests/unit/mentions.h"
#include "tests/unit/transport/rdma/rdma_world.h"

namespace mccs {
namespace rdma_gpu_memory_test {

using namespace rdma_test;

constexpr size_t kBytes = 20'000;
constexpr size_t kShort = 40;  // NICs could send it inlined

std::vector<std::byte> Filled(size_t bytes, int value) {
  return std::vector<std::byte>(bytes, std::byte(value));
}

class RdmaGpuMemoryTest : public RdmaWorld {
 protected:
  // Runs until the lane knows whether it reaches the region.
  absl::Status Reach(LaneEnd& lane, const Region& region) {
    absl::StatusOr<std::shared_ptr<const void>> reach = lane.Reach(region);
    EXPECT_TRUE(RunUntil([&] {
      reach = lane.Reach(region);
      return !absl::IsUnavailable(reach.status());
    }));
    return reach.status();
  }
  // With room for the slots, which are part of ProcessMemory.
  static RegistrationLimits Limits(RegistrationLimits limits) {
    limits.bytes_per_nic = kTestLimits.bytes_per_nic;
    return limits;
  }
  bool RunUntilLanded(const Lane& lane, SliceNumber n) {
    return RunUntil([&] { return lane.recv->Landed(n) != Landing::kNotYet; });
  }
};

TEST_F(RdmaGpuMemoryTest, SlicesPassFromGpuToGpuWithoutACopy) {
  Start(2);
  Lane& lane = Open(0, 1);
  lane.send->WaitForPlaces();
  const GpuMemoryOfTest source(Filled(kBytes, 7)), there(Filled(kBytes, 0));
  // From the region's first byte on, whose address must not look like that of a slot.
  ASSERT_TRUE(lane.recv->Expect(0, WholeOf(there), {}));
  ASSERT_TRUE(*lane.send->Post(WholeOf(source), {}));
  ASSERT_TRUE(RunUntilLanded(lane, 0));
  EXPECT_EQ(lane.recv->Landed(0), Landing::kDirect);
  EXPECT_TRUE(std::ranges::equal(there.span(), source.span()));
  EXPECT_EQ(lane.send->counters().copied_bytes, 0u);
  EXPECT_EQ(lane.recv->counters().copied_bytes, 0u);
  EXPECT_GE(fabric_->last_registered.dma_buf, 0);
  EXPECT_EQ(lane.recv->queue_pair()->memory, "dma-buf");
  EXPECT_EQ(fabric_->windows(), 1u) << "only the slots have one";
}

TEST_F(RdmaGpuMemoryTest, AShortSliceIsReadByTheNic) {
  Start(2);
  Lane& lane = Open(0, 1);
  ASSERT_TRUE(RunUntil([&] { return Ready(lane); }));
  const GpuMemoryOfTest source(Filled(kShort, 9));
  ASSERT_TRUE(*lane.send->Post(WholeOf(source), {}));
  EXPECT_EQ(lane.send->source_free(), 0u) << "the lane cannot have copied it";
  ASSERT_TRUE(RunUntilLanded(lane, 0));
  EXPECT_EQ(lane.recv->Landed(0), Landing::kInSlot);
  EXPECT_EQ(lane.recv->slots().address()[kShort - 1], std::byte{9});
  ASSERT_TRUE(RunUntil([&] { return lane.send->source_free() == 1; }));
  EXPECT_EQ(lane.send->counters().copied_bytes, 0u);
}

TEST_F(RdmaGpuMemoryTest, ALaneReachesARegionWhenItIsRegistered) {
  Start(2);
  Lane& lane = Open(0, 1);
  const GpuMemoryOfTest buffer(Filled(kBytes, 0));
  jobs_held_ = true;
  EXPECT_TRUE(absl::IsUnavailable(lane.send->Reach(buffer).status()));
  jobs_held_ = false;
  EXPECT_TRUE(Reach(*lane.send, buffer).ok());
  EXPECT_TRUE(Reach(*lane.recv, buffer).ok());
}

// Otherwise the operation that needs it might find no room to register it again.
TEST_F(RdmaGpuMemoryTest, WhatALaneReachesStaysRegisteredWhileItIsHeld) {
  Start(2, {}, {.regions_per_nic = 2});
  Lane& lane = Open(0, 1);
  const GpuMemoryOfTest buffer(Filled(kBytes, 0)), second(Filled(kBytes, 0)),
      third(Filled(kBytes, 0));
  ASSERT_TRUE(Reach(*lane.send, buffer).ok());
  {
    const absl::StatusOr<std::shared_ptr<const void>> held = lane.send->Reach(buffer);
    ASSERT_TRUE(held.ok());
    ASSERT_TRUE(Reach(*lane.send, second).ok());
    ASSERT_TRUE(Reach(*lane.send, third).ok());  // in the place of the second one
    EXPECT_TRUE(lane.send->Reach(buffer).ok());
  }
  EXPECT_EQ(host(0).memory().UsageOf(nic(0)).regions, 2u);
}

TEST_F(RdmaGpuMemoryTest, ALaneDoesNotReachWhatItsNicCannotRegister) {
  Start(2, {.no_dma_bufs = "its driver cannot register dma-bufs"});
  Lane& lane = Open(0, 1);
  lane.send->WaitForPlaces();
  const GpuMemoryOfTest buffer(Filled(kBytes, 0));
  const GpuMemoryOfTest without(Filled(kBytes, 0), "the GPU has no dma-bufs");
  EXPECT_THAT(Reach(*lane.recv, buffer).message(), Mentions("fake1", "register dma-bufs"));
  EXPECT_EQ(host(1).transport.WhyNotOnGpus(), "fake1: its driver cannot register dma-bufs");
  // A slice that it receives for such memory stays in its slot.
  const OwnedMemory source(Filled(kBytes, 7));
  ASSERT_TRUE(lane.recv->Expect(0, WholeOf(buffer), {}));
  ASSERT_TRUE(lane.recv->Expect(1, WholeOf(without), {}));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(*lane.send->Post(WholeOf(source), {}));
  ASSERT_TRUE(RunUntilLanded(lane, 1));
  EXPECT_EQ(lane.recv->Landed(0), Landing::kInSlot);
  EXPECT_EQ(lane.recv->Landed(1), Landing::kInSlot);
}

// A processor can neither fill nor empty a bounce buffer for it.
TEST_F(RdmaGpuMemoryTest, ALaneThatWouldHaveToCopyMemoryOnAGpuFails) {
  for (const bool sends : {true, false}) {
    SCOPED_TRACE(sends);
    Start(2);
    Lane& lane = Open(0, 1, /*traffic_class=*/0, /*has_slots=*/sends);
    ASSERT_TRUE(RunUntil([&] { return Ready(lane); }));
    const GpuMemoryOfTest buffer(Filled(kBytes, 0), "the GPU has no dma-bufs");
    const OwnedMemory source(Filled(kBytes, 7));
    if (!sends) {
      ASSERT_TRUE(lane.recv->Expect(0, WholeOf(buffer), {}));
    }
    ASSERT_TRUE(*lane.send->Post(sends ? WholeOf(buffer) : WholeOf(source), {}));
    const LaneEnd& fails = sends ? static_cast<LaneEnd&>(*lane.send) : *lane.recv;
    ASSERT_TRUE(RunUntil([&] { return fails.state() == LaneState::kFailed; }));
    EXPECT_THAT(fails.status().message(), Mentions("the GPU has no dma-bufs"));
    Stop();
  }
}

// A window would end at once.
TEST_F(RdmaGpuMemoryTest, APeerDoesNotWriteAPlaceAfterTheEndOfItsLane) {
  Start(2);
  Lane& lane = Open(0, 1);
  Lane& other = Open(0, 1);
  lane.send->WaitForPlaces();
  ASSERT_TRUE(RunUntil([&] { return Ready(lane) && Ready(other); }));
  const OwnedMemory source(Filled(kBytes, 7));
  const GpuMemoryOfTest there(Filled(kBytes, 0));
  ASSERT_TRUE(lane.recv->Expect(0, WholeOf(there), {}));
  ASSERT_TRUE(Reach(*lane.recv, there).ok());
  for (int i = 0; i < 100; ++i) lane.recv->Poll();  // gives the place
  fabric_->hangs = true;
  ASSERT_TRUE(*lane.send->Post(WholeOf(source), {}));
  lane.recv.reset();
  fabric_->hangs = false;
  ASSERT_TRUE(RunUntil([&] { return !Ready(other); })) << "the queue pair stays";
  for (int i = 0; i < 100; ++i) Advance();
  EXPECT_EQ(std::ranges::count(there.span(), std::byte{0}), static_cast<ptrdiff_t>(kBytes));
}

TEST_F(RdmaGpuMemoryTest, NothingIsRegisteredWhenTheRegionEnds) {
  Start(2);
  Lane& lane = Open(0, 1);
  lane.send->WaitForPlaces();
  const OwnedMemory source(Filled(kBytes, 7));
  const uint64_t before = host(1).memory().UsageOf(nic(1)).regions;
  const auto there = std::make_unique<GpuMemoryOfTest>(Filled(kBytes, 0));
  ASSERT_TRUE(lane.recv->Expect(0, WholeOf(*there), {}));
  ASSERT_TRUE(*lane.send->Post(WholeOf(source), {}));
  ASSERT_TRUE(RunUntilLanded(lane, 0));
  lane.recv->Release(0);
  auto token = std::make_shared<int>(0);
  const std::weak_ptr<int> ended = token;
  jobs_held_ = true;
  host(1).transport.Forget(*there, std::move(token));
  for (int i = 0; i < 100; ++i) host(1).transport.Poll();
  EXPECT_FALSE(ended.expired()) << "the device has not deregistered it yet";
  jobs_held_ = false;
  ASSERT_TRUE(RunUntil([&] { return ended.expired(); }));
  EXPECT_LE(host(1).memory().UsageOf(nic(1)).regions, before + 1) << "the slots stay";
  EXPECT_EQ(lane.recv->state(), LaneState::kReady);
}

// Eviction looks at the least recently used regions. Those that are not registered are not among
// them.
TEST_F(RdmaGpuMemoryTest, RegionsThatAreNotRegisteredDoNotHideThoseThatAre) {
  for (const bool fails : {false, true}) {
    SCOPED_TRACE(fails);
    Start(2, {}, Limits({.regions_per_nic = 2}));
    Lane& lane = Open(0, 1);
    ASSERT_TRUE(RunUntil([&] { return Ready(lane); }));
    if (fails) fabric_->dma_buf_failure = absl::ResourceExhaustedError("no translations");
    std::vector<std::unique_ptr<GpuMemoryOfTest>> others;
    for (int i = 0; i < 100; ++i) {
      const std::string why = fails ? "" : "the GPU has no dma-bufs";
      others.push_back(std::make_unique<GpuMemoryOfTest>(Filled(kShort, 0), why));
      for (int use = 0; use < 2; ++use) EXPECT_FALSE(Reach(*lane.send, *others.back()).ok());
    }
    fabric_->dma_buf_failure = absl::OkStatus();
    std::vector<std::unique_ptr<GpuMemoryOfTest>> registered;
    for (int i = 0; i < 5; ++i) {
      registered.push_back(std::make_unique<GpuMemoryOfTest>(Filled(kShort, 0)));
      EXPECT_TRUE(Reach(*lane.send, *registered.back()).ok()) << i;
    }
    Stop();
  }
}

// The kernel pins pages of the host only.
TEST_F(RdmaGpuMemoryTest, OnlyMemoryOfTheHostCountsAsPinned) {
  Start(2);
  Lane& lane = Open(0, 1);
  HostBudget budget(PinnedMemory(3 * kBytes));
  const auto red = Of(budget, "red");
  GpuMemoryOfTest buffer(Filled(kBytes, 0)), second(Filled(kBytes, 0));
  OwnedMemory host_memory(Filled(kBytes, 0)), more(Filled(kBytes, 0));
  for (Region* region : std::vector<Region*>{&buffer, &second, &host_memory, &more})
    region->SetBudget(red);
  ASSERT_TRUE(Reach(*lane.send, buffer).ok());
  ASSERT_TRUE(Reach(*lane.send, second).ok());
  EXPECT_EQ(budget.held(Resource::kPinnedMemory), 0u);
  ASSERT_TRUE(Reach(*lane.send, host_memory).ok());
  const auto held = lane.send->Reach(host_memory);
  EXPECT_EQ(budget.held(Resource::kPinnedMemory), kBytes);
  EXPECT_FALSE(Reach(*lane.send, more).ok());
  EXPECT_TRUE(lane.send->Reach(buffer).ok()) << "it is not evicted for memory of the host";
}

TEST_F(RdmaGpuMemoryTest, AnEvictedRegionEndsWhenItIsNotRegistered) {
  Start(2, {}, {.regions_per_nic = 1});
  Lane& lane = Open(0, 1, /*traffic_class=*/0, /*has_slots=*/false);
  const GpuMemoryOfTest buffer(Filled(kBytes, 0)), second(Filled(kBytes, 0));
  ASSERT_TRUE(Reach(*lane.send, buffer).ok());
  jobs_held_ = true;
  EXPECT_TRUE(absl::IsUnavailable(lane.send->Reach(second).status())) << "in its place";
  auto token = std::make_shared<int>(0);
  const std::weak_ptr<int> ended = token;
  host(0).transport.Forget(buffer, std::move(token));
  for (int i = 0; i < 100; ++i) host(0).transport.Poll();
  EXPECT_FALSE(ended.expired()) << "the device has not deregistered it yet";
  jobs_held_ = false;
  EXPECT_TRUE(RunUntil([&] { return ended.expired(); }));
}

// As after a change of the NIC: what was registered with the last one is not with the next one.
TEST_F(RdmaGpuMemoryTest, ALaneWaitsForRoomForMemoryOnAGpu) {
  for (const bool sends : {true, false}) {
    for (const bool forgotten : {true, false}) {
      SCOPED_TRACE(testing::Message() << sends << forgotten);
      Start(2, {}, Limits({.regions_per_nic = 2}));
      Lane& lane = Open(0, 1, /*traffic_class=*/0, /*has_slots=*/false);
      Lane& other = Open(0, 1);
      ASSERT_TRUE(RunUntil([&] { return Ready(lane) && Ready(other); }));
      LaneEnd& end = sends ? static_cast<LaneEnd&>(*other.send) : *other.recv;
      const GpuMemoryOfTest users[] = {GpuMemoryOfTest(Filled(kBytes, 0)),
                                       GpuMemoryOfTest(Filled(kBytes, 0))};
      std::vector<std::shared_ptr<const void>> held;
      for (const GpuMemoryOfTest& user : users) {
        if (!Reach(end, user).ok()) break;  // the receiver's slots are the second region
        held.push_back(*end.Reach(user));
      }
      const GpuMemoryOfTest source(Filled(kBytes, 7)), there(Filled(kBytes, 0));
      const OwnedMemory mapped(Filled(kBytes, 7)), mapped_there(Filled(kBytes, 0));
      const Region& to = sends ? static_cast<const Region&>(mapped_there) : there;
      ASSERT_TRUE(lane.recv->Expect(0, WholeOf(to), {}));
      ASSERT_TRUE(*lane.send->Post(
          sends ? WholeOf(source) : WholeOf(static_cast<const Region&>(mapped)), {}));
      int turns = 0;
      RunUntil([&] { return ++turns == 10'000; });
      EXPECT_EQ(lane.recv->Landed(0), Landing::kNotYet);
      EXPECT_NE(lane.send->state(), LaneState::kFailed) << lane.send->status();
      EXPECT_NE(lane.recv->state(), LaneState::kFailed) << lane.recv->status();
      held.clear();
      if (forgotten) host(sends ? 0 : 1).transport.Forget(users[0], nullptr);
      EXPECT_TRUE(RunUntilLanded(lane, 0));
      Stop();
    }
  }
}

}  // namespace rdma_gpu_memory_test
}  // namespace mccs
