// What stands in the 128 bytes of an ncclUniqueId that we made.
//
// The framework carries the id between ranks. It names the daemon where the ranks meet (the
// rendezvous) and holds the secret with which daemons prove to each other that a rank gave them the
// id. Ids of the real NCCL have no magic of ours: a mixed job fails with a text.
#ifndef MCCS_PROTO_UNIQUE_ID_H_
#define MCCS_PROTO_UNIQUE_ID_H_

#include <cstddef>
#include <cstdint>

#include "proto/shim_control.h"

namespace mccs::wire {

inline constexpr uint64_t kUniqueIdMagic = 0x31444955'5343434dull;  // "MCCSUID1"
inline constexpr size_t kSecretBytes = 16;

struct UniqueId {
  uint64_t magic;     // kUniqueIdMagic
  uint32_t version;   // kWireVersion of its maker
  uint16_t port;      // of the rendezvous daemon, host order
  uint8_t guessable;  // 1: derived from NCCL_COMM_ID
  uint8_t looked_up;  // 1: `host` is what one host found for a name; others may have found another
                      // address
  uint64_t comm_id;
  uint8_t secret[kSecretBytes];
  char host[64];  // numeric address of the rendezvous daemon, zero-terminated; among the ranks also
                  // the name that NCCL_COMM_ID gave: each process looks it up before it tells its
                  // daemon
  uint8_t derived;  // 1: follows from a communicator that all ranks, or some, belong to; the
                    // rendezvous opens when its rank 0 joins
  uint8_t reserved1[23];
};
static_assert(sizeof(UniqueId) == kUniqueIdBytes);

}  // namespace mccs::wire

#endif  // MCCS_PROTO_UNIQUE_ID_H_
