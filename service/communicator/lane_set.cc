#include "service/communicator/lane_set.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

constexpr int64_t kDialAgainNs = 50 * kNsPerMs;

}  // namespace

absl::StatusOr<std::unique_ptr<LaneSet>> LaneSet::Make(const LaneSetOptions& options) {
  std::unique_ptr<LaneSet> set(new LaneSet(options));
  const std::vector<ChannelStrategy>& channels = options.strategy.channels;
  set->channels_.reserve(channels.size());
  for (size_t c = 0; c < channels.size(); ++c) {
    MCCS_RETURN_IF_ERROR(set->AddChannel(ChannelId(static_cast<int>(c)), channels[c]));
  }
  return set;
}

absl::Status LaneSet::AddChannel(ChannelId id, const ChannelStrategy& strategy) {
  channels_.emplace_back();
  Channel& channel = channels_.back();
  channel.id = id;
  const LaneShape& shape = options_.strategy.lanes;
  ChannelResources resources{.shape = shape};
  if (strategy.ring.size() > 1) {
    const size_t position =
        static_cast<size_t>(std::find(strategy.ring.begin(), strategy.ring.end(), options_.self) -
                            strategy.ring.begin());
    const size_t hosts = strategy.ring.size();
    channel.next = strategy.ring[(position + 1) % hosts];
    channel.previous = strategy.ring[(position + hosts - 1) % hosts];
    if (!strategy.source_ports.empty()) channel.source_port = strategy.source_ports[position];
    const size_t bytes = size_t{shape.slots} * shape.slot_bytes;
    MCCS_ASSIGN_OR_RETURN(channel.slots, options_.device->Allocate(bytes));
    MCCS_ASSIGN_OR_RETURN(channel.staging, options_.device->Allocate(bytes));
    channel.send = options_.transport->MakeSendLane(shape);
    channel.receive = options_.transport->MakeRecvLane(shape, {channel.slots->address(), bytes});
    resources.send = channel.send.get();
    resources.receive = channel.receive.get();
    resources.staging = {channel.staging->address(), bytes};
    StartDial(channel);
  }
  resources_.push_back(resources);
  return absl::OkStatus();
}

void LaneSet::StartDial(Channel& channel) {
  const DialOptions dial{
      .to = options_.hosts[channel.next.value()],
      .connect = {.source_host = options_.source_host, .source_port = channel.source_port},
      .preamble = {.purpose = ConnectionPurpose::kLane,
                   .comm_id = options_.id,
                   .epoch = options_.strategy.epoch,
                   .channel = channel.id,
                   .from_host = options_.self,
                   .to_host = channel.next},
      .secret = options_.secret};
  channel.dial = std::make_unique<Dial>(options_.access, dial);
}

void LaneSet::Accept(const Preamble& preamble, std::unique_ptr<Connection> connection) {
  const int index = preamble.channel.value();
  if (preamble.epoch != options_.strategy.epoch || preamble.to_host != options_.self || index < 0 ||
      index >= static_cast<int>(channels_.size())) {
    return;
  }
  Channel& channel = channels_[index];
  if (channel.receive == nullptr || preamble.from_host != channel.previous) return;
  channel.receive->Attach(std::move(connection));
  channel.receive_attached = true;
  channel.receive_broken_at = 0;
}

bool LaneSet::ready() const {
  return std::all_of(channels_.begin(), channels_.end(), [](const Channel& c) {
    return c.send == nullptr || (c.send_attached && c.receive_attached);
  });
}

bool LaneSet::drained() const {
  return idle_ && std::all_of(channels_.begin(), channels_.end(), [](const Channel& c) {
           return c.send == nullptr || c.next_excused || c.send->acknowledged() == c.send->next();
         });
}

void LaneSet::Excuse(HostIndex host) {
  for (Channel& channel : channels_) {
    channel.next_excused |= channel.next == host;
    channel.previous_excused |= channel.previous == host;
  }
}

MonotonicNs LaneSet::NextDeadline() const {
  MonotonicNs next = std::numeric_limits<MonotonicNs>::max();
  for (const Channel& channel : channels_) {
    if (channel.send_broken_at != 0) {
      next = std::min(next, channel.send_broken_at + kLanePatienceNs);
      if (channel.dial == nullptr) next = std::min(next, channel.dial_again_at);
    }
    if (channel.receive_broken_at != 0)
      next = std::min(next, channel.receive_broken_at + kLanePatienceNs);
  }
  return next;
}

