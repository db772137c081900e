// The contract of Transport for users that place slices by their tags (SliceSink). The programs
// include it after transport_contract.h.
#ifndef MCCS_TESTS_CONTRACT_TRANSPORT_SINK_CONTRACT_H_
#define MCCS_TESTS_CONTRACT_TRANSPORT_SINK_CONTRACT_H_

#include <vector>

#include "tests/contract/transport_contract.h"

namespace mccs {

// Has a buffer for each tag 0 … n−1 and rejects all others.
class BuffersByTag final : public SliceSink {
 public:
  explicit BuffersByTag(size_t tags) : buffers(tags) {}

  bool FindDestination(const SliceTag& tag, uint32_t bytes, std::vector<MemRef>& pieces) override {
    uint64_t value;
    std::memcpy(&value, tag.data(), sizeof(value));
    if (value >= buffers.size()) return false;
    std::vector<std::byte>& buffer = buffers[value];
    buffer.resize(bytes);
    pieces.push_back({buffer.data(), bytes / 3});
    pieces.push_back({buffer.data() + bytes / 3, bytes - bytes / 3});
    return true;
  }

  std::vector<std::vector<std::byte>> buffers;
};

TEST_P(TransportContract, ASinkPlacesUnexpectedSlices) {
  Start({.slots = 4, .slot_bytes = 10'000});
  BuffersByTag sink(2);
  recv_->SetSink(&sink);
  const std::vector<std::byte> first = Payload(1, 10'000), second = Payload(2, 20);
  std::vector<std::byte> expected(10'000, kFill);
  Post(first, TagOf(1));
  Post(second, TagOf(0));
  Post(first, TagOf(7));   // Rejected by the sink.
  Post(second, TagOf(0));  // Expected with another tag: the sink is not called.
  const MemRef all{.data = expected.data(), .bytes = second.size()};
  ASSERT_TRUE(recv_->Expect(3, {&all, 1}, TagOf(9)));
  ASSERT_TRUE(RunUntil([&] { return recv_->Landed(3) != Landing::kNotYet; }));
  EXPECT_EQ(recv_->Landed(0), Landing::kDirect);
  EXPECT_EQ(recv_->Landed(1), Landing::kDirect);
  EXPECT_EQ(sink.buffers[1], first);
  EXPECT_EQ(sink.buffers[0], second);
  EXPECT_EQ(recv_->Landed(2), Landing::kInSlot);
  EXPECT_TRUE(SlotHolds(2, first));
  EXPECT_EQ(recv_->Landed(3), Landing::kInSlot);
  EXPECT_TRUE(SlotHolds(3, second));
  recv_->SetSink(nullptr);
}

TEST_P(TransportContract, ASinkIsAskedAgainAfterABrokenConnection) {
  constexpr SliceNumber kSlices = 20;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Start({.slots = 3, .slot_bytes = 30'000}, seed);
    BuffersByTag sink(kSlices);
    recv_->SetSink(&sink);
    std::mt19937_64 random(seed);
    std::vector<std::vector<std::byte>> payloads;
    for (uint64_t n = 0; n < kSlices; ++n) payloads.push_back(Payload(n, random() % 30'001));
    auto attach = [&] {
      TransportWorld::Ends ends = world_->Connect();
      send_->Attach(std::make_unique<CutConnection>(std::move(ends.sender), random() % 200'000));
      recv_->Attach(std::move(ends.receiver));
    };
    attach();
    SliceNumber landed = 0;
    ASSERT_TRUE(RunUntil([&] {
      if (!send_->status().ok() || !recv_->status().ok()) attach();
      if (send_->next() < kSlices) Post(payloads[send_->next()], TagOf(send_->next()));
      while (landed < kSlices && recv_->Landed(landed) != Landing::kNotYet) {
        EXPECT_EQ(recv_->Landed(landed), Landing::kDirect);
        recv_->Release(landed++);
      }
      return send_->acknowledged() == kSlices;
    }));
    EXPECT_EQ(sink.buffers, payloads);
    ExpectGuardsUntouched();
    if (HasFailure()) return;
  }
}

}  // namespace mccs

#endif  // MCCS_TESTS_CONTRACT_TRANSPORT_SINK_CONTRACT_H_
