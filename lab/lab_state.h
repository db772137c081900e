// What is known of a lab from outside its supervisor: the file state.yaml in the lab's folder. The
// supervisor alone writes it; every command reads it.
#ifndef MCCS_LAB_LAB_STATE_H_
#define MCCS_LAB_LAB_STATE_H_

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mccs::lab {

inline constexpr int32_t kMaxHosts = 64;
inline constexpr int32_t kMaxGpusPerHost = 64;

// The controller's name among the lab's daemons.
inline constexpr char kControllerName[] = "controller";

// What a host is before its daemon runs.
struct LabHost {
  std::string name;
  std::string address;
  uint16_t port = 0;  // of its daemon; 0: the system chooses
  int32_t gpus = 1;
  std::string pod, rack;
  bool listens_everywhere = false;  // its daemon, at all addresses: it has several NICs
};

struct DaemonState {
  std::string name;  // "controller", or the host's
  std::string address;
  int32_t pid = 0;
  std::string condition;     // "starting", "ready", or how it ended
  std::string endpoint;      // host:port, once it is ready
  int32_t gpus = 0;          // of a host
  std::string metrics = {};  // host:port of /metrics, once it is ready
};

// A node of a lab with a network (lab/node.h).
struct NodeState {
  std::string name;
  int32_t pid = 0;  // of its holder
};

struct LabState {
  std::string name;
  int32_t supervisor_pid = 0;
  std::vector<DaemonState> daemons;  // the controller first, then the hosts in order
  // As FabricPlan has them. Empty: all share the machine's network.
  std::vector<NodeState> nodes;

  // Every daemon has been ready. One that ended later does not change that.
  bool ready = false;

  // The daemon of that name, or kNotFound with the names that there are.
  absl::StatusOr<const DaemonState*> Find(std::string_view daemon) const;
  // The same, but the controller is no host.
  absl::StatusOr<const DaemonState*> FindHost(std::string_view host) const;

  std::span<const DaemonState> hosts() const { return std::span(daemons).subspan(1); }

  bool has_network() const { return !nodes.empty(); }
  // Who holds the node of that name, or kNotFound with the names that there are. 0 where all share
  // the machine's network.
  absl::StatusOr<pid_t> HolderOf(std::string_view node) const;
};

// h0, h1, … on the machine's own network: 127.0.0.1 for host 0 and so on, since hosts differ by
// address, as on a network.
std::vector<LabHost> PlainHosts(int32_t hosts, int32_t gpus_per_host);
std::string PlainAddress(int32_t index);

// Where things lie. A lab is one folder; nothing of it is elsewhere.
struct LabPaths {
  std::string root;

  std::string State() const { return root + "/state.yaml"; }
  // What programs on the lab's hosts see as /etc/hosts.
  std::string HostsFile() const { return root + "/hosts"; }
  // Of a lab with a network alone: its topology, the links whose rates were changed, and the lock
  // that a command takes to change links.
  std::string Topology() const { return root + "/topology.yaml"; }
  std::string LinkRates() const { return root + "/link_rates.yaml"; }
  std::string LinkLock() const { return root + "/link.lock"; }
  std::string DaemonFolder(std::string_view daemon) const;
  // Whose openers are this tenant (mccs-lab up --tenants); empty: the common one.
  std::string Socket(std::string_view host, std::string_view tenant = "") const;
  std::string Config(std::string_view daemon) const;
  std::string Log(std::string_view daemon) const;
  // The daemon writes its host:port here once it serves.
  std::string Endpoint(std::string_view daemon) const;
  // Likewise, before that: the host:port of its metrics.
  std::string MetricsEndpoint(std::string_view daemon) const;
};

// ENSURES: a reader sees the old state or the new one, never a part.
absl::Status WriteState(const LabPaths& paths, const LabState& state);
absl::StatusOr<LabState> ReadState(const LabPaths& paths);

}  // namespace mccs::lab

#endif  // MCCS_LAB_LAB_STATE_H_
