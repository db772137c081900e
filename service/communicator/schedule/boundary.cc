#include "service/communicator/schedule/boundary.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "service/communicator/links/star_protocol.h"

namespace mccs {

void BoundaryVote::Begin() { started_.assign(static_cast<size_t>(hosts_), std::nullopt); }

absl::Status BoundaryVote::OnStarted(HostIndex from, uint64_t started, uint64_t here) {
  if (HasLeft(from)) return absl::OkStatus();
  std::optional<uint64_t>& answer = started_[static_cast<size_t>(from.value())];
  if (answer.has_value())
    return absl::DataLossError(
        "duplicate answer: the host has already sent its number of operations");
  if (!IsPlausible(started, here)) {
    return absl::DataLossError(absl::StrCat("implausible answer: last started operation #", started,
                                            "; the last one on this host is #", here));
  }
  answer = started;
  return absl::OkStatus();
}

std::optional<uint64_t> BoundaryVote::Agreed() const {
  uint64_t highest = 0;
  for (int h = 0; h < hosts_; ++h) {
    const std::optional<uint64_t> left = left_after_(HostIndex(h));
    const std::optional<uint64_t>& answer = started_[static_cast<size_t>(h)];
    if (!answer.has_value() && !left.has_value()) return std::nullopt;
    highest = std::max({highest, answer.value_or(0), left.value_or(0)});
  }
  return highest;
}

absl::Status CheckBoundary(uint64_t after, uint64_t started) {
  if (after >= started && IsPlausible(after, started)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("implausible boundary: operation #", after,
                                          "; the last started operation on this host is #",
                                          started));
}

}  // namespace mccs
