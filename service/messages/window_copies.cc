#include "service/messages/window_copies.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace mccs {

WindowCopies::Lane& WindowCopies::LaneAt(int lane) {
  const auto index = static_cast<size_t>(lane);
  if (index >= lanes_.size()) lanes_.resize(index + 1);
  return lanes_[index];
}

RegionSpan WindowCopies::PlaceOf(const Lane& lane, const ArrivingSlice& slice) const {
  return {.region = lane.places.get(),
          .offset = slice.number % options_.slots * options_.slice_bytes,
          .bytes = slice.bytes};
}

std::optional<RegionSpan> WindowCopies::FindPlace(const ArrivingSlice& slice, WindowMemory window) {
  if (window.process == nullptr) return std::nullopt;
  Lane& lane = LaneAt(slice.lane);
  if (lane.places == nullptr) {
    absl::StatusOr<std::unique_ptr<Region>> places =
        options_.allocate(uint64_t{options_.slots} * options_.slice_bytes);
    if (!places.ok()) return std::nullopt;
    lane.places = *std::move(places);
  }
  lane.arriving.insert_or_assign(slice.number, std::move(window));
  return PlaceOf(lane, slice);
}

bool WindowCopies::Add(const ArrivingSlice& slice) {
  Lane& lane = LaneAt(slice.lane);
  lane.arriving.erase(lane.arriving.begin(), lane.arriving.lower_bound(slice.number));
  const auto placed = lane.arriving.find(slice.number);
  const bool copies = placed != lane.arriving.end() && slice.landing == Landing::kDirect;
  if (!copies && lane.slices.empty()) return false;
  Waiting& added = lane.slices.emplace_back();
  added.slice = slice;
  added.copied = !copies;
  if (!copies) return true;
  WindowMemory window = std::move(placed->second);
  lane.arriving.erase(placed);
  added.hold = std::move(window.hold);
  added.copy.emplace(*window.process, PlaceOf(lane, slice), window.memory.Part(0, slice.bytes));
  return true;
}

bool WindowCopies::Has(const ArrivingSlice& slice) const {
  return waiting(slice.lane) &&
         lanes_[static_cast<size_t>(slice.lane)].slices.back().slice.number == slice.number;
}

bool WindowCopies::waiting(int lane) const {
  const auto index = static_cast<size_t>(lane);
  return index < lanes_.size() && !lanes_[index].slices.empty();
}

absl::StatusOr<bool> WindowCopies::Poll(
    int lane, const std::function<absl::Status(const ArrivingSlice&)>& leave) {
  if (!waiting(lane)) return false;
  std::deque<Waiting>& slices = lanes_[static_cast<size_t>(lane)].slices;
  for (Waiting& slice : slices) {
    if (slice.copied) continue;
    MCCS_ASSIGN_OR_RETURN(slice.copied, slice.copy->Advance());
  }
  bool moved = false;
  while (!slices.empty() && slices.front().copied) {
    const Waiting front = std::move(slices.front());
    slices.pop_front();
    MCCS_RETURN_IF_ERROR(leave(front.slice));
    moved = true;
  }
  return moved;
}

bool WindowCopies::WritesInto(Rank rank, uint64_t window) const {
  return std::ranges::any_of(lanes_, [&](const Lane& lane) {
    return std::ranges::any_of(lane.slices, [&](const Waiting& waiting) {
      const MessageTag& tag = waiting.slice.tag;
      return tag.pair.destination == rank && (window == 0 || tag.number == window);
    });
  });
}

}  // namespace mccs
