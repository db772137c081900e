// The part of a Session that handles RMA windows: memory that other ranks may put into.
#include <vector>

#include "service/frontend/session.h"
#include "service/frontend/session_reply.h"

namespace mccs {

absl::Status Session::HandleRegisterWindow(const wire::RegisterWindow& request) {
  absl::StatusOr<RankSlot*> slot = UsableSlot(request.comm_handle);
  if (!slot.ok()) return SendDone(request.header.request, slot.status());
  RankEndpoint& endpoint = *(*slot)->endpoint;
  const absl::Status opened = endpoint.windows().Open(request);
  endpoint.communicator->Wake();  // Puts may wait for the window.
  return SendDone(request.header.request, opened);
}

// If the communicator has ended, there is no window to close.
absl::Status Session::HandleDeregisterWindow(const wire::DeregisterWindow& request) {
  const auto slot = ranks_.find(request.comm_handle);
  absl::Status closed;
  if (slot != ranks_.end() && slot->second.endpoint->communicator != nullptr) {
    closed = slot->second.endpoint->windows().Close(request.number);
    slot->second.endpoint->communicator->Wake();
  }
  const ClosingWindow closing{request.header.request, request.comm_handle, request.number};
  if (!closed.ok() || !HasPutInProgress(closing)) return SendDone(request.header.request, closed);
  closing_windows_.push_back(closing);
  return absl::OkStatus();
}

// False after the slice or copy in progress, or when the communicator ends: a broken lane fails it.
bool Session::HasPutInProgress(const ClosingWindow& window) const {
  const auto slot = ranks_.find(window.handle);
  if (slot == ranks_.end()) return false;
  const RankEndpoint& endpoint = *slot->second.endpoint;
  return endpoint.communicator != nullptr &&
         endpoint.communicator->WritesInto(endpoint.rank(), window.number);
}

bool Session::PollClosingWindows() {
  return std::erase_if(closing_windows_, [this](const ClosingWindow& window) {
           if (HasPutInProgress(window)) return false;
           if (state_ == State::kOpen) CheckSent(SendDone(window.request, absl::OkStatus()));
           return true;
         }) > 0;
}

}  // namespace mccs
