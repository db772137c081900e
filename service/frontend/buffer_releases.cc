#include "service/frontend/buffer_releases.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {

absl::Status BufferReleases::Begin(uint64_t request, BufferId id, std::vector<RingUse> uses) {
  const bool asked_before = std::any_of(
      pending_.begin(), pending_.end(),
      [&](const Pending& other) { return !other.removed && !other.chunks && other.id == id; });
  if (asked_before || !buffers_.Has(id)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "buffer ", id.value(), asked_before ? " is being released" : " is not registered"));
  }
  MCCS_RETURN_IF_ERROR(ReserveUses(uses.size()));
  pending_.push_back({.request = request,
                      .id = id,
                      .chunks = std::nullopt,
                      .uses = std::move(uses),
                      .removed = false,
                      .mapping = {}});
  return absl::OkStatus();
}

absl::Status BufferReleases::BeginChunks(uint64_t request, BufferId id, const AddressRange& span,
                                         std::vector<RingUse> uses) {
  if (pending_.size() >= kMaxPending) {
    return absl::ResourceExhaustedError(
        absl::StrCat("too many pending releases of buffers and chunks: ", pending_.size(),
                     ", which is the limit"));
  }
  MCCS_RETURN_IF_ERROR(ReserveUses(uses.size()));
  pending_.push_back({.request = request,
                      .id = id,
                      .chunks = span,
                      .uses = std::move(uses),
                      .removed = false,
                      .mapping = {}});
  return absl::OkStatus();
}

absl::Status BufferReleases::ReserveUses(size_t uses) {
  if (uses > kMaxUses - uses_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "too many posted operations may use the buffers that are being released: ", uses_,
        " rings and ", uses, " more, the limit is ", kMaxUses,
        "; wait for the operations before the memory is freed"));
  }
  uses_ += uses;
  return absl::OkStatus();
}

BufferReleases::Polled BufferReleases::Poll(const std::function<bool(const RingUse&)>& is_over,
                                            size_t most) {
  Polled polled;
  const size_t uses_before = uses_;
  size_t checks = kCheckedPerTurn + 1;
  for (size_t i = std::min({pending_.size(), kCheckedPerTurn, most}); i > 0 && checks > 0; --i) {
    Pending pending = std::move(pending_.front());
    pending_.pop_front();
    ++polled.checked;
    if (Step(pending, is_over, &checks)) {
      polled.ended.push_back(pending.request);
    } else {
      pending_.push_back(std::move(pending));
    }
  }
  polled.checked += kCheckedPerTurn + 1 - checks;
  polled.moved = !polled.ended.empty() || uses_ < uses_before;
  return polled;
}

bool BufferReleases::Step(Pending& pending, const std::function<bool(const RingUse&)>& is_over,
                          size_t* checks) {
  for (; !pending.uses.empty(); pending.uses.pop_back(), --uses_) {
    if (*checks == 0) return false;
    --*checks;
    if (!is_over(pending.uses.back())) return false;
  }
  if (!pending.removed) {
    // The chunks may have been removed with their buffer.
    auto gone = pending.chunks ? buffers_.UnmapChunks(pending.id, *pending.chunks)
                               : buffers_.Release(pending.id);
    if (absl::IsResourceExhausted(gone.status())) return false;  // retried later
    if (gone.ok()) pending.mapping = *gone;
    pending.removed = true;
  }
  return pending.mapping.expired();
}

}  // namespace mccs
