// Which source ports the lanes of the cluster hold, and the choice of another one.
#ifndef MCCS_CONTROLLER_POLICY_SOURCE_PORTS_H_
#define MCCS_CONTROLLER_POLICY_SOURCE_PORTS_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "controller/cluster_view.h"
#include "controller/policy/locality_ring.h"

namespace mccs {

class SourcePorts {
 public:
  explicit SourcePorts(const PortRange& range) : range_(range) {}

  // Takes all ports of `communicator`'s strategy.
  void TakeAll(const CommunicatorView& communicator);
  // A free port for a lane, and takes it; the search begins at `hash`. Nothing: every port is taken
  // between these hosts.
  std::optional<uint16_t> Choose(uint64_t hash, const std::string& from, const std::string& to);

 private:
  void Take(uint16_t port, const std::string& from, const std::string& to);

  const PortRange range_;
  std::set<uint16_t> anywhere_;
  std::set<std::tuple<std::string, uint16_t>> from_host_;
  std::set<std::tuple<std::string, std::string, uint16_t>> between_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_SOURCE_PORTS_H_
