// The 128 bytes of an ncclUniqueId made by MCCS.
//
// The framework passes the id between ranks. It contains the address of the daemon of the
// rendezvous, and the secret by which daemons authenticate each other. Ids of the real NCCL lack
// the magic, so a mixed job fails with an error message. A tenant can write any bytes: the MAC
// shows that a daemon of the cluster made the id, so that no daemon dials an address of a tenant's
// choice.
#ifndef MCCS_PROTO_UNIQUE_ID_H_
#define MCCS_PROTO_UNIQUE_ID_H_

#include <cstddef>
#include <cstdint>

#include "proto/shim_control.h"

namespace mccs::wire {

inline constexpr uint64_t kUniqueIdMagic = 0x31444955'5343434dull;  // "MCCSUID1"
inline constexpr size_t kSecretBytes = 16;
inline constexpr size_t kUniqueIdMacBytes = 16;

struct UniqueId {
  uint64_t magic;     // kUniqueIdMagic
  uint32_t version;   // kWireVersion of its creator
  uint16_t port;      // of the rendezvous daemon, host order
  uint8_t guessable;  // 1: derived from NCCL_COMM_ID
  uint8_t resolved;   // 1: `host` is the result of a name look-up, which may differ on other hosts
  uint64_t comm_id;
  uint8_t secret[kSecretBytes];
  char host[64];    // numeric address of the rendezvous daemon, zero-terminated; between ranks also
                    // the name in NCCL_COMM_ID: each process resolves it before it sends the id to
                    // its daemon
  uint8_t derived;  // 1: of a derived communicator, whose parent has all or some of its ranks; the
                    // rendezvous opens when its rank 0 joins
  uint8_t reserved1[7];
  uint8_t mac[kUniqueIdMacBytes];  // made with the cluster's key, over all other fields; zero: the
                                   // daemon has no key (service/communicator/membership/id_keys.h)
};
static_assert(sizeof(UniqueId) == kUniqueIdBytes);

}  // namespace mccs::wire

#endif  // MCCS_PROTO_UNIQUE_ID_H_
