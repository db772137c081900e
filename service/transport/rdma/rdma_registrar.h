// Registers regions with RDMA NICs, and finds the keys of registered memory.
//
// OWNER: the daemon's RdmaTransport. THREAD: the owning engine only.
#ifndef MCCS_SERVICE_TRANSPORT_RDMA_RDMA_REGISTRAR_H_
#define MCCS_SERVICE_TRANSPORT_RDMA_RDMA_REGISTRAR_H_

#include <memory>
#include <optional>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "service/transport/rdma/peer_pairs.h"
#include "service/transport/registration.h"

namespace mccs {

// Completes each registration within the call: for NICs whose verbs do not block.
class RdmaRegistrar : public Registrar {
 public:
  // LIFETIME: `pairs` outlives this.
  explicit RdmaRegistrar(PeerPairs& pairs) : pairs_(pairs) {}

  std::optional<absl::Status> Register(RegistrationId id, const Region& region,
                                       const NicDomain& domain) override;
  bool Release(RegistrationId id) override;
  size_t Poll(std::span<Finished>) override { return 0; }

  // Null: not registered.
  const MemoryRegion* Find(RegistrationId id) const;

 protected:
  // The part of a region that is registered: all of it.
  virtual std::span<std::byte> MemoryOf(const Region& region) const {
    return {region.address(), region.bytes()};
  }

 private:
  PeerPairs& pairs_;
  struct Registered {
    std::shared_ptr<PairDomain> domain;
    std::unique_ptr<MemoryRegion> region;
  };
  absl::flat_hash_map<RegistrationId, Registered> regions_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_RDMA_RDMA_REGISTRAR_H_