absl::StatusOr<bool> LaneSet::Poll() {
  bool moved = false;
  for (Channel& channel : channels_) {
    if (channel.send == nullptr) continue;
    MCCS_RETURN_IF_ERROR(PollReceive(channel, &moved));
    MCCS_RETURN_IF_ERROR(PollSend(channel, &moved));
  }
  idle_ = !moved;
  return moved;
}

absl::Status LaneSet::PollReceive(Channel& channel, bool* moved) {
  if (!channel.receive_attached) return absl::OkStatus();
  *moved |= channel.receive->Poll();
  if (channel.previous_excused) {
    channel.receive_broken_at = 0;
    return absl::OkStatus();
  }
  return CheckPatience(channel.receive->status(), &channel.receive_broken_at, channel.previous,
                       channel.id);
}

absl::Status LaneSet::PollSend(Channel& channel, bool* moved) {
  if (channel.dial != nullptr) {
    auto connection = channel.dial->Poll();
    if (!connection.ok()) {
      channel.dial.reset();
      if (!channel.send_attached) return connection.status();
      channel.dial_again_at = options_.access.clock->Now() + kDialAgainNs;
    } else if (*connection != nullptr) {
      channel.dial.reset();
      channel.send->Attach(std::move(*connection));
      channel.send_attached = true;
      channel.send_broken_at = 0;
      *moved = true;
    }
  }
  if (!channel.send_attached) return absl::OkStatus();
  *moved |= channel.send->Poll();
  const absl::Status status = channel.send->status();
  if (channel.next_excused) {
    channel.dial.reset();
    channel.send_broken_at = 0;
    return absl::OkStatus();
  }
  if (absl::IsUnavailable(status) && channel.dial == nullptr &&
      options_.access.clock->Now() >= channel.dial_again_at) {
    StartDial(channel);
    *moved = true;  // It may have failed already, and no byte will say so.
  }
  return CheckPatience(status, &channel.send_broken_at, channel.next, channel.id);
}

absl::Status LaneSet::CheckPatience(const absl::Status& lane, MonotonicNs* broken_at,
                                    HostIndex peer, ChannelId channel) const {
  if (lane.ok()) {
    *broken_at = 0;
    return absl::OkStatus();
  }
  const MonotonicNs now = options_.access.clock->Now();
  if (*broken_at == 0) *broken_at = now;
  if (absl::IsUnavailable(lane) && now - *broken_at < kLanePatienceNs) return absl::OkStatus();
  return absl::Status(lane.code(), absl::StrCat("lane of channel ", channel.value(), " with host ",
                                                ToString(options_.hosts[peer.value()]), ": ",
                                                std::string(lane.message())));
}

std::string LaneSet::DescribeMissing() const {
  std::vector<std::string> missing;
  for (const Channel& channel : channels_) {
    if (channel.send == nullptr) continue;
    if (!channel.send->status().ok()) {
      missing.push_back(absl::StrCat("channel ", channel.id.value(), " to ",
                                     ToString(options_.hosts[channel.next.value()])));
    }
    if (!channel.receive->status().ok()) {
      missing.push_back(absl::StrCat("channel ", channel.id.value(), " from ",
                                     ToString(options_.hosts[channel.previous.value()])));
    }
  }
  return absl::StrJoin(missing, ", ");
}

std::vector<CommunicatorStats::Lane> LaneSet::Stats() const {
  std::vector<CommunicatorStats::Lane> stats;
  for (const Channel& channel : channels_) {
    if (channel.send == nullptr) continue;
    const LaneCounters counters = channel.send->counters();
    const absl::Status status = channel.send->status();
    stats.push_back({.channel = channel.id,
                     .from = options_.self,
                     .to = channel.next,
                     .local = ToString(channel.send->local()),
                     .remote = ToString(channel.send->remote()),
                     .payload_bytes = counters.payload_bytes,
                     .reconnects = counters.reconnects,
                     .state = status.ok() ? "up" : std::string(status.message())});
  }
  return stats;
}

}  // namespace mccs
