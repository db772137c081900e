// A lab's state as commands see it: the file state.yaml in the lab's directory. Only the lab's
// launcher (lab/supervisor.h) writes it; every command reads it.
#ifndef MCCS_LAB_LAB_STATE_H_
#define MCCS_LAB_LAB_STATE_H_

#include <sys/types.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "lab/environment.h"

namespace mccs::lab {

inline constexpr int32_t kMaxHosts = 64;
inline constexpr int32_t kMaxGpusPerHost = 64;

// The controller's name among the lab's daemons.
inline constexpr char kControllerName[] = "controller";

// A host before its daemon runs.
struct LabHost {
  std::string name;
  std::string address;
  uint16_t port = 0;  // of its daemon; 0: the kernel chooses
  int32_t gpus = 1;
  std::string pod, rack;
  bool listens_everywhere = false;  // its daemon listens on all addresses: it has several NICs
};

struct DaemonState {
  std::string name;  // "controller", or the name of the host
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

// A virtual machine of a lab of virtual machines (lab/vms.h), one per host.
struct VmState {
  std::string name;  // of the host
  int32_t pid = 0;   // of QEMU; 0: it has ended
  uint16_t agent_port = 0;
};

// Where a program of the lab runs: in a node, in a virtual machine or, with neither, beside the
// calling process.
struct Place {
  pid_t node = 0;           // its holder
  uint16_t agent_port = 0;  // of the virtual machine, on 127.0.0.1
  std::string agent_key_file = {};
};

struct LabPaths;

struct LabState {
  std::string name;
  int32_t supervisor_pid = 0;
  std::vector<DaemonState> daemons;  // the controller first, then the hosts in order
  // In the order of FabricPlan. Empty: all hosts share the machine's network.
  std::vector<NodeState> nodes;
  // In the order of the hosts. Empty: no virtual machines.
  std::vector<VmState> vms;
  // Each has its own socket at every daemon.
  std::vector<std::string> tenants;

  // Every daemon has become ready. Stays true if one ends later.
  bool ready = false;

  // The daemon of that name. kNotFound: the message lists all names.
  absl::StatusOr<const DaemonState*> Find(std::string_view daemon) const;
  // The same for hosts only. kInvalidArgument: `host` is the controller.
  absl::StatusOr<const DaemonState*> FindHost(std::string_view host) const;

  std::span<const DaemonState> hosts() const { return std::span(daemons).subspan(1); }

  // Each host has its own addresses.
  bool has_network() const { return !nodes.empty() || has_vms(); }
  bool has_vms() const { return !vms.empty(); }
  // Where programs on a host or, in a lab with nodes, on a switch run. The controller of a lab of
  // virtual machines runs on the first one. kNotFound: the message lists all names.
  absl::StatusOr<Place> PlaceOf(const LabPaths& paths, std::string_view name) const;
  // Pid of the holder process of the node; 0: the lab has no nodes. kNotFound: the message lists
  // all names.
  absl::StatusOr<pid_t> NodeHolder(std::string_view node) const;
};

// h0, h1, … on the machine's own network, each with its own address: 127.0.0.1 for host 0, and so
// on.
std::vector<LabHost> PlainHosts(int32_t hosts, int32_t gpus_per_host);
std::string PlainAddress(int32_t index);

// Files of a lab. All of them are in its directory.
struct LabPaths {
  std::string root;

  std::string State() const { return root + "/state.yaml"; }
  // /etc/hosts of programs on the lab's hosts.
  std::string HostsFile() const { return root + "/hosts"; }
  // Only in labs with a network: the topology, the changed rates of links, and the lock for
  // changing links.
  std::string Topology() const { return root + "/topology.yaml"; }
  std::string LinkRates() const { return root + "/link_rates.yaml"; }
  std::string LinkLock() const { return root + "/link.lock"; }
  // Only in labs of virtual machines: what the agents require of requests, and the directory of a
  // machine, with its console and the script that it runs.
  std::string AgentKey() const { return root + "/agent.key"; }
  // The lab's certificate authority, and the certificate of an operator who may do everything.
  std::string Authority() const { return root + "/certificates"; }
  static constexpr char kOperator[] = "admin";  // the name for which the controller has a role
  std::string OperatorCertificate() const { return Authority() + "/operators/" + kOperator; }
  std::string VmDirectory(std::string_view host) const;
  std::string DaemonDirectory(std::string_view daemon) const;
  // The socket of a tenant (mccs-lab up --tenants); empty: the common one.
  std::string Socket(std::string_view host, std::string_view tenant = "") const;
  // `socket_dir` of a host: the directory of sockets that Tenants declare.
  std::string SocketDirectory(std::string_view host) const;
  std::string Config(std::string_view daemon) const;
  std::string Log(std::string_view daemon) const;
  // The daemon writes its host:port to this file once it serves.
  std::string Endpoint(std::string_view daemon) const;
  // The daemon writes the host:port of its metrics to this file before it serves.
  std::string MetricsEndpoint(std::string_view daemon) const;
};

inline constexpr int kJsonIndent = 2;
nlohmann::ordered_json ToJson(const LabState& lab);

// ENSURES: atomic for readers.
absl::Status WriteState(const LabPaths& paths, const LabState& state);
absl::StatusOr<LabState> ReadState(const LabPaths& paths);

inline constexpr size_t kMaxNameChars = 32;

// Lower-case letters, digits, '-' and '_'; at most kMaxNameChars.
absl::Status ValidateLabName(std::string_view name);
absl::Status ValidateTenantName(std::string_view name);

// Directories of labs, `parent`/mccs-lab-<uid>-<name>, and their locks. The supervisor and the
// launcher hold the lock while they run. An unlocked directory is left from a killed lab; the next
// command removes it.
class LabDirectories {
 public:
  explicit LabDirectories(std::string parent) : parent_(std::move(parent)) {}

  // REQUIRES: a valid name.
  LabPaths PathsOf(std::string_view name) const;

  // Creates the directory and locks it. The lock lasts until all copies of the descriptor (fork
  // makes some) are closed. kAlreadyExists: a lab of that name is running.
  absl::StatusOr<UniqueFd> CreateAndLock(std::string_view name) const;

  // Whether a supervisor holds the lock. Removes the directory if none does.
  absl::StatusOr<bool> IsLocked(std::string_view name) const;

  // Names of this user's running labs. Removes unlocked directories.
  std::vector<std::string> RunningNames() const;

 private:
  std::string Prefix() const;

  std::string parent_;
};

// Removes a lab's directory recursively. OK if it does not exist.
absl::Status RemoveLabDirectory(const LabPaths& paths);

// The environment of the mccs-lab command, and the labs that it can use.
struct Caller {
  Environment environment;
  LabDirectories directories;
};

// kNotFound: the message lists the running labs.
absl::StatusOr<LabState> FindLab(const Caller& caller, const std::string& name);
// kUnavailable: the lab is still starting.
absl::StatusOr<LabState> FindReadyLab(const Caller& caller, const std::string& name);

}  // namespace mccs::lab

#endif  // MCCS_LAB_LAB_STATE_H_
