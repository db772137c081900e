// The part of a Session that handles operations captured into CUDA graphs.
#include <optional>

#include "service/frontend/session.h"
#include "service/frontend/session_reply.h"

namespace mccs {

absl::Status Session::HandleCaptureWork(const wire::CaptureWork& request) {
  absl::StatusOr<RankSlot*> slot = UsableSlot(request.comm_handle);
  std::optional<absl::Status> outcome;
  if (slot.ok()) {
    outcome = (*slot)->endpoint->captured().Add(request.capture, request.record);
    (*slot)->endpoint->communicator->Wake();  // It polls the slots from now on.
  } else if ((request.record.flags & wire::kMoreInGroup) == 0) {
    outcome = slot.status();
  }
  return outcome.has_value() ? SendDone(request.header.request, *outcome) : absl::OkStatus();
}

// If the communicator has ended, there is nothing to release.
absl::Status Session::HandleReleaseCapture(const wire::ReleaseCapture& request) {
  const auto slot = ranks_.find(request.comm_handle);
  if (slot != ranks_.end()) slot->second.endpoint->captured().Release(request.capture);
  return absl::OkStatus();
}

}  // namespace mccs
