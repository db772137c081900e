#include "service/executor/channel_lanes.h"

#include <cstddef>

#include "base/status_macros.h"

namespace mccs {
namespace {

// The entry of `peer`.
template <typename Feed>
std::unique_ptr<Feed>& EntryOf(std::vector<std::unique_ptr<Feed>>& by_peer, HostIndex peer) {
  const auto index = static_cast<size_t>(peer.value());
  if (by_peer.size() <= index) by_peer.resize(index + 1);
  return by_peer[index];
}

}  // namespace

ProgramPorts ProgramFeeds::Ports() const {
  ProgramPorts ports;
  for (SendFeed* feed : sends) ports.sends.push_back(feed->port());
  for (ReceiveFeed* feed : receives) ports.receives.push_back(feed->port());
  return ports;
}

absl::StatusOr<ProgramFeeds> ChannelLanes::FeedsOf(const Program& program,
                                                   const ProgramLanes& lanes) {
  ProgramFeeds feeds;
  for (const ProgramLanes::Lane& lane : lanes.sends) {
    SendFeed& feed = SendTo(lane.peer);
    if (feed.staging().bytes == 0 && Composes(program, lane)) {
      MCCS_ASSIGN_OR_RETURN(const RegionSpan staging, directory_.StagingTo(channel_, lane.peer));
      feed.SetStaging(staging);
    }
    feeds.sends.push_back(&feed);
  }
  for (const ProgramLanes::Lane& lane : lanes.receives) {
    MCCS_ASSIGN_OR_RETURN(ReceiveFeed* const feed, ReceiveFrom(lane.peer));
    feeds.receives.push_back(feed);
  }
  return feeds;
}

SendFeed& ChannelLanes::SendTo(HostIndex peer) {
  std::unique_ptr<SendFeed>& feed = EntryOf(sends_, peer);
  if (feed == nullptr) {
    feed = std::make_unique<SendFeed>(*directory_.SendTo(channel_, peer), shape_);
  }
  return *feed;
}

absl::StatusOr<ReceiveFeed*> ChannelLanes::ReceiveFrom(HostIndex peer) {
  std::unique_ptr<ReceiveFeed>& feed = EntryOf(receives_, peer);
  if (feed == nullptr) {
    MCCS_ASSIGN_OR_RETURN(RecvLane* const lane, directory_.ReceiveFrom(channel_, peer));
    feed = std::make_unique<ReceiveFeed>(*lane, shape_);
  }
  return feed.get();
}

}  // namespace mccs
