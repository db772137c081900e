// A stream whose two ends are in one daemon: a member of a communicator and the rendezvous that its
// own daemon has. It needs no descriptor, system call or handshake.
//
// OWNER: each end has its own. THREAD: the owning engine, of both ends.
#ifndef MCCS_SERVICE_TRANSPORT_MEMORY_CONNECTION_H_
#define MCCS_SERVICE_TRANSPORT_MEMORY_CONNECTION_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "base/endpoint.h"
#include "service/transport/network.h"

namespace mccs {

// Bytes that one end has written and the other has not read; a Write beyond them would block.
inline constexpr size_t kMemoryConnectionBytes = 64u << 10;

// The ends of a new stream. `at`: the daemon's address, which names both ends in messages.
std::pair<std::unique_ptr<Connection>, std::unique_ptr<Connection>> ConnectInMemory(
    const Endpoint& at);

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_MEMORY_CONNECTION_H_
