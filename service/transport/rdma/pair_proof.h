// Proofs that the ends of a queue pair give to each other over the streams of its lanes.
//
// Lanes of several communicators share a queue pair. A stream is authenticated by the secret of its
// communicator alone, which the programs of a tenant have, too. So its other end may be a program
// that acts as the peer's daemon. The queue pair's name is a secret of the two daemons: the maker
// sends it once, on the stream of the lane that introduces the queue pair. Lanes that join it later
// prove by a hash of the name that both ends have it.
//
// THREAD: any.
#ifndef MCCS_SERVICE_TRANSPORT_RDMA_PAIR_PROOF_H_
#define MCCS_SERVICE_TRANSPORT_RDMA_PAIR_PROOF_H_

#include "service/transport/rdma/rdma_wire.h"

namespace mccs::wire {

// Finds the queue pair, and does not reveal its name.
PairId IdOf(const PairName& name);
// Only an end whose queue pair has failed sends it.
PairProof FailureProof(const PairName& name);
// That the end that sends the frame has the name, for this frame on this connection. The field
// `proof` itself is ignored. The nonces: of the lane's hellos.
PairProof FrameProof(const PairName& name, const PairFrame& frame, const Nonce& senders,
                     const Nonce& receivers);
// In constant time.
bool Equal(const PairProof& a, const PairProof& b);

}  // namespace mccs::wire

#endif  // MCCS_SERVICE_TRANSPORT_RDMA_PAIR_PROOF_H_
