#include "service/executor/channel_lanes.h"

#include <algorithm>
#include <cstddef>

#include "base/status_macros.h"

namespace mccs {
namespace {

// The entry of `peer`.
template <typename Side>
std::unique_ptr<Side>& EntryOf(std::vector<std::unique_ptr<Side>>& by_peer, HostIndex peer) {
  const auto index = static_cast<size_t>(peer.value());
  if (by_peer.size() <= index) by_peer.resize(index + 1);
  return by_peer[index];
}

// Those of the lane's steps.
void AddUses(const Program& program, const ProgramLanes::Lane& lane, LaneEnd& end,
             std::vector<BufferUse>* uses) {
  const size_t first = uses->size();
  for (const uint16_t s : lane.steps) {
    const Place& place = program.steps[s].pieces.front();
    if (place.space != Space::kInput && place.space != Space::kOutput) continue;
    const LocalIndex rank(place.index);
    const bool known = std::any_of(
        uses->begin() + static_cast<ptrdiff_t>(first), uses->end(),
        [&](const BufferUse& use) { return use.space == place.space && use.rank == rank; });
    if (!known) uses->push_back({.lane = &end, .space = place.space, .rank = rank});
  }
}

}  // namespace

ProgramPorts ProgramFeeds::Ports() const {
  ProgramPorts ports;
  for (const auto& feed : sends) ports.sends.push_back(feed->port());
  for (const auto& feed : receives) ports.receives.push_back(feed->port());
  return ports;
}

absl::StatusOr<ProgramFeeds> ChannelLanes::MakeFeeds(const Program& program,
                                                     const ProgramLanes& lanes) {
  ProgramFeeds feeds;
  for (const ProgramLanes::Lane& lane : lanes.sends) {
    SendSide& side = SendTo(lane.peer);
    if (side.staging.bytes == 0 && Composes(program, lane)) {
      MCCS_ASSIGN_OR_RETURN(side.staging, directory_.StagingTo(channel_, lane.peer));
    }
    feeds.sends.push_back(std::make_unique<SendFeed>(side, shape_));
  }
  for (const ProgramLanes::Lane& lane : lanes.receives) {
    MCCS_ASSIGN_OR_RETURN(ReceiveSide* const side, ReceiveFrom(lane.peer));
    feeds.receives.push_back(std::make_unique<ReceiveFeed>(*side, shape_));
  }
  return feeds;
}

absl::Status ChannelLanes::AddBufferUses(const Program& program, std::vector<BufferUse>* uses) {
  const ProgramLanes lanes = LanesOf(program);
  for (const ProgramLanes::Lane& lane : lanes.sends) {
    AddUses(program, lane, SendTo(lane.peer).lane, uses);
  }
  for (const ProgramLanes::Lane& lane : lanes.receives) {
    MCCS_ASSIGN_OR_RETURN(ReceiveSide* const side, ReceiveFrom(lane.peer));
    AddUses(program, lane, side->lane, uses);
  }
  return absl::OkStatus();
}

SendSide& ChannelLanes::SendTo(HostIndex peer) {
  std::unique_ptr<SendSide>& side = EntryOf(sends_, peer);
  if (side == nullptr) {
    SendLane* const lane = directory_.SendTo(channel_, peer);
    lane->WaitForPlaces();  // as ReceiveFeed::Expect gives them
    side = std::make_unique<SendSide>(*lane);
  }
  return *side;
}

absl::StatusOr<ReceiveSide*> ChannelLanes::ReceiveFrom(HostIndex peer) {
  std::unique_ptr<ReceiveSide>& side = EntryOf(receives_, peer);
  if (side == nullptr) {
    MCCS_ASSIGN_OR_RETURN(RecvLane* const lane, directory_.ReceiveFrom(channel_, peer));
    side = std::make_unique<ReceiveSide>(*lane);
  }
  return side.get();
}

}  // namespace mccs
