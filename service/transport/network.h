// Byte streams between hosts, as the daemon sees them. Two implementations: sockets, and the
// simulator's network in memory.
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

// A two-way byte stream, possibly still being opened: until it is open, reads and writes would
// block. Closed with the object.
// Would-block is zero bytes; a broken or closed stream is kUnavailable with the peer in the text,
// and sticks.
class Connection {
 public:
  virtual ~Connection() = default;
  virtual absl::StatusOr<size_t> Write(std::span<const iovec> pieces) = 0;
  virtual absl::StatusOr<size_t> Read(std::span<const iovec> pieces) = 0;

  // False: a Read (Write) would surely block; no need to try. Cheap, no system call.
  virtual bool readable() const = 0;
  virtual bool writable() const = 0;

  // From now on `waker` is woken each time when readable() or writable() becomes true, or bytes, an
  // end or an error come while it is: at the latest by the Network's Poll. At once, if either holds
  // already. Takes the place of an earlier one; null: nobody is woken.
  // LIFETIME: `waker`, until another takes its place or the stream is gone.
  virtual void WakeOnReady(Waker* waker) = 0;

  // From now on its packets bear this DSCP in their IP header (0 to 63), for switches that serve
  // some packets before others. Nothing on networks that have no such thing.
  virtual void Mark(uint8_t /*dscp*/) {}

  virtual Endpoint local() const = 0;
  virtual Endpoint remote() const = 0;
};

class Listener {
 public:
  virtual ~Listener() = default;
  // The next stream that somebody opened to us; null when there is none now.
  virtual absl::StatusOr<std::unique_ptr<Connection>> Accept() = 0;
  // From now on the answer to whoever knocks bears this DSCP, and the streams that are accepted, as
  // long as these are not marked otherwise.
  virtual void Mark(uint8_t /*dscp*/) {}
  virtual Endpoint local() const = 0;
};

struct ConnectOptions {
  std::string source_host;   // empty: the system's choice
  uint16_t source_port = 0;  // picks the route (ECMP); 0: the system's choice
  uint8_t dscp = 0;          // as Connection::Mark, from the first packet on

  friend bool operator==(const ConnectOptions&, const ConnectOptions&) = default;
};

class Network {
 public:
  virtual ~Network() = default;
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const Endpoint& at) = 0;
  // Starts to open a stream. What fails at once (a source port in use, a name that does not
  // resolve) is the Status; what fails later shows on the Connection.
  virtual absl::StatusOr<std::unique_ptr<Connection>> Connect(const Endpoint& to,
                                                              const ConnectOptions& options) = 0;
  // Whether streams can leave from this numeric address, now: it is one of this host's own.
  virtual bool HasAddress(const std::string& address) = 0;
  // Learns which streams became readable or writable. True when any did.
  virtual bool Poll() = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_NETWORK_H_
