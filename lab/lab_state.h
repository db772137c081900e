// What is known of a lab from outside its supervisor: the file state.yaml in the lab's folder. The
// supervisor alone writes it; every command reads it.
#ifndef MCCS_LAB_LAB_STATE_H_
#define MCCS_LAB_LAB_STATE_H_

#include <sys/types.h>

#include <cstdint>
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

struct LabSize {
  int32_t hosts = 1;
  int32_t gpus_per_host = 1;

  int32_t ranks() const { return hosts * gpus_per_host; }
};

struct DaemonState {
  std::string name;     // "controller", "h0", "h1", …
  std::string address;  // of its host, in 127.0.0.0/8
  int32_t pid = 0;
  std::string condition;  // "starting", "ready", or how it ended
  std::string endpoint;   // host:port, once it is ready
};

struct LabState {
  std::string name;
  int32_t supervisor_pid = 0;
  LabSize size;
  std::vector<DaemonState> daemons;  // the controller first, then the hosts in order

  // Every daemon has been ready. One that ended later does not change that.
  bool ready = false;

  // The daemon of that name, or kNotFound with the names that there are.
  absl::StatusOr<const DaemonState*> Find(std::string_view daemon) const;
  // The same, but the controller is no host.
  absl::StatusOr<const DaemonState*> FindHost(std::string_view host) const;
};

std::string HostName(int32_t index);
// 127.0.0.1 for host 0 and so on: hosts differ by address, as on a network.
std::string HostAddress(int32_t index);

// Where things lie. A lab is one folder; nothing of it is elsewhere.
struct LabPaths {
  std::string root;

  std::string State() const { return root + "/state.yaml"; }
  std::string DaemonFolder(std::string_view daemon) const;
  std::string Socket(std::string_view host) const;
  std::string Config(std::string_view daemon) const;
  std::string Log(std::string_view daemon) const;
  // The daemon writes its host:port here once it serves.
  std::string Endpoint(std::string_view daemon) const;
};

// ENSURES: a reader sees the old state or the new one, never a part.
absl::Status WriteState(const LabPaths& paths, const LabState& state);
absl::StatusOr<LabState> ReadState(const LabPaths& paths);

}  // namespace mccs::lab

#endif  // MCCS_LAB_LAB_STATE_H_
