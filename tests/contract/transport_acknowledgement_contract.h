// Contract of Transport: acknowledgements that the receiver may defer.
#ifndef MCCS_TESTS_CONTRACT_TRANSPORT_ACKNOWLEDGEMENT_CONTRACT_H_
#define MCCS_TESTS_CONTRACT_TRANSPORT_ACKNOWLEDGEMENT_CONTRACT_H_

#include "tests/contract/transport_fixture.h"

namespace mccs {

// Slices of 8 bytes: a lane that copies any copies these.
TEST_P(TransportContract, CreditForShortSlicesNeedsNoRequestedAcknowledgement) {
  Start({.slots = 4, .slot_bytes = 64});
  acknowledges_ = false;
  const std::vector<std::byte> payload = Payload(1, 8);
  constexpr SliceNumber kSlices = 500;
  SliceNumber landed = 0;
  EXPECT_TRUE(RunUntil([&] {
    if (send_->next() < kSlices && send_->has_room()) Post(payload, TagOf(1));
    while (landed < kSlices && recv_->Landed(landed) != Landing::kNotYet) recv_->Release(landed++);
    return landed == kSlices;
  })) << landed
      << " slices have landed";
}

TEST_P(TransportContract, DeferredSlicesAreAcknowledgedOnRequest) {
  Start({.slots = 8, .slot_bytes = 64});
  acknowledges_ = false;
  for (int i = 0; i < 2; ++i) Post(Payload(1, 8), TagOf(1));
  ASSERT_TRUE(RunUntil([&] { return recv_->Landed(1) != Landing::kNotYet; }));
  Settle();
  ASSERT_TRUE(recv_->defers_acknowledgement() || send_->acknowledged() == 2);
  if (!recv_->defers_acknowledgement()) GTEST_SKIP() << "this transport defers none";
  EXPECT_EQ(send_->acknowledged(), 0u);
  EXPECT_EQ(send_->source_free(), 2u) << "otherwise the sender waits";
  recv_->Acknowledge();
  ASSERT_TRUE(RunUntil([&] { return send_->acknowledged() == 2; }));
  EXPECT_FALSE(recv_->defers_acknowledgement());
}

TEST_P(TransportContract, ASliceThatIsNotCopiedIsAcknowledgedWithAllBeforeIt) {
  constexpr uint32_t kLarge = 64'000;
  Start({.slots = 8, .slot_bytes = kLarge});
  acknowledges_ = false;
  const std::vector<std::byte> large = Payload(2, kLarge);
  Post(Payload(1, 8), TagOf(1));
  Post(large, TagOf(1));
  EXPECT_TRUE(RunUntil([&] { return send_->source_free() == 2; }));
  EXPECT_EQ(send_->acknowledged(), 2u);
  EXPECT_FALSE(recv_->defers_acknowledgement());
}

TEST_P(TransportContract, ADeferredAcknowledgementIsNotLostWithItsConnection) {
  Start({.slots = 8, .slot_bytes = 64});
  acknowledges_ = false;
  Post(Payload(1, 8), TagOf(1));
  ASSERT_TRUE(RunUntil([&] { return recv_->Landed(0) != Landing::kNotYet; }));
  Attach();
  EXPECT_TRUE(RunUntil([&] { return send_->acknowledged() == 1; })) << "by the resume";
  EXPECT_FALSE(recv_->defers_acknowledgement());
}

}  // namespace mccs

#endif  // MCCS_TESTS_CONTRACT_TRANSPORT_ACKNOWLEDGEMENT_CONTRACT_H_
