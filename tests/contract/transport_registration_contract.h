// The contract of Transport for registrations: they may take long, and delay no lane.
#ifndef MCCS_TESTS_CONTRACT_TRANSPORT_REGISTRATION_CONTRACT_H_
#define MCCS_TESTS_CONTRACT_TRANSPORT_REGISTRATION_CONTRACT_H_

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/contract/transport_fixture.h"

namespace mccs {

class RegisteringTransport : public TransportContract {
 protected:
  static constexpr LaneShape kShape{.slots = 4, .slot_bytes = 20'000};
  static constexpr uint64_t kBytes = 1 << 20;

  static OwnedMemory NewMemory() { return OwnedMemory(std::vector<std::byte>(kBytes, kFill)); }
  NicDomain domain() const { return recv_->queues().domain; }
  // Without the memory that the world itself has registered.
  RegistrationTable::Usage usage() {
    const RegistrationTable::Usage own = world_->own_usage();
    RegistrationTable::Usage all = world_->transport().registrations().UsageOf(domain().nic);
    return {.regions = all.regions - own.regions, .bytes = all.bytes - own.bytes};
  }

  // Moves many slices over the lane.
  void ExpectLaneMoves() {
    const std::vector<std::byte> payload = Payload(4, kShape.slot_bytes);
    const SliceNumber end = send_->next() + 50;
    SliceNumber landed = send_->next();
    ASSERT_TRUE(RunUntil([&] {
      if (send_->next() < end && send_->has_room()) Post(payload, TagOf(1));
      while (landed < end && recv_->Landed(landed) != Landing::kNotYet) recv_->Release(landed++);
      return landed == end && send_->acknowledged() == end;
    }));
  }
};

TEST_P(RegisteringTransport, AStreamOfSlicesDoesNotWaitForRegistrations) {
  Start(kShape);
  const OwnedMemory memory = NewMemory();
  const RegionSpan span = WholeOf(memory);
  world_->registrar().hold = true;
  std::unique_ptr<RegionRegistration> registration = world_->transport().Register(memory, domain());
  ExpectLaneMoves();
  EXPECT_EQ(registration->status().code(), absl::StatusCode::kUnavailable) << "still pending";
  EXPECT_EQ(recv_->Expose(ExposureName(1), span).status().code(),
            absl::StatusCode::kFailedPrecondition);
  world_->registrar().hold = false;
  ASSERT_TRUE(RunUntil([&] { return registration->ready(); }));
  const auto key = recv_->Expose(ExposureName(1), span);
  ASSERT_TRUE(key.ok()) << key.status();
  ASSERT_TRUE(AwaitExposed(1).has_value());
  const std::vector<std::byte> payload = Payload(9, 10'000);
  const SliceNumber n = *Post(*send_, payload, TagOf(1), RemoteTarget{*key, 5});
  ASSERT_TRUE(RunUntil([&] { return recv_->Landed(n) == Landing::kWritten; }));
  EXPECT_TRUE(std::equal(payload.begin(), payload.end(), memory.address() + 5));

  // The release takes long, too.
  recv_->Release(n);
  recv_->Withdraw(*key);
  ASSERT_TRUE(RunUntil([&] { return !recv_->IsAccessible(*key); }));
  world_->registrar().hold = true;
  auto token = std::make_shared<int>(0);
  const std::weak_ptr<int> in_use = token;
  world_->transport().Release(std::move(registration), std::move(token));
  ExpectLaneMoves();
  EXPECT_FALSE(in_use.expired()) << "the NIC may access the memory";
  EXPECT_EQ(usage().regions, 1u) << "it counts until it is released";
  world_->registrar().hold = false;
  ASSERT_TRUE(RunUntil([&] { return in_use.expired(); }));
  EXPECT_EQ(usage().regions, 0u);
  EXPECT_EQ(usage().bytes, 0u);
}

TEST_P(RegisteringTransport, ARegionIsRegisteredOncePerNic) {
  Start(kShape);
  const OwnedMemory memory = NewMemory();
  HeldRegistrar& registrar = world_->registrar();
  std::unique_ptr<RegionRegistration> first = world_->transport().Register(memory, domain());
  std::unique_ptr<RegionRegistration> second = world_->transport().Register(memory, domain());
  ASSERT_TRUE(RunUntil([&] { return first->ready() && second->ready(); }));
  EXPECT_EQ(registrar.started, 1);
  EXPECT_EQ(usage().regions, 1u);
  EXPECT_EQ(usage().bytes, kBytes);
  const NicDomain other{.nic = {"10.0.1.2"}, .tenant = domain().tenant};
  const std::unique_ptr<RegionRegistration> elsewhere = world_->transport().Register(memory, other);
  ASSERT_TRUE(RunUntil([&] { return elsewhere->ready(); }));
  EXPECT_EQ(registrar.started, 2);
  first.reset();
  EXPECT_EQ(registrar.released, 0) << "another hold exists";
  EXPECT_TRUE(recv_->Expose(ExposureName(1), WholeOf(memory)).ok());
  second.reset();
  EXPECT_EQ(registrar.released, 1);
  EXPECT_EQ(recv_->Expose(ExposureName(2), WholeOf(memory)).status().code(),
            absl::StatusCode::kFailedPrecondition)
      << "it is registered with another NIC only";
}

TEST_P(RegisteringTransport, AHoldReleasedWhilePendingReleasesTheRegion) {
  Start(kShape);
  const OwnedMemory memory = NewMemory();
  world_->registrar().hold = true;
  std::unique_ptr<RegionRegistration> registration = world_->transport().Register(memory, domain());
  auto token = std::make_shared<int>(0);
  const std::weak_ptr<int> in_use = token;
  world_->transport().Release(std::move(registration), std::move(token));
  Settle();
  EXPECT_FALSE(in_use.expired());
  EXPECT_EQ(world_->registrar().released, 0);
  world_->registrar().hold = false;
  ASSERT_TRUE(RunUntil([&] { return in_use.expired(); }));
  EXPECT_EQ(world_->registrar().released, 1);
  EXPECT_EQ(usage().regions, 0u);
}

TEST_P(RegisteringTransport, AFailedRegistrationIsReportedAndTriedAgain) {
  Start(kShape);
  const OwnedMemory memory = NewMemory();
  HeldRegistrar& registrar = world_->registrar();
  for (const bool slow : {false, true}) {
    registrar.failure = absl::ResourceExhaustedError("the NIC has no room");
    registrar.hold = slow;
    const std::unique_ptr<RegionRegistration> failed =
        world_->transport().Register(memory, domain());
    registrar.hold = false;
    ASSERT_TRUE(RunUntil([&] { return !absl::IsUnavailable(failed->status()); }));
    EXPECT_EQ(failed->status(), registrar.failure);
    EXPECT_EQ(usage().regions, 0u);
    registrar.failure = absl::OkStatus();
    const std::unique_ptr<RegionRegistration> again =
        world_->transport().Register(memory, domain());
    ASSERT_TRUE(RunUntil([&] { return again->ready(); }));
    EXPECT_FALSE(failed->ready());
  }
  EXPECT_EQ(registrar.released, 2);
}

}  // namespace mccs

#endif  // MCCS_TESTS_CONTRACT_TRANSPORT_REGISTRATION_CONTRACT_H_
