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

// A port of an RDMA device, and the address by which peers reach it.
struct IbPort {
  std::string device;  // "mlx5_0"
  uint8_t port = 1;
  uint8_t gid_index = 0;
  std::string address;  // of the GID; "" for one that maps no IPv4 address
};

// The RoCE v2 GIDs of all active ports. kNotFound: no library, or no device.
absl::StatusOr<std::vector<IbPort>> ListIbPorts();

struct IbNicOptions {
  uint32_t receive_entries = 4096;  // of each receive queue
  uint32_t completions = 8192;      // at first; more as queue pairs are made
  uint8_t service_level = 0;
  uint8_t timeout = 14;  // of an acknowledgement: 4.096 µs × 2^timeout
  uint8_t retries = 7;
};

// Opens the port. Errors name the device, and the limit that is exceeded.
// LIFETIME: `reactor` outlives the NIC.
absl::StatusOr<std::unique_ptr<VerbsNic>> OpenIbNic(const IbPort& port, Reactor& reactor,
                                                    const IbNicOptions& options = {});

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_RDMA_IB_VERBS_H_
