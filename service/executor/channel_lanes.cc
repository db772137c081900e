#include "service/executor/channel_lanes.h"

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
