// Virtual machines as the hosts of a lab (mccs-lab up --network rdma-vms). QEMU emulates them, and
// their kernel emulates an RDMA device.
//
//   ┌ h0 ────────────┐          ┌ h1 ────────────┐
//   │ mccs-controller│          │ mccsd, ranks   │
//   │ mccsd, ranks   │          │                │
//   │ rxe0 on eth0 ══╪═══ hub ══╪═ eth0 with rxe0│   10.77.0.0/24
//   │ agent: eth1 ───╪──┐   ┌───╪─ eth1: agent   │
//   └────────────────┘  │   │   └────────────────┘
//              127.0.0.1:PORT of this machine ◀── mccs-lab (lab/vm_client.h)
//
// A virtual machine has no disk. It mounts this machine's file system, read-only, so any program
// runs in it unchanged; /run and /dev/shm are its own, changes in /tmp too. The lab's directory is
// shared.
//
// Pure, except for PrepareVms.
#ifndef MCCS_LAB_VMS_H_
#define MCCS_LAB_VMS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "lab/environment.h"
#include "lab/lab_state.h"

namespace mccs::lab {

inline constexpr int32_t kMaxVms = 4;

// Emulated processors are slow.
inline constexpr int64_t kVmBootDeadlineNs = 180 * kNsPerSec;
inline constexpr int64_t kVmReadyDeadlineNs = 120 * kNsPerSec;

// h0, h1, … with the addresses of their RDMA devices.
std::vector<LabHost> VmHosts(int32_t hosts, int32_t gpus_per_host);

// The socket of a tenant's programs, in every virtual machine; empty: the common one. In /run,
// because a shared directory cannot have sockets.
std::string VmSocket(std::string_view tenant = "");

// `socket_dir` in every virtual machine.
inline constexpr char kVmSocketDirectory[] = "/run/tenants";

// YAML lines for the configuration of every mccsd.
std::string VmDaemonConfig();

// Finds or makes what all virtual machines have in common: QEMU, a kernel, and its first programs.
// Prints its progress to stderr. Returns the first words of QEMU's command line. `script`:
// rdma_vms/prepare.py. kUnimplemented: something is missing here; the message names the remedy.
absl::StatusOr<std::vector<std::string>> PrepareVms(const std::string& script,
                                                    const Environment& environment);

struct VmOptions {
  std::vector<std::string> qemu;  // of PrepareVms
  LabPaths paths;
  int32_t index = 0;  // of the host
  LabHost host{};
  uint16_t agent_port = 0;  // on 127.0.0.1, of this machine
  // Descriptors that QEMU inherits: connected sockets, whose other ends other machines have.
  std::vector<int> cables{};
  std::string agent;  // program that has the agent (Products::lab)
};

// QEMU's command line.
std::vector<std::string> QemuWords(const VmOptions& options);

// Shell script that the virtual machine runs when its file systems are mounted.
std::string VmStartScript(const VmOptions& options);

// Files in LabPaths::VmDirectory.
std::string VmConsole(const LabPaths& paths, std::string_view host);
std::string VmReadyFile(const LabPaths& paths, std::string_view host);
inline constexpr char kVmStartFile[] = "start";

}  // namespace mccs::lab

#endif  // MCCS_LAB_VMS_H_
