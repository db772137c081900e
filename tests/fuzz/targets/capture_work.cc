// Groups of calls that a tenant captures into CUDA graphs (CaptureWork), their replays by any words
// in shared memory, and their releases. Each run resolves to registered memory, and each replay is
// run, waits, or is an error of the tenant.
//
// FUZZES: service/frontend/captured_groups.cc service/frontend/captured_runs.cc
// FUZZES: service/frontend/posted_call.cc
#include <cstring>
#include <memory>

#include "service/frontend/captured_groups.h"
#include "tests/fuzz/targets/fuzz_target.h"
#include "tests/fuzz/targets/registered_buffers.h"

namespace mccs {
namespace capture_work_fuzz {

constexpr int kMostSteps = 256;
// Captured slots that inputs use often, so that groups meet.
constexpr uint32_t kSlots = 4;

wire::WorkRecord Record(FuzzInput& input) {
  wire::WorkRecord record{};
  record.record = input.Below(8) == 0 ? wire::RecordKind::kFence : wire::RecordKind::kOperation;
  record.op = static_cast<OpKind>(input.Below(kOpKinds + 1));
  record.flags = static_cast<uint8_t>(input.Below(2) == 0 ? wire::kNoFlags : wire::kMoreInGroup);
  record.count = input.Byte();
  record.send.id = 1 + input.Below(2);
  record.recv.id = 1 + input.Below(2);
  record.ready_slot = input.Below(kSlots);
  record.ready_value = 1 + input.Below(4);
  input.Change(&record);
  return record;
}

// Runs what the streams have reached. False: the tenant's error, which ends its work.
bool Turn(CapturedGroups& groups, size_t looks, bool completes) {
  CapturedBudget budget(looks);
  const absl::StatusOr<bool> more = groups.Poll(&budget);
  if (!more.ok()) {
    MCCS_CHECK(!more.status().message().empty());
    return false;
  }
  CapturedRuns& runs = groups.runs();
  while (const PostedMessage* message = runs.TakeMessage()) {
    RegisteredBuffers::CheckSpan(message->memory);
    if (completes) MCCS_CHECK(runs.CompleteMessage(*message));
  }
  uint64_t after = 0;
  while (const uint64_t key = runs.NextKey(after)) {
    MCCS_CHECK(key > after);
    const PostedOperation* call = runs.Front(key);
    MCCS_CHECK(call != nullptr);
    RegisteredBuffers::CheckSpan(call->input);
    RegisteredBuffers::CheckSpan(call->output);
    if (completes) runs.Complete(key);
    after = key;
  }
  return true;
}

void Run(FuzzInput input) {
  static const RegisteredBuffers buffers;
  static wire::CommRegion region;
  for (uint32_t slot = 0; slot < wire::kCapturedSlots; ++slot) {
    region.captured_ready[slot].store(0, std::memory_order_relaxed);
  }
  const CallingRank caller{.rank = Rank(1), .ranks = 4};
  RankQueues queues = std::move(*RankQueues::Make(/*process=*/nullptr));
  CapturedGroups groups(caller, buffers.registry(), region, queues);
  for (int i = 0; i < kMostSteps && !input.empty(); ++i) {
    switch (input.Below(6)) {
      case 0:
      case 1:
      case 2: {
        const uint64_t capture = 1 + input.Below(3);
        const auto added = groups.Add(capture, Record(input));
        MCCS_CHECK(!added.has_value() || added->ok() || !added->message().empty());
        break;
      }
      case 3:
        groups.Release(1 + input.Below(3));
        break;
      case 4:
        region.captured_ready[input.Below(kSlots)].store(input.Byte());
        break;
      default:
        if (!Turn(groups, input.Byte(), input.Below(4) != 0)) return groups.Drop();
    }
  }
}

const FuzzTarget kTarget("capture_work", Run);

}  // namespace capture_work_fuzz
}  // namespace mccs
