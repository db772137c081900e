#include "service/state_dump.h"

#include <optional>

namespace mccs {

bool StateDump::Fits(size_t bytes) {
  bytes_ += bytes;
  return bytes_ <= kMaxBytes;
}

bool StateDump::Continue(const Frontend& frontend, const CommunicatorTable& communicators) {
  for (int part = 0; part < kPartsPerTurn; ++part) {
    if (!sessions_done_) {
      state::Session session;
      const std::optional<uint64_t> next = frontend.WriteNextState(session_, &session);
      sessions_done_ = !next.has_value();
      if (!next.has_value()) continue;
      session_ = *next;
      if (Fits(session.ByteSizeLong())) {
        *state_.add_sessions() = std::move(session);
      } else {
        state_.set_sessions_left_out(state_.sessions_left_out() + 1);
      }
      continue;
    }
    state::Communicator communicator;
    const std::optional<uint64_t> next = communicators.WriteNextState(communicator_, &communicator);
    if (!next.has_value()) return true;
    communicator_ = *next;
    if (Fits(communicator.ByteSizeLong())) {
      *state_.add_communicators() = std::move(communicator);
    } else {
      state_.set_communicators_left_out(state_.communicators_left_out() + 1);
    }
  }
  return false;
}

}  // namespace mccs
