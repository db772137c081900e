// The part of a Session that hears of windows: memory that its ranks open to others' puts.
#include "service/frontend/session.h"
#include "service/frontend/session_reply.h"

namespace mccs {

absl::Status Session::HandleRegisterWindow(const wire::RegisterWindow& request) {
  absl::StatusOr<RankSlot*> slot = UsableSlot(request.comm_handle);
  if (!slot.ok()) return SendDone(request.header.request, slot.status());
  RankEndpoint& endpoint = *(*slot)->endpoint;
  const absl::Status opened = endpoint.windows().Open(request);
  env_.communicators->Kick(endpoint.communicator);  // Puts may wait for it.
  return SendDone(request.header.request, opened);
}

// Of a communicator that has ended, no window is left to close.
absl::Status Session::HandleDeregisterWindow(const wire::DeregisterWindow& request) {
  const auto slot = ranks_.find(request.comm_handle);
  absl::Status closed;
  if (slot != ranks_.end() && slot->second.endpoint->communicator != nullptr) {
    closed = slot->second.endpoint->windows().Close(request.number);
  }
  return SendDone(request.header.request, closed);
}

}  // namespace mccs
