// The verbs of libibverbs: NICs of this host.
//
// Every queue pair of a NIC uses one completion queue, polled, and armed when the engine sleeps.
// Those of a domain share receive queues of short messages, refilled by several entries at a time.
//
// THREAD: as verbs.h.
#ifndef MCCS_SERVICE_TRANSPORT_RDMA_IB_VERBS_H_
#define MCCS_SERVICE_TRANSPORT_RDMA_IB_VERBS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/reactor.h"
#include "service/transport/rdma/verbs.h"

namespace mccs {

// A port of an RDMA device as the kernel describes it.
struct IbGid {
  uint8_t index = 0;
  bool routable = false;  // RoCE v2
  std::string text;       // "0000:0000:0000:0000:0000:ffff:0a00:0001"
  std::string address;    // the IPv4 address that it maps; else ""
};
struct IbPortInfo {
  std::string device;  // "mlx5_0"
  uint8_t port = 1;
  std::string problem = {};  // why it cannot be used, and the remedy; empty: it can
  bool active = false;
  std::string state = {};   // the verbs' own: "PORT_ACTIVE"
  bool infiniband = false;  // link layer; else Ethernet: RoCE
  uint16_t mtu_bytes = 0;   // of payload per packet
  std::vector<IbGid> gids = {};
  std::vector<std::string> nics = {};  // network interfaces of the port
  SourcePortMeans source_port_means = SourcePortMeans::kNone;
};

// kNotFound: no library. No device: an empty list.
absl::StatusOr<std::vector<IbPortInfo>> ListIbPorts();

// A port to use, and the GID by which peers reach it.
struct IbPort {
  std::string device;
  uint8_t port = 1;
  uint8_t gid_index = 0;
};

struct IbNicOptions {
  uint32_t receive_entries = 4096;  // of each receive queue
  uint32_t completions = 8192;      // at first; more as queue pairs are made
  uint16_t mtu_bytes = 0;           // the longest payload of a packet; 0: the port's
  uint8_t service_level = 0;
  uint8_t timeout = 13;  // of an acknowledgement: 4.096 µs × 2^timeout
  uint8_t retries = 7;
};
inline constexpr uint8_t kMaxIbTimeout = 31;
inline constexpr uint8_t kMaxIbRetries = 7;
inline constexpr uint8_t kMaxServiceLevel = 15;

// Opens the port. Errors name the device, and the limit that is exceeded.
// LIFETIME: `reactor` outlives the NIC.
absl::StatusOr<std::unique_ptr<VerbsNic>> OpenIbNic(const IbPort& port, Reactor& reactor,
                                                    const IbNicOptions& options = {});

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_RDMA_IB_VERBS_H_
