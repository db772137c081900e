#include "tests/sim/random_lanes.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

struct WantedLane {
  CommId communicator;
  ChannelId channel;
  int from, to;         // positions in the communicator's list of hosts
  std::string host;     // `from`
  std::string to_host;  // `to`
  uint32_t port;        // 0: any
};

void AddLanes(CommId id, const CommunicatorRecord& record, std::vector<WantedLane>* lanes) {
  const auto& hosts = record.announced.hosts();
  if (hosts.size() < 2) return;
  for (int c = 0; c < record.Applied().channels_size(); ++c) {
    const strategy::ChannelStrategy& channel = record.Applied().channels(c);
    for (int i = 0; i < channel.ring_size(); ++i) {
      const int from = channel.ring(i);
      const int to = channel.ring((i + 1) % channel.ring_size());
      lanes->push_back({.communicator = id,
                        .channel = ChannelId(c),
                        .from = from,
                        .to = to,
                        .host = hosts[from],
                        .to_host = hosts[to],
                        .port = channel.source_ports().empty() ? 0 : channel.source_ports(i)});
    }
  }
}

std::string CheckLane(const WantedLane& wanted, const agent::v1::Report& report) {
  const std::string name =
      absl::StrCat(FormatCommId(wanted.communicator), ": lane of channel ", wanted.channel.value(),
                   " from ", wanted.host, " to ", wanted.to_host);
  const auto lane = std::ranges::find_if(report.lanes(), [&](const agent::v1::Lane& each) {
    return each.channel() == wanted.channel.value() && each.from() == wanted.from &&
           each.to() == wanted.to;
  });
  if (lane == report.lanes().end()) return absl::StrCat(name, " does not exist");
  if (lane->state() != "up") return absl::StrCat(name, " is ", lane->state());
  if (wanted.port != 0 && !absl::EndsWith(lane->local(), absl::StrCat(":", wanted.port))) {
    return absl::StrCat(name, " leaves from ", lane->local(), ", not from port ", wanted.port);
  }
  return "";
}

}  // namespace

std::string MisplacedLane(const Registry& registry, const SimControl& control,
                          const std::vector<CommId>& running) {
  std::vector<WantedLane> lanes;
  for (const CommId id : running) AddLanes(id, registry.communicators().at(id), &lanes);
  std::map<std::tuple<std::string, std::string, uint32_t>, int> claims;
  for (const WantedLane& lane : lanes) ++claims[{lane.host, lane.to_host, lane.port}];
  for (const WantedLane& lane : lanes) {
    if (lane.port != 0 && claims[{lane.host, lane.to_host, lane.port}] > 1) continue;
    int host = 0;
    if (!absl::SimpleAtoi(lane.host.substr(1), &host))
      return absl::StrCat("unknown host ", lane.host);
    const auto& reports = control.agent(host).reports();
    const auto report = reports.find(lane.communicator);
    if (report == reports.end()) return absl::StrCat(lane.host, " has sent no report");
    if (std::string wrong = CheckLane(lane, report->second); !wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace mccs
