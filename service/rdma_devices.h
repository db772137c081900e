// The RDMA devices of this host: which are there, which mccsd uses, and what is missing for others.
//
// THREAD: any, before the engine runs. Blocks for the devices.
#ifndef MCCS_SERVICE_RDMA_DEVICES_H_
#define MCCS_SERVICE_RDMA_DEVICES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/endpoint.h"
#include "base/log.h"
#include "base/reactor.h"
#include "service/transport/rdma/ib_verbs.h"
#include "service/transport/rdma/rdma_transport.h"
#include "topology/host_discovery.h"

namespace mccs {

// `transport` in the configuration.
enum class TransportChoice : uint8_t {
  kAuto,  // RDMA between hosts that have it, else TCP
  kRdma,  // only RDMA
  kTcp,
};

// `rdma` in the configuration.
struct RdmaConfig {
  std::vector<std::string> devices = {};  // to use, "mlx5_0" or "mlx5_0/1" (a port); empty: all
  std::string subnet = {};                // of their addresses, "10.0.0.0/16"; empty: any
  uint32_t mtu = 0;                       // of payload per packet, bytes; 0: the port's
  uint32_t service_level = 0;
  uint32_t timeout = 13;  // of an acknowledgement: 4.096 µs × 2^timeout
  uint32_t retries = 7;
};

// kInvalidArgument: packets would be repeated for longer than mccsd waits for a NIC.
absl::Status CheckTimeouts(const RdmaConfig& config);
// A power of two from 256 to 4096, or 0. kInvalidArgument otherwise.
absl::Status CheckMtu(const RdmaConfig& config);
// "10.0.0.0/16". kInvalidArgument: names the text.
absl::Status CheckSubnet(const std::string& text);

struct RdmaPort {
  IbPortInfo info;
  // How it is used: its GID, and the address of this host that belongs to it.
  struct Use {
    IbGid gid;
    std::string address;
  };
  std::optional<Use> use;
  std::string reason;  // if it is not used: why, and the remedy
};

struct RdmaSurvey {
  std::vector<RdmaPort> ports;
  std::string problem;                       // with all of them, and the remedy; empty: none
  uint64_t locked_bytes = 0;                 // limit of locked memory; kUnlimitedBytes: none
  std::vector<std::string> unknown_devices;  // of the configuration
};
inline constexpr uint64_t kUnlimitedBytes = ~uint64_t{0};

// Chooses by pure rules from what is there.
// `listen`: where the daemon listens for peers.
RdmaSurvey ChooseRdmaPorts(const RdmaConfig& config, const Endpoint& listen,
                           const HostInventory& inventory,
                           absl::StatusOr<std::vector<IbPortInfo>> ports, uint64_t locked_bytes);
RdmaSurvey SurveyRdma(const RdmaConfig& config, const Endpoint& listen,
                      const HostInventory& inventory);

// Why the host has no RDMA; empty if a port is used. One line.
std::string WhyNoRdma(const RdmaSurvey& survey);
// For `mccsd --check-rdma`.
std::string RenderSurvey(const RdmaSurvey& survey);

// The devices that a survey uses, opened, and the transport on them.
struct OpenedRdma {
  std::vector<std::unique_ptr<VerbsNic>> nics;
  std::unique_ptr<RdmaTransport> transport;  // ends first; null: lanes use TCP
  // For `get hosts`: "rdma (mlx5_0/1 at 10.0.0.1)", or "tcp (no RDMA device)".
  std::string description;
};
// Logs which devices cannot be opened. Errors: none can. LIFETIME: all arguments outlive the
// result.
absl::StatusOr<OpenedRdma> OpenRdma(const RdmaConfig& config, const RdmaSurvey& survey,
                                    Reactor& reactor, std::unique_ptr<MappingRunner> runner,
                                    Random& random, const Clock& clock, Log& log);

}  // namespace mccs

#endif  // MCCS_SERVICE_RDMA_DEVICES_H_
