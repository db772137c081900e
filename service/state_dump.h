// The daemon's state as an operator asks for it, gathered a few parts at a turn, so that nobody's
// work waits for it.
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
  // Sessions and communicators in one turn: some tens of microseconds.
  static constexpr int kPartsPerTurn = 4;
  // Of an answer; the rest is counted. gRPC takes 4 MiB.
  static constexpr size_t kMaxBytes = 2u << 20;

  // `first`: what is known at once.
  StateDump(uint64_t question, state::Daemon first)
      : question_(question), state_(std::move(first)) {}

  // A few more parts. True when all is there.
  bool Continue(const Frontend& frontend, const CommunicatorTable& communicators);

  uint64_t question() const { return question_; }
  const state::Daemon& state() const { return state_; }

 private:
  bool Fits(size_t bytes);

  const uint64_t question_;
  state::Daemon state_;
  size_t bytes_ = 0;
  // The last ones that were told of; sessions come first.
  uint64_t session_ = 0;
  bool sessions_done_ = false;
  uint64_t communicator_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_STATE_DUMP_H_
