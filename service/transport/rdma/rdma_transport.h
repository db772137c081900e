// The transport over RDMA: lanes on queue pairs that daemons share (rdma_lane.h, peer_pairs.h).
//
// OWNER: the daemon. THREAD: the owning engine only. Nothing blocks.
#ifndef MCCS_SERVICE_TRANSPORT_RDMA_RDMA_TRANSPORT_H_
#define MCCS_SERVICE_TRANSPORT_RDMA_RDMA_TRANSPORT_H_

#include <memory>

#include "service/transport/rdma/rdma_lane.h"

namespace mccs {

class RdmaTransport final : public Transport {
 public:
  // `registrations`: the registrar that the transport's registrations go through; null:
  // `registrar`.
  // LIFETIME: all outlive this.
  RdmaTransport(PeerPairs& pairs, RdmaRegistrar& registrar, const RegistrationLimits& limits = {},
                Registrar* registrations = nullptr)
      : shared_{.pairs = pairs,
                .registrar = registrar,
                .registrations = RegistrationTable(
                    registrations != nullptr ? *registrations : registrar, limits)} {}

  std::unique_ptr<SendLane> MakeSendLane(const LaneIdentity& identity,
                                         const LaneShape& shape) override {
    return std::make_unique<RdmaSendLane>(identity, shape, shared_);
  }
  std::unique_ptr<RecvLane> MakeRecvLane(const LaneIdentity& identity, const LaneShape& shape,
                                         const RegionSpan& slots) override {
    return std::make_unique<RdmaRecvLane>(identity, shape, slots, shared_);
  }
  bool Poll() override {
    const bool registered = registrations().Poll();
    return shared_.pairs.Poll() || registered;
  }
  RegistrationTable& registrations() override { return shared_.registrations; }

 private:
  RdmaShared shared_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_RDMA_RDMA_TRANSPORT_H_
