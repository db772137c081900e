// A host of an RDMA test: the transport on its NICs.
#ifndef MCCS_TESTS_UNIT_TRANSPORT_RDMA_RDMA_HOST_H_
#define MCCS_TESTS_UNIT_TRANSPORT_RDMA_RDMA_HOST_H_

#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "service/transport/rdma/rdma_transport.h"

namespace mccs {

// Of ProcessMemory, for each of several tenants.
inline constexpr uint64_t kRegisteredBytes = uint64_t{1} << 52;
inline constexpr RegistrationLimits kTestLimits = {.bytes_per_nic = kRegisteredBytes};

// Memory: MemoryTable or derived from it.
template <typename Memory = MemoryTable>
struct RdmaHost {
  RdmaHost(const std::vector<RdmaNic>& nics, Random& random, const Clock& clock,
           const RegistrationLimits& limits = kTestLimits,
           std::unique_ptr<MappingRunner> runner = nullptr)
      : transport(
            {.nics = nics, .runner = std::move(runner), .memory = std::make_unique<Memory>(limits)},
            random, clock) {}

  PeerPairs& pairs() { return transport.pairs(); }
  MemoryTable& memory() { return transport.memory(); }

  RdmaTransport transport;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_TRANSPORT_RDMA_RDMA_HOST_H_
