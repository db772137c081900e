#include "service/frontend/rank_windows.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {

absl::Status RankWindows::Open(const wire::RegisterWindow& request) {
  if (request.number != last_ + 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("window #", request.number, ": expected #", last_ + 1));
  }
  last_ = request.number;
  ++changes_;
  if (request.bytes == 0) return absl::OkStatus();
  if (windows_.size() >= kMaxWindows) {
    return absl::ResourceExhaustedError(
        absl::StrCat("too many windows: this rank has ", windows_.size(),
                     " in the communicator, which is the limit; deregister unused ones"));
  }
  if (request.memory.id != 0) {
    MCCS_RETURN_IF_ERROR(buffers_.Resolve(request.memory, request.bytes, 1).status());
  }
  windows_[last_] = {.memory = request.memory, .bytes = request.bytes};
  return absl::OkStatus();
}

absl::Status RankWindows::Close(uint64_t number) {
  if (windows_.erase(number) > 0) {
    ++changes_;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "cannot deregister window #", number, ": it is not registered; deregister each window once"));
}

void RankWindows::CloseAll() {
  windows_.clear();
  ++changes_;
}

WindowView RankWindows::GetView(uint64_t number) const {
  if (number > last_) return {.state = WindowView::State::kNotYet};
  const auto found = windows_.find(number);
  if (found == windows_.end()) return {.state = WindowView::State::kGone};
  return {.state = WindowView::State::kOpen, .bytes = found->second.bytes};
}

absl::StatusOr<WindowMemory> RankWindows::Find(const WindowPart& part) const {
  const auto rejected = [&](const auto&... why) {
    return absl::StrCat("window #", part.number, " of rank ", rank_.value(), why...);
  };
  const auto found = windows_.find(part.number);
  if (found == windows_.end()) {
    return absl::FailedPreconditionError(
        rejected(" is deregistered, or its registration failed; deregister a window after all puts "
                 "into it have arrived"));
  }
  const Window& window = found->second;
  if (part.offset > window.bytes || part.bytes > window.bytes - part.offset) {
    return absl::InvalidArgumentError(rejected(" has ", window.bytes, " bytes; a put of ",
                                               part.bytes, " bytes at offset ", part.offset,
                                               " exceeds it"));
  }
  if (window.memory.id == 0) {
    return absl::FailedPreconditionError(
        rejected(" is in memory that mccsd cannot map; use memory of ncclMemAlloc"));
  }
  wire::BufferRef place = window.memory;
  place.offset += part.offset;
  const absl::StatusOr<BufferHold> hold = buffers_.Resolve(place, part.bytes, 1);
  if (!hold.ok()) {
    return absl::FailedPreconditionError(
        rejected(" has no memory: it was freed before ",
                 "the window was deregistered: ", std::string(hold.status().message())));
  }
  return WindowMemory{.memory = {hold->get(), place.offset, part.bytes}, .hold = *hold};
}

}  // namespace mccs
