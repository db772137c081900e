// The protocol of daemons about one communicator, with a peer that has its secret and sends any
// messages: as its leader or a member, while it is formed, opened or active. Other bytes go into
// its lane. The communicator works on or fails with an error message, and nothing remains of it.
//
// FUZZES: service/communicator/*.cc service/communicator/links/*.cc
// FUZZES: service/communicator/lanes/*.cc service/communicator/membership/*.cc
// FUZZES: service/communicator/schedule/*.cc service/messages/peer_*.cc
#include <algorithm>
#include <string>

#include "base/check.h"
#include "tests/fuzz/targets/fuzz_target.h"
#include "tests/sim/rogue_peer.h"

namespace mccs {
namespace peer_protocol_fuzz {

constexpr int kMostMessages = 32;
// An input that only waits would simulate 8 s, which takes 3 s of a processor.
constexpr int kMostWaitedMs = 500;

// A message that a peer may send in some state.
peer::Message Valid(uint32_t kind) {
  const Strategy ring = MakeRingStrategy(Epoch(1), {HostIndex(0), HostIndex(1)});
  peer::Message message;
  switch (kind) {
    case 0:
      return OpenWith(ring);
    case 1:
      message.mutable_ready();
      break;
    case 2:
      message.mutable_go();
      break;
    case 3:
      message.mutable_departed()->set_rank(0);
      break;
    case 4:
      message.mutable_departed()->set_rank(1);
      break;
    case 5:
      message.mutable_failed()->set_error_code(3);
      break;
    case 6:
      message.mutable_stalled()->set_operation(1);
      break;
    case 7:
      message.mutable_entered_request()->set_request_id(1);
      break;
    case 8:
      message.mutable_entered()->set_request_id(1);
      break;
    case 9:
      message.mutable_stalled_on()->set_operation(1);
      break;
    case 10:
      message.mutable_order_request();
      break;
    case 11:
      message.mutable_order_hold();
      break;
    case 12:
      message.mutable_order_started()->set_operation(1);
      break;
    case 13:
      message.mutable_order_begins()->set_after(1);
      break;
    case 14:
      message.mutable_order_next()->set_operation(1);
      break;
    case 15:
      message.mutable_split_call()->set_number(1);
      break;
    case 16:
      message.mutable_split_table()->set_number(1);
      message.mutable_split_table()->add_colors(0);
      message.mutable_split_table()->add_colors(0);
      message.mutable_split_table()->add_keys(0);
      message.mutable_split_table()->add_keys(1);
      break;
    case 17:
      message.mutable_split_failed()->set_number(1);
      break;
    case 18:
    case 19: {
      message.mutable_strategy_change()->set_epoch(2);
      strategy::Strategy* const next = kind == 18
                                           ? message.mutable_strategy_change()->mutable_prepare()
                                           : message.mutable_strategy_change()->mutable_route();
      ToProto(ring, next);
      next->set_epoch(2);
      break;
    }
    case 20:
      message.mutable_strategy_change()->set_epoch(2);
      message.mutable_strategy_change()->set_hold(true);
      break;
    case 21:
      message.mutable_strategy_change()->set_epoch(2);
      message.mutable_strategy_change()->mutable_commit();
      break;
    case 22:
      message.mutable_strategy_change()->set_epoch(2);
      message.mutable_strategy_change()->set_done(true);
      break;
    case 23:
      message.mutable_strategy_change_answer()->set_epoch(2);
      message.mutable_strategy_change_answer()->set_prepared(true);
      break;
    case 24:
      message.mutable_open_notice()->set_hash(std::string(wire::kProofBytes, 'x'));
      break;
    case 25:
      message.mutable_open_request();
      break;
    case 26:
      message.mutable_hello()->set_host_index(1);
      break;
    default:
      break;
  }
  return message;
}

// Subtracts from `ms_to_wait` what it waits.
void SendNext(RoguePeer& rogue, SimTenant& victim, FuzzInput& input, int& ms_to_wait) {
  switch (input.Below(8)) {
    case 0: {  // in a lane
      if (rogue.in() == nullptr) return;
      const std::span<const uint8_t> bytes = input.Bytes(input.Byte());
      const iovec piece{const_cast<uint8_t*>(bytes.data()), bytes.size()};
      static_cast<void>(rogue.in()->Write({&piece, 1}));
      return rogue.RunFor(kNsPerMs);
    }
    case 1:  // a call of the victim
      if (rogue.rank().memory.data() != nullptr && rogue.failure().empty()) {
        victim.Post(rogue.rank(), {.kind = static_cast<OpKind>(1 + input.Below(kOpKinds - 1)),
                                   .root = 1 - rogue.rank().rank,
                                   .count = 0});
      }
      return rogue.RunFor(kNsPerMs);
    case 2: {
      const int ms = std::min<int>(input.Byte(), ms_to_wait);
      ms_to_wait -= ms;
      return rogue.RunFor(ms * kNsPerMs);
    }
    default: {
      peer::Message message = Valid(input.Below(28));
      const std::span<const uint8_t> more = input.Bytes(input.Byte());
      peer::Message changes;
      if (changes.ParseFromArray(more.data(), static_cast<int>(more.size()))) {
        message.MergeFrom(changes);
      }
      return rogue.Send(message);
    }
  }
}

void Run(FuzzInput input) {
  const uint8_t kind = input.Byte();
  SimWorld world({.seed = 1, .hosts = 1});
  SimTenant& victim = world.AddTenant(0, RoguePeer::kTenant);
  {
    RoguePeer rogue(world, victim);
    MCCS_CHECK(kind % 2 == 0 ? rogue.StartAsLeader() : rogue.Join());
    const int stage = kind / 2 % 3;
    if (stage > 0) MCCS_CHECK(rogue.OpenLanes());
    if (stage > 1) MCCS_CHECK(rogue.Start());
    int ms_to_wait = kMostWaitedMs;
    for (int i = 0; i < kMostMessages && !input.empty(); ++i) {
      SendNext(rogue, victim, input, ms_to_wait);
    }
    const SimRank& rank = rogue.rank();
    MCCS_CHECK(rank.memory.data() == nullptr || !rank.failed() || !rank.failure().empty());
    rogue.CloseAll();
  }
  victim.Kill();
  MCCS_CHECK(world.RunUntil(
      [&] {
        Daemon& daemon = world.host(0).daemon();
        return daemon.sessions() == 0 && daemon.communicators() == 0;
      },
      120 * kNsPerSec));
}

const FuzzTarget kTarget("peer_protocol", Run);

}  // namespace peer_protocol_fuzz
}  // namespace mccs
