// One work record that a tenant writes to its ring (proto/shim_wire.h): it is rejected with an
// error message, or resolved to memory that the tenant has registered.
//
// FUZZES: service/frontend/posted_call.cc
#include "service/frontend/posted_call.h"
#include "tests/fuzz/targets/fuzz_target.h"
#include "tests/fuzz/targets/registered_buffers.h"

namespace mccs {
namespace work_records_fuzz {

void CheckRejection(const absl::Status& status) {
  MCCS_CHECK(absl::IsInvalidArgument(status) && !status.message().empty());
}

void Run(FuzzInput input) {
  static const RegisteredBuffers buffers;
  const CallingRank caller{.rank = Rank(input.Byte()), .ranks = input.Byte()};
  const auto record = input.Take<wire::WorkRecord>();
  if (absl::Status status = CheckCall(record, caller); !status.ok()) return CheckRejection(status);
  if (HasPeer(record.op)) {
    const auto message = ResolveMessage(record, buffers.registry());
    if (!message.ok()) return CheckRejection(message.status());
    MCCS_CHECK(message->peer.value() >= 0 && message->peer.value() < caller.ranks);
    MCCS_CHECK(message->memory.bytes == message->bytes());
    RegisteredBuffers::CheckSpan(message->memory);
    return;
  }
  const auto call = ResolveCollective(record, caller, buffers.registry());
  if (!call.ok()) return CheckRejection(call.status());
  MCCS_CHECK(call->root.value() >= 0 && call->root.value() < caller.ranks);
  for (const RegionSpan& span : {call->input, call->output, call->scalar_memory}) {
    RegisteredBuffers::CheckSpan(span);
  }
}

const FuzzTarget kTarget("work_records", Run);

}  // namespace work_records_fuzz
}  // namespace mccs
