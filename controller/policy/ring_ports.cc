#include "controller/policy/ring_ports.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/view/flow.h"
#include "controller/view/source_ports.h"

namespace mccs {
namespace {

struct Lane {
  int channel, place, from, to;
};

// Independent of the communicator's id, which differs in each run of a program.
uint64_t Draw(uint64_t seed, const CommunicatorView& communicator, const Lane& lane) {
  uint64_t draw = Mix(seed + 1);
  const auto add = [&](uint64_t value) { draw = Mix(draw + value + 1); };
  add(static_cast<uint64_t>(lane.channel));
  for (const int host : {lane.from, lane.to}) {
    for (const char c : communicator.hosts[host]) add(static_cast<unsigned char>(c));
    add(0);
    if (host >= static_cast<int>(communicator.gpus.size())) continue;
    for (const int gpu : communicator.gpus[host]) add(static_cast<uint64_t>(gpu));
  }
  return draw;
}

std::optional<uint16_t> DrawPort(const PortRange& range, uint64_t draw,
                                 const SourcePorts::Ends& ends, SourcePorts* taken) {
  const uint32_t count = range.last - range.first + 1u;
  for (uint32_t i = 0; i < count; ++i) {
    const auto port = static_cast<uint16_t>(range.first + (draw + i) % count);
    if (taken->TakeBetween(port, ends)) return port;
  }
  return std::nullopt;
}

// The lane's current port.
uint16_t PortNow(const CommunicatorView& communicator, const Lane& lane) {
  const strategy::Strategy& now = communicator.strategy;
  if (lane.channel >= now.channels_size()) return 0;
  return PortOfLane(now.channels(lane.channel), lane.from, lane.to);
}

std::optional<uint16_t> PortFor(const CommunicatorView& communicator, const Lane& lane,
                                const RingPortOptions& options, const SourcePorts::Ends& ends,
                                SourcePorts* taken) {
  if (options.seed)
    return DrawPort(options.ports, Draw(*options.seed, communicator, lane), ends, taken);
  return taken->Choose(options.ports, PortNow(communicator, lane),
                       LaneHash(communicator.id, lane.channel, lane.place), ends);
}

}  // namespace

absl::Status AssignPorts(const CommunicatorView& communicator, const RingPortOptions& options,
                         SourcePorts* taken, strategy::Strategy* frame) {
  std::vector<std::pair<uint16_t, SourcePorts::Ends>> given;
  for (int c = 0; c < frame->channels_size(); ++c) {
    strategy::ChannelStrategy* channel = frame->mutable_channels(c);
    const int hosts = channel->ring_size();
    if (hosts < 2) continue;  // No lanes.
    for (int i = 0; i < hosts; ++i) {
      const Lane lane = {c, i, channel->ring(i), channel->ring((i + 1) % hosts)};
      const std::string& from = communicator.hosts[lane.from];
      const std::string& to = communicator.hosts[lane.to];
      const SourcePorts::Ends ends = taken->Between(from, to);
      const auto port = PortFor(communicator, lane, options, ends, taken);
      if (!port) {
        for (const auto& [gave, between] : given) taken->Release(gave, between);
        return absl::ResourceExhaustedError(
            absl::StrCat("communicator ", FormatCommId(communicator.id), ", channel ", c,
                         ": no free source port: all of ", options.ports.first, " to ",
                         options.ports.last, " from ", from, " to ", to, " are taken"));
      }
      given.emplace_back(*port, ends);
      channel->add_source_ports(*port);
    }
  }
  return absl::OkStatus();
}

}  // namespace mccs
