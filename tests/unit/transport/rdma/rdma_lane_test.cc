// Lanes over RDMA: what they cost, what they share, and failures of devices and memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/mentions.h"
#include "tests/unit/transport/rdma/rdma_world.h"

namespace mccs {
namespace rdma_lane_test {

using namespace rdma_test;

class RdmaLaneTest : public RdmaWorld {};

// Uses a queue pair and memory beside the lanes.
class IdleUser final : public PeerPair::User, public MemoryTable::Waiter {
 public:
  void OnSent(uint64_t) override {}
  void OnMessage(const wire::PairMessage&) override {}
  void OnWritten(const wire::ImmediateFields&, uint32_t) override {}
  void OnProgress() override { ++progress; }
  void OnPairLost(const absl::Status&) override {}
  void OnRegistered() override {}

  int progress = 0;
};

TEST_F(RdmaLaneTest, ASliceCostsOneRequestAndOneCompletionAtEachEnd) {
  Start(2);
  Lane& lane = Open(0, 1);
  constexpr SliceNumber kSlices = 2'000;
  ASSERT_TRUE(RunUntil([&] {
    Carry(lane, kSlices);
    return lane.send->acknowledged() == kSlices;
  }));
  const VerbsNic::Counters sender = nic(0).counters(), receiver = nic(1).counters();
  const auto per_slice = [](uint64_t count) { return static_cast<double>(count) / kSlices; };
  // More only by a tag, and by the receiver's messages that return receives.
  EXPECT_LE(per_slice(sender.requests), 1.01);
  EXPECT_LE(per_slice(receiver.completions), 1.05);
  // Credit, and what returns receives.
  EXPECT_LE(per_slice(receiver.requests), 1);
  EXPECT_LE(per_slice(sender.completions), 1);
  EXPECT_LE(per_slice(receiver.refills), 1.0 / 8);
  EXPECT_LE(per_slice(sender.refills), 1.0 / 8);
}

TEST_F(RdmaLaneTest, LanesOfBothDirectionsShareAQueuePair) {
  Start(2);
  for (int i = 0; i < 3; ++i) {
    Open(0, 1);
    Open(1, 0);
  }
  ASSERT_TRUE(RunUntil(
      [&] { return std::ranges::all_of(lanes_, [&](const auto& lane) { return Ready(*lane); }); }));
  EXPECT_EQ(nic(0).queue_pairs(), 1u);
  EXPECT_EQ(nic(1).queue_pairs(), 1u);
  Open(0, 1, /*traffic_class=*/2);
  ASSERT_TRUE(RunUntil([&] { return Ready(*lanes_.back()); }));
  EXPECT_EQ(nic(0).queue_pairs(), 2u) << "another class has its own";
  lanes_.clear();
  EXPECT_TRUE(RunUntil([&] { return nic(0).queue_pairs() == 0 && nic(1).queue_pairs() == 0; }));
}

TEST_F(RdmaLaneTest, TenantsShareNeitherQueuePairsNorMemory) {
  Start(2);
  Open(0, 1);
  Lane& other = Open(0, 1, /*traffic_class=*/0, /*has_slots=*/true, "b");
  ASSERT_TRUE(RunUntil([&] { return Ready(*lanes_[0]) && Ready(other); }));
  EXPECT_EQ(nic(0).queue_pairs(), 2u);
  ASSERT_TRUE(RunUntil([&] {
    Carry(*lanes_[0], 1);
    Carry(other, 1);
    return lanes_[0]->landed == 1 && other.landed == 1;
  }));
  EXPECT_EQ(host(0).memory().UsageOf(nic(0)).regions, 2u) << "one for each tenant";
}

TEST_F(RdmaLaneTest, TheDeviceLimitsAQueuePairToTheSumOfItsLanes) {
  struct Gate final : SendGate {
    explicit Gate(uint64_t its_bps) : bps(its_bps) {}
    uint64_t Allowance() override { return 1 << 20; }
    uint64_t rate_bps() const override { return bps; }
    void Sent(uint64_t) override {}
    void OnTurnEnd(const Turn&) override {}
    uint64_t bps;
  };
  Gate first(16'000'000'000), second(8'000'000'000);
  Start(2, {.rate_limits = true});
  Lane& lane = Open(0, 1);
  lane.send->SetGate(&first);
  const auto is_limited_to = [&](uint64_t bps) {
    return RunUntil([&] { return nic(0).last_rate() == bps; });
  };
  ASSERT_TRUE(is_limited_to(17'000'000'000)) << "one sixteenth more than the payload";
  Lane& other = Open(0, 1);
  other.send->SetGate(&second);
  EXPECT_TRUE(is_limited_to(25'500'000'000));
  second.bps = 16'000'000'000;
  EXPECT_TRUE(is_limited_to(34'000'000'000));
  second.bps = 0;
  EXPECT_TRUE(is_limited_to(0)) << "a lane without a limit may use what it can";
  other.send.reset();
  EXPECT_TRUE(is_limited_to(17'000'000'000));
  EXPECT_FALSE(nic(1).last_rate().has_value()) << "a receiver sends no payload";
  lane.send.reset();
}

// One thread runs all of it: the thread sanitizer, which takes six times as long, finds as much
// with fewer peers.
#ifdef __SANITIZE_THREAD__
constexpr size_t kPeers = 128;
#else
constexpr size_t kPeers = 1'024;
#endif

TEST_F(RdmaLaneTest, ManyPeersNeedOneQueuePairPerClass) {
  constexpr uint8_t kClasses = 4;
  constexpr int kLanesPerClass = 2;
  Start(kPeers + 1);
  for (size_t peer = 1; peer <= kPeers; ++peer) {
    for (uint8_t traffic_class = 0; traffic_class < kClasses; ++traffic_class) {
      for (int i = 0; i < kLanesPerClass; ++i) Open(0, peer, traffic_class, /*has_slots=*/false);
    }
  }
  ASSERT_TRUE(RunUntil([&] {
    for (int i = 0; i < 2'000; ++i) Advance();  // before all lanes are polled again
    return std::ranges::all_of(lanes_, [&](const auto& lane) { return Ready(*lane); });
  }));
  EXPECT_EQ(nic(0).queue_pairs(), kPeers * kClasses);
}

// Also if a host is late, and its peers have more to send than it has receive entries.
TEST_F(RdmaLaneTest, TheReceiveQueueIsNeverEmpty) {
  Start(3);
  for (int i = 0; i < 20; ++i) {
    for (size_t from = 0; from < 3; ++from) {
      for (size_t to = 0; to < 3; ++to) {
        if (from != to) Open(from, to);
      }
    }
  }
  ASSERT_TRUE(RunUntil(
      [&] { return std::ranges::all_of(lanes_, [&](const auto& lane) { return Ready(*lane); }); }));
  constexpr SliceNumber kSlices = 100;
  const auto carry = [&] {
    for (const auto& lane : lanes_) Carry(*lane, kSlices);
  };
  late_host_ = 2;
  ASSERT_TRUE(RunUntil([&, turns = 0]() mutable {
    carry();
    return ++turns > 1'000;
  }));
  EXPECT_GT(nic(2).used_entries(), 100u) << "its peers have used all that they may";
  late_host_.reset();
  ASSERT_TRUE(RunUntil([&] {
    carry();
    return std::ranges::all_of(
        lanes_, [&](const auto& lane) { return lane->send->acknowledged() == kSlices; });
  }));
  for (size_t h = 0; h < 3; ++h) EXPECT_EQ(nic(h).not_ready(), 0u);
}

// Otherwise the receive entries that it has consumed are lost for its tenant.
TEST_F(RdmaLaneTest, AQueuePairStaysUntilItsCompletionsHaveBeenPolled) {
  Start(2);
  for (int i = 0; i < 20; ++i) {
    Lane& lane = Open(0, 1);
    ASSERT_TRUE(RunUntil([&] { return Ready(lane); }));
    Carry(lane, 8);
    ASSERT_TRUE(RunUntil([&, n = i]() mutable { return n-- == 0; }));
    lanes_.clear();  // with slices in flight
  }
  ASSERT_TRUE(RunUntil([&] { return nic(0).queue_pairs() == 0 && nic(1).queue_pairs() == 0; }));
  EXPECT_EQ(nic(0).lost(), 0);
  EXPECT_EQ(nic(1).lost(), 0);
}

// A tenant whose peers send without a pause keeps the completion queue full.
TEST_F(RdmaLaneTest, AFailedQueuePairEndsWhileOthersFloodTheNic) {
  Start(2);
  Lane& lane = Open(0, 1);
  ASSERT_TRUE(RunUntil([&] { return Ready(lane); }));
  Completion flood;
  flood.queue_pair = QueuePairNumber(77'777);
  fabric_->next_failure = CompletionStatus::kRemoteError;
  Carry(lane, 1);
  const auto flooded = [&](const std::function<bool()>& done) {
    return RunUntil([&] {
      for (size_t h = 0; h < 2; ++h) {
        for (int i = 0; i < 1'100; ++i) nic(h).Inject(flood);
      }
      Advance();
      return done();
    });
  };
  int turns = 0;
  EXPECT_TRUE(flooded([&] {
    Carry(lane, 1);
    if (!lane.send->status().ok() && !lane.recv->status().ok()) Attach(lane);
    return ++turns > 3'000 || lane.send->acknowledged() == 1;
  }));
  EXPECT_EQ(lane.send->acknowledged(), 1u);
  EXPECT_EQ(lane.send->counters().reconnects, 1u);
}

TEST_F(RdmaLaneTest, AFailedDeviceEndsLanesAndStartsNoOthers) {
  Start(3);
  Lane& lane = Open(0, 1);
  Lane& other = Open(1, 2);
  ASSERT_TRUE(RunUntil([&] { return Ready(lane) && Ready(other); }));
  nic(0).FailDevice();
  ASSERT_TRUE(RunUntil([&] {
    return lane.send->state() == LaneState::kStalled && lane.recv->state() == LaneState::kStalled;
  }));
  Lane& later = Open(0, 1);
  ASSERT_TRUE(RunUntil([&] { return later.send->state() == LaneState::kStalled; }));
  EXPECT_THAT(later.send->status().message(), Mentions("fake0", "device error"));
  EXPECT_TRUE(Ready(other));
}

// Also while queue pairs are being made, or slices wait for places.
TEST_F(RdmaLaneTest, ADeviceMayFailAtAnyMoment) {
  for (const size_t fails : {0, 1}) {
    for (int moment = 0; moment < 60; ++moment) {
      SCOPED_TRACE(testing::Message() << "NIC " << fails << " after " << moment << " turns");
      Start(2);
      std::vector<Lane*> lanes = {&Open(0, 1), &Open(1, 0)};
      RunUntil([&, left = moment]() mutable {
        Carry(*lanes[0], 2);
        return left-- == 0;
      });
      jobs_held_ = true;
      lanes.push_back(&Open(0, 1, /*traffic_class=*/1));
      RunUntil([left = 20]() mutable { return left-- == 0; });
      nic(fails).FailDevice();
      RunUntil([left = 20]() mutable { return left-- == 0; });
      jobs_held_ = false;
      lanes.push_back(&Open(0, 1));
      lanes.push_back(&Open(1, 0));
      lanes.push_back(&Open(0, 1, /*traffic_class=*/1));
      for (int i = 0; i < 2; ++i) {
        ASSERT_TRUE(RunUntil([&] {
          return std::ranges::all_of(lanes, [&](const Lane* lane) {
            const LaneEnd& end = fails == lane->from ? static_cast<LaneEnd&>(*lane->send)
                                                     : static_cast<LaneEnd&>(*lane->recv);
            return end.state() == LaneState::kStalled;
          });
        }));
        EXPECT_EQ(host(fails).pairs().size(), 0u);
        for (Lane* const lane : lanes) Attach(*lane);
      }
      Stop();
      if (HasFailure()) return;
    }
  }
}

TEST_F(RdmaLaneTest, MemoryThatCannotBeRegisteredIsCopied) {
  Start(2);
  Lane& lane = Open(0, 1);
  Lane& slotless = Open(0, 1, /*traffic_class=*/0, /*has_slots=*/false);
  lane.send->WaitForPlaces();
  lane.recv->ExpectInSlot(0);
  ASSERT_TRUE(RunUntil([&] {
    Carry(lane, 1);
    return lane.send->acknowledged() == 1;
  }));
  constexpr size_t kBytes = 50'000;
  const OwnedMemory source(std::vector<std::byte>(kBytes, std::byte{7}));
  const OwnedMemory there(std::vector<std::byte>(2 * kBytes, std::byte{0}));
  fabric_->registration_failure = absl::ResourceExhaustedError("the limit of locked memory");
  fabric_->registration_failures = 2;  // not of bounce buffers
  ASSERT_TRUE(lane.recv->Expect(1, WholeOf(there).Part(0, kBytes), {}));
  ASSERT_TRUE(slotless.recv->Expect(0, WholeOf(there).Part(kBytes, kBytes), {}));
  ASSERT_TRUE(*lane.send->Post(WholeOf(source), {}));
  ASSERT_TRUE(*slotless.send->Post(WholeOf(source), {}));
  ASSERT_TRUE(RunUntil([&] {
    return lane.recv->Landed(1) != Landing::kNotYet && slotless.recv->Landed(0) != Landing::kNotYet;
  }));
  EXPECT_EQ(lane.recv->Landed(1), Landing::kInSlot);
  EXPECT_EQ(lane.recv->slots().address()[kShape.slot_bytes], std::byte{7});
  EXPECT_EQ(slotless.recv->Landed(0), Landing::kDirect);
  EXPECT_EQ(std::ranges::count(there.span(), std::byte{7}), static_cast<ptrdiff_t>(kBytes));
  EXPECT_EQ(slotless.recv->counters().copied_bytes, kBytes);
  EXPECT_GE(lane.send->counters().copied_bytes, kBytes);
}

// Each binds a window: a message has places of one region only.
TEST_F(RdmaLaneTest, PlacesInTwoRegionsDoNotOverfillTheQueuePair) {
  Start(2);
  Lane& lane = Open(1, 0);  // the receiver makes the queue pair
  lane.send->WaitForPlaces();
  ASSERT_TRUE(RunUntil([&] { return Ready(lane); }));
  const auto pair = host(0).pairs().FindOrMake(
      {.queues = IdentityAt(false, 1, 0, 0, kTenant).queues, .peer_gid = nic(1).attributes().gid});
  ASSERT_TRUE(pair.ok()) << pair.status();
  ASSERT_TRUE((*pair)->usable());
  IdleUser user;
  const LaneNumber number = *(*pair)->Join(user);
  const auto domain = host(0).pairs().Domain(IdentityAt(false, 1, 0, 0, kTenant).queues.domain);
  ASSERT_TRUE(domain.ok());
  constexpr size_t kBytes = 20'000;
  const OwnedMemory first(std::vector<std::byte>(kBytes, std::byte{0}));
  const OwnedMemory second(std::vector<std::byte>(kBytes, std::byte{0}));
  std::shared_ptr<RegisteredMemory> memory;
  for (const OwnedMemory* const used : {&first, &second}) {
    memory = host(0).memory().Use(*used, *domain, user);
    ASSERT_TRUE(RunUntil([&] { return memory->ready(); }));
  }
  // The device does nothing: requests collect until there is room for two more.
  fabric_->hangs = true;
  std::vector<std::shared_ptr<WindowBinding>> bindings;
  while ((*pair)->Claim(number, 3)) {
    const auto bound = (*pair)->Bind(number, memory);
    ASSERT_TRUE(bound.ok());
    if (*bound != nullptr) bindings.push_back(*bound);
    host(0).transport.Poll();
  }
  ASSERT_TRUE((*pair)->Claim(number, 2));
  ASSERT_TRUE(lane.recv->Expect(0, WholeOf(first), {}));
  ASSERT_TRUE(lane.recv->Expect(1, WholeOf(second), {}));
  for (int i = 0; i < 10; ++i) lane.recv->Poll();

  fabric_->hangs = false;
  const OwnedMemory source(std::vector<std::byte>(kBytes, std::byte{7}));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(*lane.send->Post(WholeOf(source), {}));
  ASSERT_TRUE(RunUntil([&] { return lane.send->acknowledged() == 2; }));
  EXPECT_EQ(lane.recv->Landed(0), Landing::kDirect);
  EXPECT_EQ(lane.recv->Landed(1), Landing::kDirect);
  EXPECT_EQ(lane.send->counters().reconnects, 0u);
  bindings.clear();
  (*pair)->Leave(number);
}

// A program may use any number of buffers. The peer may write those that were used last.
TEST_F(RdmaLaneTest, ALaneKeepsAFewWindowsToRegions) {
  Start(2);
  Lane& lane = Open(0, 1);
  lane.send->WaitForPlaces();
  ASSERT_TRUE(RunUntil([&] { return Ready(lane); }));
  constexpr size_t kBytes = 20'000;
  constexpr SliceNumber kRegions = 500;
  const OwnedMemory source(std::vector<std::byte>(kBytes, std::byte{7}));
  std::vector<std::unique_ptr<OwnedMemory>> regions;
  for (SliceNumber n = 0; n < kRegions; ++n) {
    regions.push_back(std::make_unique<OwnedMemory>(std::vector<std::byte>(kBytes)));
    ASSERT_TRUE(lane.recv->Expect(n, WholeOf(*regions.back()), {}));
    ASSERT_TRUE(*lane.send->Post(WholeOf(source), {}));
    ASSERT_TRUE(RunUntil([&] { return lane.send->acknowledged() == n + 1; }));
    ASSERT_EQ(lane.recv->Landed(n), Landing::kDirect);
    lane.recv->Release(n);
  }
  RunUntil([left = 100]() mutable { return left-- == 0; });
  EXPECT_LE(fabric_->windows(), 80u);
  EXPECT_EQ(lane.send->counters().reconnects, 0u);
  EXPECT_EQ(nic(1).access_errors(), 0u);
}

TEST_F(RdmaLaneTest, WithoutAWindowASliceTakesItsSlot) {
  Start(2);
  Lane& lane = Open(0, 1);
  lane.send->WaitForPlaces();
  lane.recv->ExpectInSlot(0);
  ASSERT_TRUE(RunUntil([&] {
    Carry(lane, 1);
    return lane.send->acknowledged() == 1;
  }));
  fabric_->window_failure = absl::ResourceExhaustedError("no window is left");
  constexpr size_t kBytes = 20'000;
  const OwnedMemory source(std::vector<std::byte>(kBytes, std::byte{7}));
  std::vector<std::unique_ptr<OwnedMemory>> regions;
  constexpr SliceNumber kRegions = 50;  // more than windows that were made already
  for (SliceNumber n = 1; n < kRegions; ++n) {
    regions.push_back(std::make_unique<OwnedMemory>(std::vector<std::byte>(kBytes)));
    ASSERT_TRUE(lane.recv->Expect(n, WholeOf(*regions.back()), {}));
    ASSERT_TRUE(*lane.send->Post(WholeOf(source), {}));
    ASSERT_TRUE(RunUntil([&] { return lane.send->acknowledged() == n + 1; })) << n;
    if (n + 1 < kRegions) lane.recv->Release(n);
  }
  EXPECT_EQ(lane.recv->Landed(kRegions - 1), Landing::kInSlot);
  EXPECT_EQ(lane.send->counters().reconnects, 0u);
}

// The peer's NIC may still write the bounce buffer over the last queue pair.
TEST_F(RdmaLaneTest, ASliceInFlightToABounceBufferSurvivesAnotherConnection) {
  Start(2, {.portion_bytes = 1'000});
  Lane& lane = Open(0, 1, /*traffic_class=*/0, /*has_slots=*/false);
  Lane& other = Open(0, 1);
  ASSERT_TRUE(RunUntil([&] { return Ready(lane) && Ready(other); }));
  constexpr size_t kBytes = 50'000;
  const OwnedMemory source(std::vector<std::byte>(kBytes, std::byte{7}));
  const OwnedMemory there(std::vector<std::byte>(2 * kBytes, std::byte{0}));
  fabric_->registration_failure = absl::ResourceExhaustedError("the limit of locked memory");
  fabric_->registration_failures = 1;  // not of the bounce buffer
  for (SliceNumber n = 0; n < 2; ++n) {
    ASSERT_TRUE(lane.recv->Expect(n, WholeOf(there).Part(n * kBytes, kBytes), {}));
  }
  const uint64_t requests = nic(0).counters().requests;
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(*lane.send->Post(WholeOf(source), {}));
  const auto writes = [&] { return nic(0).counters().requests - requests > 2; };
  ASSERT_TRUE(RunUntil(writes)) << "two announcements, and the first slice";
  for (int i = 0; i < 10; ++i) Advance();  // to its middle
  Attach(lane);
  ASSERT_TRUE(RunUntil([&] { return lane.send->acknowledged() == 2; }));
  EXPECT_EQ(std::ranges::count(there.span(), std::byte{7}), static_cast<ptrdiff_t>(2 * kBytes));
  EXPECT_EQ(lane.recv->Landed(0), Landing::kDirect);
  EXPECT_TRUE(Ready(other)) << "the queue pair works";
  EXPECT_EQ(nic(1).access_errors(), 0u);
}

TEST_F(RdmaLaneTest, SlotsThatCannotBeRegisteredEndTheLaneWithTheReason) {
  Start(2);
  fabric_->registration_failure = absl::ResourceExhaustedError("the limit of locked memory");
  Lane& lane = Open(0, 1);
  ASSERT_TRUE(RunUntil([&] { return lane.recv->state() == LaneState::kFailed; }));
  EXPECT_THAT(lane.recv->status().message(), Mentions("the limit of locked memory"));
}

// Memory of tenants that NICs pin, in a host's budget.
class PinnedMemoryTest : public RdmaWorld {
 protected:
  static constexpr uint64_t kBytes = 50'000;

  PinnedMemoryTest() { Start(2); }

  Lane& OpenFor(const std::string& tenant) {
    return Open(0, 1, /*traffic_class=*/0, /*has_slots=*/true, tenant, /*own_slots=*/true);
  }
  OwnedMemory& Memory(const std::shared_ptr<TenantResources>& budget, uint64_t bytes = kBytes) {
    memory_.push_back(std::make_unique<OwnedMemory>(std::vector<std::byte>(bytes)));
    memory_.back()->SetBudget(budget);
    return *memory_.back();
  }
  // Runs until the lane knows whether it reaches the region.
  absl::StatusOr<std::shared_ptr<const void>> Reach(Lane& lane, const Region& region) {
    absl::StatusOr<std::shared_ptr<const void>> reach = lane.send->Reach(region);
    EXPECT_TRUE(RunUntil([&] {
      reach = lane.send->Reach(region);
      return !absl::IsUnavailable(reach.status());
    }));
    return reach;
  }
  uint64_t pinned() const { return budget_.held(Resource::kPinnedMemory); }

  HostBudget budget_{PinnedMemory(5 * kBytes)};
  const std::shared_ptr<TenantResources> red_ = Of(budget_, "red"), blue_ = Of(budget_, "blue");
  std::vector<std::unique_ptr<OwnedMemory>> memory_;
};

// The tenant chooses what its programs register. It cannot use up the host's memory: what it may
// not pin is copied.
TEST_F(PinnedMemoryTest, ATenantPinsNoMoreThanItLeavesFree) {
  Lane& lane = OpenFor("red");
  Lane& others = OpenFor("blue");
  std::vector<const OwnedMemory*> sources;
  for (SliceNumber n = 0; n < 3; ++n) {
    sources.push_back(&Memory(red_));
    ASSERT_TRUE(*lane.send->Post(WholeOf(*sources.back()), {}));
  }
  ASSERT_TRUE(*others.send->Post(WholeOf(Memory(blue_)), {}));
  ASSERT_TRUE(
      RunUntil([&] { return lane.send->acknowledged() == 3 && others.send->acknowledged() == 1; }));
  EXPECT_GE(lane.send->counters().copied_bytes, kBytes) << "the third one";
  EXPECT_EQ(others.send->counters().copied_bytes, 0u);
  EXPECT_EQ(red_->held(Resource::kPinnedMemory), 2 * kBytes);
  EXPECT_EQ(blue_->held(Resource::kPinnedMemory), kBytes);

  // There is room again.
  host(0).transport.Forget(*sources[0], nullptr);
  const uint64_t copied = lane.send->counters().copied_bytes;
  for (SliceNumber n = 0; n < 3; ++n) lane.recv->Release(n);
  ASSERT_TRUE(*lane.send->Post(WholeOf(*sources[2]), {}));
  ASSERT_TRUE(RunUntil([&] { return lane.send->acknowledged() == 4; }));
  EXPECT_EQ(lane.send->counters().copied_bytes, copied);
}

TEST_F(PinnedMemoryTest, ARefusalHasNumbersAndRemedy) {
  Lane& lane = OpenFor("red");
  EXPECT_EQ(Reach(lane, Memory(red_, 3 * kBytes)).status().message(),
            "too much memory pinned for NICs on this host: tenant red has 0 B and asks for 146.48 "
            "KiB more, 244.14 KiB of 244.14 KiB are free, and a tenant may not have more than it "
            "leaves free; free buffers in host memory, or ask the operator to raise "
            "limits.pinned_memory in mccsd's configuration");
}

// Else a tenant could pin more, while the end of earlier registrations waits.
TEST_F(PinnedMemoryTest, AnEvictedRegionCountsUntilItsRegistrationHasEnded) {
  Lane& lane = OpenFor("red");
  const Region &first = Memory(red_), &second = Memory(red_), &third = Memory(red_);
  ASSERT_TRUE(Reach(lane, first).ok());
  ASSERT_TRUE(Reach(lane, second).ok());
  jobs_held_ = true;
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(Reach(lane, third).ok());
    EXPECT_EQ(pinned(), 2 * kBytes);
    host(0).memory().RetryRefused();
  }
  jobs_held_ = false;
  ASSERT_TRUE(RunUntil([&] { return pinned() == kBytes; })) << "one of them is enough";
  EXPECT_TRUE(Reach(lane, third).ok());
  EXPECT_EQ(pinned(), 2 * kBytes);
  EXPECT_TRUE(lane.send->Reach(second).ok()) << "it was used after the first one";
}

TEST_F(PinnedMemoryTest, WhatIsInUseIsNotEvicted) {
  Lane& lane = OpenFor("red");
  const Region &first = Memory(red_), &second = Memory(red_), &third = Memory(red_);
  const auto used = Reach(lane, first), also_used = Reach(lane, second);
  ASSERT_TRUE(used.ok() && also_used.ok());
  EXPECT_FALSE(Reach(lane, third).ok());
  int turns = 0;
  RunUntil([&] { return ++turns == 100; });
  EXPECT_EQ(pinned(), 2 * kBytes);
}

// Nothing is evicted for a region for which there would still be no room.
TEST_F(PinnedMemoryTest, ARegionThatIsTooLargeEvictsNothing) {
  Lane& lane = OpenFor("red");
  ASSERT_TRUE(Reach(lane, Memory(red_)).ok());
  EXPECT_FALSE(Reach(lane, Memory(red_, 3 * kBytes)).ok());
  int turns = 0;
  RunUntil([&] { return ++turns == 100; });
  EXPECT_EQ(pinned(), kBytes);
}

// Eviction looks at a limited number of the least recently used regions: those of the tenant.
TEST_F(PinnedMemoryTest, IdleRegionsOfOthersDoNotHideTheTenantsOwn) {
  Lane& others = OpenFor("blue");
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Reach(others, Memory(blue_, 10)).ok());
  Lane& lane = OpenFor("red");
  const Region &first = Memory(red_), &second = Memory(red_), &third = Memory(red_);
  ASSERT_TRUE(Reach(lane, first).ok());
  ASSERT_TRUE(Reach(lane, second).ok());
  EXPECT_TRUE(RunUntil([&] { return Reach(lane, third).ok(); }));
  EXPECT_EQ(blue_->held(Resource::kPinnedMemory), 1000u) << "nothing of others is evicted";
}

TEST_F(PinnedMemoryTest, ARegionThatAnothersEndMakesRoomForIsNoLongerCopied) {
  Lane& others = OpenFor("blue");
  Lane& lane = OpenFor("red");
  const Region &large = Memory(blue_, 2 * kBytes), &source = Memory(red_, 2 * kBytes);
  ASSERT_TRUE(Reach(others, large).ok());
  EXPECT_FALSE(Reach(lane, source).ok());
  jobs_held_ = true;
  host(0).transport.Forget(large, nullptr);
  EXPECT_FALSE(Reach(lane, source).ok()) << "its end has only begun";
  jobs_held_ = false;
  ASSERT_TRUE(RunUntil([&] { return pinned() == 0; }));
  EXPECT_TRUE(Reach(lane, source).ok());
}

TEST_F(PinnedMemoryTest, AFailedRegistrationReturnsItsPart) {
  Lane& lane = OpenFor("red");
  ASSERT_TRUE(RunUntil([&] { return Ready(lane); }));
  fabric_->registration_failure = absl::ResourceExhaustedError("the limit of locked memory");
  EXPECT_FALSE(Reach(lane, Memory(red_)).ok());
  EXPECT_EQ(pinned(), 0u);
}

TEST_F(PinnedMemoryTest, ARegistrationMayOutliveTheBudget) {
  auto budget = std::make_unique<HostBudget>(PinnedMemory(5 * kBytes));
  Lane& lane = OpenFor("red");
  auto red = Of(*budget, "red");
  const Region& region = Memory(red);
  ASSERT_TRUE(Reach(lane, region).ok());
  red.reset();
  EXPECT_EQ(budget->held(Resource::kPinnedMemory), kBytes);
  budget.reset();
  host(0).transport.Forget(region, nullptr);
  Stop();
}

// A tenant's registration takes seconds. Slots and bounce buffers are the daemon's own.
TEST_F(RdmaLaneTest, OwnMemoryDoesNotWaitBehindLongRegistrations) {
  Start(2);
  runners_[0]->hold_long = runners_[1]->hold_long = true;
  Lane& lane = Open(0, 1, /*traffic_class=*/0, /*has_slots=*/true, kTenant, /*own_slots=*/true);
  ASSERT_TRUE(RunUntil([&] { return Ready(lane); }));
  const std::vector<std::byte> small(64);  // inlined: it needs no registration
  ASSERT_TRUE(*lane.send->Post(SpanOf(small), {}));
  EXPECT_TRUE(RunUntil([&] { return lane.send->acknowledged() == 1; }));
  runners_[0]->hold_long = runners_[1]->hold_long = false;
}

TEST_F(RdmaLaneTest, ARegionThatIsNotUsedMakesRoomForAnother) {
  Start(2, {}, {.regions_per_nic = 3, .bytes_per_nic = kRegisteredBytes});
  Lane& lane = Open(0, 1);
  std::vector<std::unique_ptr<OwnedMemory>> sources;
  for (SliceNumber n = 0; n < 10; ++n) {
    const auto& source = sources.emplace_back(
        std::make_unique<OwnedMemory>(std::vector<std::byte>(1'000, std::byte{1})));
    ASSERT_TRUE(*lane.send->Post(WholeOf(*source), {}));
    ASSERT_TRUE(RunUntil([&] { return lane.send->acknowledged() == n + 1; }));
    lane.recv->Release(n);
    EXPECT_LE(host(0).memory().UsageOf(nic(0)).regions, 3u);
  }
  EXPECT_EQ(lane.send->counters().copied_bytes, 0u);
}

TEST_F(RdmaLaneTest, AnotherTrafficClassConnectsTheLaneAgainWithoutALostSlice) {
  Start(2);
  Lane& lane = Open(0, 1);
  constexpr SliceNumber kSlices = 40;
  bool marked = false;
  ASSERT_TRUE(RunUntil([&] {
    Carry(lane, kSlices);
    if (lane.landed > 10 && !std::exchange(marked, true)) {
      lane.send->Mark(46);
      lane.recv->Mark(46);
    }
    const bool stalled = !lane.send->status().ok() || !lane.recv->status().ok();
    if (stalled) Attach(lane);
    return lane.send->acknowledged() == kSlices;
  }));
  EXPECT_EQ(lane.landed, kSlices);
  EXPECT_EQ(lane.send->counters().reconnects, 1u);
}

TEST_F(RdmaLaneTest, CompletionsWithoutARequestAreCountedAndDropped) {
  Start(2);
  Lane& lane = Open(0, 1);
  ASSERT_TRUE(RunUntil([&] { return Ready(lane); }));
  Completion unknown;
  unknown.kind = Completion::Kind::kRequest;
  unknown.queue_pair = QueuePairNumber(77'777);
  nic(0).Inject(unknown);
  // Of a queue pair of this NIC, but of a request that was never posted.
  const uint32_t number = lane.send->queue_pair()->number;
  unknown.queue_pair = QueuePairNumber(number);
  unknown.id = 1'000'000;
  unknown.status = CompletionStatus::kRemoteError;
  nic(0).Inject(unknown);
  constexpr SliceNumber kSlices = 20;
  EXPECT_TRUE(RunUntil([&] {
    Carry(lane, kSlices);
    return lane.send->acknowledged() == kSlices;
  }));
  EXPECT_EQ(host(0).pairs().unknown(), 1u) << "the second one reached the queue pair";
  ASSERT_TRUE(lane.send->queue_pair().has_value());
  EXPECT_EQ(lane.send->queue_pair()->number, number);
  EXPECT_EQ(lane.send->counters().reconnects, 0u);
}

TEST_F(RdmaLaneTest, AFailedRequestStallsTheLaneWithTheVerbsText) {
  Start(2);
  for (const CompletionStatus status :
       {CompletionStatus::kRetriesExceeded, CompletionStatus::kRemoteError,
        CompletionStatus::kLocalProtection, CompletionStatus::kFatal}) {
    Lane& lane = Open(0, 1);
    ASSERT_TRUE(RunUntil([&] {
      Carry(lane, 1);
      return lane.send->acknowledged() == 1;
    }));
    fabric_->next_failure = status;
    ASSERT_TRUE(RunUntil([&] {
      Carry(lane, 2);
      return lane.send->state() == LaneState::kStalled;
    }));
    EXPECT_THAT(lane.send->status().message(), Mentions(AddressOf(1), Name(status)));
  }
}

TEST_F(RdmaLaneTest, AQueuePairThatDoesNothingFails) {
  Start(2);
  Lane& lane = Open(0, 1);
  ASSERT_TRUE(RunUntil([&] { return Ready(lane); }));
  fabric_->hangs = true;
  Carry(lane, 1);
  ASSERT_TRUE(RunUntil([&] { return lane.send->state() == LaneState::kStalled; }));
  // The end that fails first reports it to the other one.
  ASSERT_TRUE(RunUntil([&] { return lane.recv->state() == LaneState::kStalled; }));
  EXPECT_THAT(
      std::string(lane.send->status().message()) + std::string(lane.recv->status().message()),
      Mentions("not completed a request for 10 s"));
  fabric_->hangs = false;
  Attach(lane);
  EXPECT_TRUE(RunUntil([&] {
    Carry(lane, 1);
    return lane.send->acknowledged() == 1;
  }));
}

// It holds the tenant's memory, which must be unmapped.
TEST_F(RdmaLaneTest, APeerThatDoesNotAnswerKeepsNoMemory) {
  Start(2);
  Lane& lane = Open(0, 1);
  const OwnedMemory there(std::vector<std::byte>(20'000));
  ASSERT_TRUE(lane.recv->Expect(0, WholeOf(there), {}));
  ASSERT_TRUE(
      RunUntil([&] { return Ready(lane) && host(1).memory().UsageOf(nic(1)).regions == 2; }));
  const MonotonicNs begin = clock_.Now();
  ASSERT_TRUE(RunUntil([&] { return clock_.Now() > begin || !fabric_->NextEventTime(); }));
  fabric_->hangs = true;
  auto token = std::make_shared<int>();
  const std::weak_ptr<int> in_use = token;
  host(1).transport.Forget(there, std::move(token));
  const MonotonicNs forgotten = clock_.Now();
  ASSERT_TRUE(RunUntil([&] { return in_use.expired(); }));
  EXPECT_LT(clock_.Now(), forgotten + 2 * kNsPerSec);
  ASSERT_TRUE(RunUntil([&] { return lane.recv->state() == LaneState::kStalled; }));
  EXPECT_THAT(lane.recv->status().message(), Mentions("access to memory", "1 s"));
}

TEST_F(RdmaLaneTest, APortThatIsDownForAMomentDoesNotEndItsLanes) {
  Start(2, {.retry_ns = 2 * kNsPerSec});
  Lane& lane = Open(0, 1);
  ASSERT_TRUE(RunUntil([&] { return Ready(lane); }));
  nic(0).SetPort(false);
  const MonotonicNs down = clock_.Now();
  ASSERT_TRUE(RunUntil([&] {
    Carry(lane, 1);
    return clock_.Now() >= down + 300 * kNsPerMs;
  }));
  EXPECT_EQ(lane.send->acknowledged(), 0);
  nic(0).SetPort(true);
  EXPECT_TRUE(RunUntil([&] {
    Carry(lane, 1);
    return lane.send->acknowledged() == 1;
  }));
  EXPECT_EQ(lane.send->counters().reconnects, 0);
}

TEST_F(RdmaLaneTest, EventsMayComeTwiceAndLate) {
  // Later than all completions of a queue pair, and than its end.
  Start(2, {.retry_ns = 2 * kNsPerSec, .event_copies = 3, .event_delay_ns = 3 * kDrainNs});
  for (int i = 0; i < 10; ++i) {
    Lane& lane = Open(0, 1);
    ASSERT_TRUE(RunUntil([&] { return Ready(lane); }));
    fabric_->next_failure = CompletionStatus::kRemoteError;
    ASSERT_TRUE(RunUntil([&] {
      Carry(lane, 8);
      if (!lane.send->status().ok() && !lane.recv->status().ok()) Attach(lane);
      return lane.send->acknowledged() == 8;
    }));
    EXPECT_EQ(lane.send->counters().reconnects, 1u);
    nic(i % 2).SetPort(false);
    RunUntil([&, end = clock_.Now() + 200 * kNsPerMs] {
      Carry(lane, 16);
      return clock_.Now() >= end;
    });
    nic(i % 2).SetPort(true);
    ASSERT_TRUE(RunUntil([&] {
      Carry(lane, 16);
      return lane.send->acknowledged() == 16;
    })) << lane.send->status();
    EXPECT_EQ(lane.send->counters().reconnects, 1u);
    lanes_.clear();
  }
  ASSERT_TRUE(RunUntil([&] { return nic(0).queue_pairs() == 0 && nic(1).queue_pairs() == 0; }));
  EXPECT_EQ(nic(0).lost() + nic(1).lost(), 0);
}

// Each event that reports it again postponed the end of its lanes.
TEST_F(RdmaLaneTest, APortThatReportsItsErrorAgainEndsItsLanesInTime) {
  Start(2, {.retry_ns = 60 * kNsPerSec, .event_copies = 100, .event_delay_ns = kNsPerSec});
  Lane& lane = Open(0, 1);
  ASSERT_TRUE(RunUntil([&] { return Ready(lane); }));
  nic(0).SetPort(false);
  const MonotonicNs down = clock_.Now();
  ASSERT_TRUE(RunUntil([&] {
    Carry(lane, 1);
    return lane.send->state() == LaneState::kFailed;
  }));
  EXPECT_LT(clock_.Now(), down + 1'600 * kNsPerMs);
}

TEST_F(RdmaLaneTest, APortThatStaysDownEndsItsLanesWithItsText) {
  Start(3, {.retry_ns = 5 * kNsPerSec});
  Lane& lane = Open(0, 1);
  Lane& other = Open(1, 2);
  ASSERT_TRUE(RunUntil([&] { return Ready(lane) && Ready(other); }));
  nic(0).SetPort(false);
  const MonotonicNs down = clock_.Now();
  ASSERT_TRUE(RunUntil([&] { return lane.send->state() == LaneState::kFailed; }));
  EXPECT_LT(clock_.Now(), down + 800 * kNsPerMs);
  EXPECT_FALSE(absl::IsUnavailable(lane.send->status()));
  EXPECT_THAT(lane.send->status().message(), Mentions("fake0", "port error", "700 ms"));
  EXPECT_TRUE(Ready(other));
}

}  // namespace rdma_lane_test
}  // namespace mccs
