#include "service/messages/window_copies.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "service/device/gpu/gpu_address_space.h"

namespace mccs {

WindowCopies::Lane& WindowCopies::LaneAt(int lane) {
  const auto index = static_cast<size_t>(lane);
  if (index >= lanes_.size()) lanes_.resize(index + 1);
  if (lanes_[index] == nullptr) lanes_[index] = std::make_unique<Lane>();
  return *lanes_[index];
}

RegionSpan WindowCopies::PlaceOf(const Lane& lane, const ArrivingSlice& slice) const {
  return {.region = lane.places.get(),
          .offset = slice.number % options_.slots * options_.slice_bytes,
          .bytes = slice.bytes};
}

std::optional<RegionSpan> WindowCopies::FindPlace(const ArrivingSlice& slice) {
  Lane& lane = LaneAt(slice.lane);
  if (lane.places == nullptr) {
    absl::StatusOr<std::shared_ptr<Region>> places =
        options_.allocate(uint64_t{options_.slots} * options_.slice_bytes);
    if (!places.ok()) {
      place_error_ = places.status();
      return std::nullopt;
    }
    lane.places = *std::move(places);
  }
  return PlaceOf(lane, slice);
}

bool WindowCopies::Add(const ArrivingSlice& slice, std::optional<WindowMemory> window) {
  Lane& lane = LaneAt(slice.lane);
  if (!window.has_value() && lane.slices.empty()) return false;
  Waiting& added = lane.slices.emplace_back();
  added.slice = slice;
  added.copy.owner = &mem_ops_[slice.tag.pair.destination];
  if (!window.has_value()) return true;
  added.hold = std::move(window->hold);
  added.process = window->process->place().process;
  added.to = window->memory.Part(0, slice.bytes);
  added.copy.Submit(
      *options_.device,
      RegionCopy{
          .from = PlaceOf(lane, slice), .to = added.to, .kernel = {}, .process = window->process});
  return true;
}

bool WindowCopies::has_kept(int lane) const {
  const auto index = static_cast<size_t>(lane);
  return index < lanes_.size() && lanes_[index] != nullptr && !lanes_[index]->slices.empty();
}

bool WindowCopies::Keeps(const ArrivingSlice& slice) const {
  return has_kept(slice.lane) &&
         lanes_[static_cast<size_t>(slice.lane)]->slices.back().slice.number == slice.number;
}

absl::StatusOr<bool> WindowCopies::Poll(
    int lane, const std::function<absl::Status(const ArrivingSlice&)>& on_copied) {
  if (!has_kept(lane)) return false;
  std::deque<Waiting>& slices = lanes_[static_cast<size_t>(lane)]->slices;
  bool moved = false;
  while (!slices.empty() && slices.front().copy.outstanding == 0) {
    MCCS_RETURN_IF_ERROR(slices.front().copy.owner->status);
    const ArrivingSlice slice = slices.front().slice;
    slices.pop_front();
    MCCS_RETURN_IF_ERROR(on_copied(slice));
    moved = true;
  }
  return moved;
}

bool WindowCopies::quiescent() const {
  return std::ranges::all_of(mem_ops_, [](const auto& of) { return of.second.outstanding == 0; });
}

void WindowCopies::Abandon() {
  for (auto& [rank, owner] : mem_ops_) owner.abandoned = true;
}

void WindowCopies::AbandonFor(Rank rank) {
  const auto owner = mem_ops_.find(rank);
  if (owner != mem_ops_.end()) owner->second.abandoned = true;
}

void WindowCopies::AddUncopied(WaitingCalls& waiting) const {
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (!waiting.Look()) return;
    if (lane == nullptr || lane->slices.empty()) continue;
    const Waiting& first = lane->slices.front();
    if (first.copy.outstanding == 0) continue;
    waiting.Add(UncopiedPut{.pair = first.slice.tag.pair,
                            .window = first.slice.tag.number,
                            .part = first.slice.number,
                            .process = first.process});
  }
}

bool WindowCopies::CopiesInto(const RegionSpan& memory) const {
  return std::ranges::any_of(lanes_, [&](const std::unique_ptr<Lane>& lane) {
    return lane != nullptr && std::ranges::any_of(lane->slices, [&](const Waiting& waiting) {
             return waiting.copy.outstanding > 0 && Overlap(waiting.to, memory);
           });
  });
}

bool WindowCopies::WritesInto(Rank rank, uint64_t window) const {
  return std::ranges::any_of(lanes_, [&](const std::unique_ptr<Lane>& lane) {
    return lane != nullptr && std::ranges::any_of(lane->slices, [&](const Waiting& waiting) {
             const MessageTag& tag = waiting.slice.tag;
             return tag.pair.destination == rank && (window == 0 || tag.number == window);
           });
  });
}

}  // namespace mccs
