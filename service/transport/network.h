// Byte streams between hosts. Implemented by sockets and by the simulator's in-memory network.
//
// THREAD: the owning engine only. Nothing blocks.
#ifndef MCCS_SERVICE_TRANSPORT_NETWORK_H_
#define MCCS_SERVICE_TRANSPORT_NETWORK_H_

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "base/endpoint.h"
#include "base/waker.h"

namespace mccs {

// A bidirectional byte stream, possibly still being opened: until it is open, reads and writes
// would block. The destructor closes it. Would-block is zero bytes. A broken or closed stream is
// kUnavailable, with the peer in the message, and this is final.
class Connection {
 public:
  virtual ~Connection() = default;
  virtual absl::StatusOr<size_t> Write(std::span<const iovec> pieces) = 0;
  virtual absl::StatusOr<size_t> Read(std::span<const iovec> pieces) = 0;

  // False: a Read (Write) would block; no need to try. Cheap, no system call.
  virtual bool readable() const = 0;
  virtual bool writable() const = 0;

  // Wakes `waker` each time readable() or writable() becomes true, or more bytes, the end or an
  // error arrive while it is true: at the latest in the Network's Poll. Wakes at once if either is
  // already true. Replaces an earlier waker; null: none.
  // LIFETIME: `waker`, until it is replaced or the stream is destroyed.
  virtual void SetWaker(Waker* waker) = 0;

  // Sets the DSCP (0 to 63) in the IP header of its packets, by which switches prioritize. No
  // effect on networks without it.
  virtual void Mark(uint8_t /*dscp*/) {}

  virtual Endpoint local() const = 0;
  virtual Endpoint remote() const = 0;
};

class Listener {
 public:
  virtual ~Listener() = default;
  // The next incoming stream; null: none now.
  virtual absl::StatusOr<std::unique_ptr<Connection>> Accept() = 0;
  // Sets the DSCP of answers to connection requests, and of accepted streams that are not marked
  // otherwise.
  virtual void Mark(uint8_t /*dscp*/) {}
  virtual Endpoint local() const = 0;
};

struct ConnectOptions {
  std::string source_host;   // empty: the system's choice
  uint16_t source_port = 0;  // selects the path (ECMP); 0: the system's choice
  uint8_t dscp = 0;          // like Connection::Mark, from the first packet on

  friend bool operator==(const ConnectOptions&, const ConnectOptions&) = default;
};

class Network {
 public:
  virtual ~Network() = default;
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const Endpoint& at) = 0;
  // Starts to open a stream. Immediate failures (a source port in use, an invalid address) are
  // returned; later failures appear on the Connection.
  virtual absl::StatusOr<std::unique_ptr<Connection>> Connect(const Endpoint& to,
                                                              const ConnectOptions& options) = 0;
  // Whether this numeric address is currently one of this host's own, for use as a source.
  virtual bool HasAddress(const std::string& address) = 0;
  // False: the network interface with this address has no link now, so nothing can be sent from it.
  virtual bool HasLink(const std::string& /*address*/) { return true; }
  // Updates which streams are readable or writable. Returns true if any became so.
  virtual bool Poll() = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_NETWORK_H_
