// The part of a Session that describes itself for an operator (proto/daemon_state.proto).
#include "proto/daemon_state.pb.h"
#include "service/frontend/session.h"

namespace mccs {

void RankEndpoint::WriteState(state::SessionRank* out) const {
  out->set_rank(rank().value());
  if (communicator != nullptr) out->set_communicator(FormatCommId(communicator->id()));
  out->set_records_posted(region().tail.load(std::memory_order_relaxed));
  out->set_records_taken(taken_);
}

void Session::WriteState(state::Session* out) const {
  out->set_id(id_.value());
  out->set_process(identity().process);
  out->set_tenant(identity().tenant);
  switch (state_) {
    case State::kGreeting:
      out->set_state("greeting");
      break;
    case State::kOpen:
      out->set_state("open");
      break;
    case State::kClosing:
      out->set_state("closing");
      break;
    case State::kClosed:
      out->set_state("closed");
      break;
  }
  out->set_buffers(buffers_.size());
  out->set_buffer_bytes(buffers_.bytes());
  for (const auto& [handle, slot] : ranks_) {
    if (slot.endpoint == nullptr) continue;
    state::SessionRank* rank = out->add_ranks();
    slot.endpoint->WriteState(rank);
    rank->set_leaving(slot.leaving.has_value());
  }
}

}  // namespace mccs
