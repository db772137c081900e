// The shared memory of one rank, written by its tenant in any way: records, fences, indices, ready
// words, and the words that only the daemon writes. Calls are taken in order and within registered
// memory, or the rank fails once, with an error message.
//
// FUZZES: service/frontend/rank_endpoint.cc service/frontend/posted_call.cc
#include <algorithm>
#include <memory>

#include "service/frontend/rank_endpoint.h"
#include "tests/fuzz/targets/fuzz_target.h"
#include "tests/fuzz/targets/registered_buffers.h"

namespace mccs {
namespace work_ring_fuzz {

constexpr int kRanks = 4;
constexpr int kMostSteps = 256;

class Ring {
 public:
  explicit Ring(const BufferRegistry& buffers)
      : endpoint_(std::move(*RankEndpoint::Make(
            Rank(1), buffers, /*kernels=*/nullptr,
            {.init_done = [](const absl::Status&, CommId) {}, .released = [] {}}))),
        memory_(std::move(*SharedRegion::Map(endpoint_->TakeRegionFd()))) {
    endpoint_->InitDone(absl::OkStatus(), CommId(1), RosterRanks{.ranks = kRanks});
  }

  // One step of the tenant.
  void Step(FuzzInput& input) {
    switch (input.Below(8)) {
      case 0:
        return Push(Fence(input), input);
      case 1:
        return page().tail.store(page().tail.load() + input.Byte());
      case 2:
        return page().tail.store(input.Take<uint64_t>());
      case 3:
        return page().ready[input.Below(wire::kReadySlots)].value.store(input.Byte());
      case 4:
        return page().head.store(input.Take<uint64_t>());
      case 5:
        return page().done.value.store(input.Take<uint64_t>());
      default:
        return Push(Call(input), input);
    }
  }

  // Takes and completes calls, as a communicator does.
  void Turn(uint8_t choices) {
    for (;;) {
      const auto message = endpoint_->TakeMessage();
      if (!message.ok()) return Fail(message.status());
      if (*message == nullptr) break;
      RegisteredBuffers::CheckSpan((*message)->memory);
      endpoint_->CompleteMessage(**message);
    }
    for (size_t position = 0; position < kMaxPostedAhead; ++position) {
      const auto call = endpoint_->Posted(position);
      if (!call.ok()) return Fail(call.status());
      if (*call == nullptr) break;
      RegisteredBuffers::CheckSpan((*call)->input);
      RegisteredBuffers::CheckSpan((*call)->output);
    }
    for (int calls = choices % kMaxPostedAhead; calls > 0; --calls) {
      const auto call = endpoint_->Front();
      if (!call.ok() || *call == nullptr || !endpoint_->FrontReady()) break;
      endpoint_->Complete();
    }
    size_t budget = choices;
    endpoint_->LastUseOf(BufferId(1), &budget);
  }

  bool failed() const { return failed_; }

 private:
  wire::CommRegion& page() { return *reinterpret_cast<wire::CommRegion*>(memory_.data()); }

  wire::WorkRecord Call(FuzzInput& input) {
    wire::WorkRecord record{};
    record.sequence = ++calls_;
    record.op = static_cast<OpKind>(input.Below(kOpKinds + 1));
    record.flags = static_cast<uint8_t>(input.Below(3) == 0 ? wire::kMoreInGroup : wire::kNoFlags);
    record.count = input.Byte();
    record.send.id = 1 + input.Below(2);
    record.recv.id = 1 + input.Below(2);
    record.ready_slot = input.Below(2) == 0 ? wire::kNoReadySlot : input.Below(wire::kReadySlots);
    record.record = wire::RecordKind::kOperation;
    return record;
  }
  static wire::WorkRecord Fence(FuzzInput& input) {
    wire::WorkRecord record{};
    record.record = wire::RecordKind::kFence;
    record.ready_slot = input.Byte();
    record.ready_value = input.Byte();
    return record;
  }
  void Push(wire::WorkRecord record, FuzzInput& input) {
    input.Change(&record);
    const uint64_t tail = page().tail.load();
    page().records[tail % wire::kRingRecords] = record;
    page().tail.store(tail + 1);
  }
  void Fail(const absl::Status& why) {
    MCCS_CHECK(!why.message().empty());
    failed_ = true;
    endpoint_->Fail(why);
    MCCS_CHECK(page().failure.error.load() != 0 && page().failure.text[0] != '\0');
  }

  std::unique_ptr<RankEndpoint> endpoint_;
  SharedRegion memory_;
  uint64_t calls_ = 0;
  bool failed_ = false;
};

void Run(FuzzInput input) {
  static const RegisteredBuffers buffers;
  Ring ring(buffers.registry());
  for (int i = 0; i < kMostSteps && !input.empty() && !ring.failed(); ++i) {
    ring.Step(input);
    if (const uint8_t choices = input.Byte(); choices % 2 == 0) ring.Turn(choices / 2);
  }
  if (!ring.failed()) ring.Turn(kMaxPostedAhead - 1);
}

const FuzzTarget kTarget("work_ring", Run);

}  // namespace work_ring_fuzz
}  // namespace mccs
