// The daemon's state for an operator, collected a few parts per turn so that it does not delay
// other work.
//
// OWNER: the Daemon. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_STATE_DUMP_H_
#define MCCS_SERVICE_STATE_DUMP_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "proto/daemon_state.pb.h"
#include "service/communicator/communicator_table.h"
#include "service/frontend/frontend.h"

namespace mccs {

class StateDump {
 public:
  // Sessions and communicators per turn: some tens of microseconds.
  static constexpr int kPartsPerTurn = 4;
  // Of the answer; parts that do not fit are only counted. gRPC's limit is 4 MiB.
  static constexpr size_t kMaxBytes = 2u << 20;

  // `first`: the part of the state that is known at once.
  StateDump(uint64_t request_id, state::Daemon first)
      : request_id_(request_id), state_(std::move(first)) {}

  // Collects a few more parts. Returns true when the state is complete.
  bool Continue(const Frontend& frontend, const CommunicatorTable& communicators);

  uint64_t request_id() const { return request_id_; }
  const state::Daemon& state() const { return state_; }

 private:
  bool Fits(size_t bytes);

  const uint64_t request_id_;
  state::Daemon state_;
  size_t bytes_ = 0;
  // The last ones collected; sessions come first.
  uint64_t session_ = 0;
  bool sessions_done_ = false;
  uint64_t communicator_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_STATE_DUMP_H_
