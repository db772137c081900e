// A host of an RDMA test: its NIC, and the transport on it.
#ifndef MCCS_TESTS_UNIT_TRANSPORT_RDMA_RDMA_HOST_H_
#define MCCS_TESTS_UNIT_TRANSPORT_RDMA_RDMA_HOST_H_

#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "service/transport/rdma/rdma_transport.h"
#include "tests/contract/held_registrar.h"
#include "tests/unit/device/process_memory.h"

namespace mccs {

// Registrar: RdmaRegistrar or derived from it.
template <typename OwnRegistrar = RdmaRegistrar>
struct RdmaHost {
  // The lanes use the first NIC, for one tenant.
  RdmaHost(const std::vector<RdmaNic>& nics, const std::string& tenant, Random& random)
      : pairs(nics, random) {
    own = transport.Register(ProcessMemory::Get(), {.nic = nics.front().address, .tenant = tenant});
    MCCS_CHECK(own->ready());
    held.started = 0;
    own_usage = transport.registrations().UsageOf(nics.front().address);
  }

  PeerPairs pairs;
  OwnRegistrar registrar{pairs};
  HeldRegistrar held{registrar};
  RdmaTransport transport{pairs, registrar, {.bytes_per_nic = 2 * ProcessMemory::kBytes}, &held};
  // The process's memory: sources of slices, and slots.
  std::unique_ptr<RegionRegistration> own;
  RegistrationTable::Usage own_usage;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_TRANSPORT_RDMA_RDMA_HOST_H_
