// Which source ports the lanes of the cluster hold, and the choice of another one.
#ifndef MCCS_CONTROLLER_POLICY_SOURCE_PORTS_H_
#define MCCS_CONTROLLER_POLICY_SOURCE_PORTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "controller/cluster_view.h"

namespace mccs {

// Source ports of lanes, both ends included. Above Linux's default range of ephemeral ports (32768
// to 60999), so that no other program of the host holds one by chance.
struct PortRange {
  uint16_t first = 61000;
  uint16_t last = 65535;

  bool Contains(uint16_t port) const { return first <= port && port <= last; }
};

class SourcePorts {
 public:
  // Takes all ports of `communicator`'s strategy, or gives them back. REQUIRES of the latter:
  // taken.
  void TakeAll(const CommunicatorView& communicator) { Count(communicator, 1); }
  void GiveBack(const CommunicatorView& communicator) { Count(communicator, -1); }

  // A free port of `range` for a lane, and takes it: `now` where none is better, else the first
  // from `hash` on. Nothing: every port is taken between these hosts.
  std::optional<uint16_t> Choose(const PortRange& range, uint16_t now, uint64_t hash,
                                 const std::string& from, const std::string& to);

 private:
  void Count(const CommunicatorView& communicator, int by);
  void Count(uint16_t port, const std::string& from, const std::string& to, int by);

  // How many lanes have it.
  std::map<uint16_t, int> anywhere_;
  std::map<std::tuple<std::string, uint16_t>, int> from_host_;
  std::map<std::tuple<std::string, std::string, uint16_t>, int> between_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_SOURCE_PORTS_H_
