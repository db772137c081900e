// RDMA verbs as the lanes use them: a thin layer that libibverbs implements (ib_verbs.h), and
// a fake for tests and the simulator.
//
//   VerbsNic               one port of a NIC, with a completion queue
//    ├── ProtectionDomain  one per tenant, with a shared receive queue: no queue pair of one tenant
//    │    │                reaches memory of another
//    │    ├── MemoryRegion   memory that the NIC may access, pinned
//    │    └── MemoryWindow   a part of a region that one peer may write until it is invalidated
//    └── QueuePair         reliable connected (RC): writes into the peer's memory, and messages
//
// A queue pair carries writes, with or without an immediate value, and messages of at most
// kMessageBytes. A write with an immediate value and a message each take one entry of the peer's
// domain's receive queue, which the peer's VerbsNic refills. The order of work requests of a queue
// pair is kept: when a request's effect is visible at the peer, so are those of all earlier ones.
//
// THREAD: what makes, connects, stops or ends an object may wait for the device, for milliseconds to
// seconds, and runs on any thread (VerbsJobs), one call per object at a time. All else: the owning
// engine; it does not block.
#ifndef MCCS_SERVICE_TRANSPORT_RDMA_VERBS_H_
#define MCCS_SERVICE_TRANSPORT_RDMA_VERBS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/ids.h"

namespace mccs {

// Of queue pairs, by the NIC; 24 bits, unique among those that exist.
using QueuePairNumber = StrongInt<struct QueuePairNumberTag, uint32_t>;

// ---- Memory -------------------------------------------------------------------------------------

struct MemoryToRegister {
  // By which requests name it. Host memory: where the daemon has mapped it. Memory on a GPU: any
  // that is not 0 and has the same position in its page as `dma_buf_offset`.
  uint64_t address = 0;
  uint64_t bytes = 0;
  // Of memory on a GPU: the descriptor of its dma-buf, and the position there. −1: host memory.
  int dma_buf = -1;
  uint64_t dma_buf_offset = 0;
};

// How a NIC reaches registered memory.
enum class RegistrationMeans : uint8_t {
  kPinned,  // host memory, pinned
  kDmaBuf,  // memory of a GPU, by its dma-buf
};
// "pinned", "dma-buf".
std::string_view Name(RegistrationMeans means);

// Memory that is registered in a protection domain. The destructor deregisters it: afterwards the
// NIC does not access the memory any more. REQUIRES at destruction: no window is bound to it.
class MemoryRegion {
 public:
  virtual ~MemoryRegion() = default;
  virtual RegistrationMeans means() const { return RegistrationMeans::kPinned; }
  virtual uint32_t local_key() const = 0;  // for the sources of this host's requests
  // By which every peer in the domain may write it. Nothing: peers write through windows only.
  virtual std::optional<uint32_t> remote_key() const { return std::nullopt; }
};

// Lets one queue pair's peer write a part of a region: a type 2 window. Requests kBind and
// kInvalidate change it.
class MemoryWindow {
 public:
  virtual ~MemoryWindow() = default;
  // Of the next kBind; it differs from those of earlier ones.
  virtual uint32_t NextRemoteKey() = 0;
};

class ProtectionDomain {
 public:
  virtual ~ProtectionDomain() = default;
  // Registers memory for reads of this host's requests, and for peers (MemoryRegion::remote_key).
  // kResourceExhausted: the limit of locked memory, or the NIC's.
  virtual absl::StatusOr<std::unique_ptr<MemoryRegion>> Register(
      const MemoryToRegister& memory) = 0;
  virtual absl::StatusOr<std::unique_ptr<MemoryWindow>> MakeWindow() = 0;
};

// ---- Requests and completions -------------------------------------------------------------------

inline constexpr size_t kMessageBytes = 64;
using VerbsMessage = std::array<std::byte, kMessageBytes>;

// The NIC's own receive entries have larger ids.
inline constexpr uint64_t kIdLimit = uint64_t{1} << 63;

struct WorkRequest {
  enum class Kind : uint8_t {
    kMessage,     // `message`, into an entry of the peer's receive queue
    kWrite,       // local memory to remote memory, with an immediate value
    kBind,        // `window` to the local memory, for the queue pair's peer
    kInvalidate,  // the window's remote key `remote_key`
  };
  Kind kind = Kind::kMessage;
  // Completes with a Completion; others complete without one, before the next signaled one.
  bool signaled = false;
  uint64_t id = 0;  // of the completion; less than kIdLimit

  VerbsMessage message{};

  // kWrite: the source, with the local key of its region, or null and 0 bytes. kBind: the window's
  // part. As registered: on a GPU, no address of this process.
  const std::byte* local = nullptr;
  uint64_t bytes = 0;
  uint32_t local_key = 0;
  bool inlined = false;  // the source is free after Post; at most NicAttributes::inline_bytes
  // kWrite. kBind, kInvalidate: only the key.
  uint64_t remote_address = 0;
  uint32_t remote_key = 0;
  uint32_t immediate = 0;
  // kBind.
  MemoryWindow* window = nullptr;
  const MemoryRegion* region = nullptr;
};

// Results of work requests, as the verbs name them.
enum class CompletionStatus : uint8_t {
  kSuccess,
  kFlushed,          // the queue pair is in its error state
  kLocalProtection,  // the source is not registered in the queue pair's domain
  kLocalError,       // length, queue pair operation, window: this host's mistake
  kRemoteAccess,     // the target is not, or no longer, accessible
  kRemoteError,      // the peer's NIC cannot serve the request
  kRetriesExceeded,  // the peer did not answer
  kNotReady,         // the peer's receive queue was empty for too long
  kFatal,
};
// As libibverbs names it: "transport retry counter exceeded".
std::string_view Name(CompletionStatus status);

struct Completion {
  enum class Kind : uint8_t {
    kRequest,        // a signaled request, or the first one that failed
    kMessage,        // a message has arrived
    kWritten,        // a write with an immediate value has arrived
    kReceiveFailed,  // a message did not fit its entry, or its queue pair has failed
  };
  Kind kind = Kind::kRequest;
  CompletionStatus status = CompletionStatus::kSuccess;
  uint32_t vendor_error = 0;
  QueuePairNumber queue_pair;
  uint64_t id = 0;         // kRequest
  VerbsMessage message{};  // kMessage; a shorter message is filled up with zeros
  uint32_t bytes = 0;      // kMessage, kWritten
  uint32_t immediate = 0;  // kWritten
};

// ---- Queue pairs --------------------------------------------------------------------------------

using Gid = std::array<uint8_t, 16>;
// The IPv4 address that a GID maps (RoCE v2), or "".
std::string MappedAddress(const Gid& gid);

// The data that a peer needs to connect its queue pair to this one.
struct QueuePairAddress {
  QueuePairNumber number;
  uint32_t first_packet = 0;  // packet sequence number, 24 bits
  Gid gid{};
  uint16_t lid = 0;        // InfiniBand; 0: RoCE
  uint16_t mtu_bytes = 0;  // of payload per packet; the smaller of both is used
};

struct QueuePairOptions {
  uint32_t requests = 0;         // that may be incomplete at a time
  uint32_t receives = 0;         // entries of the receive queue that its peer may use at a time
  uint8_t ip_traffic_class = 0;  // DSCP × 4
  uint16_t source_port = 0;      // of its UDP packets; 0: the NIC's choice
  // Random, 24 bits: it does not accept packets of an earlier queue pair, nor of a host that
  // guesses.
  uint32_t first_packet = 0;
};

// Where a queue pair's packets are routed by their source port.
enum class SourcePortMeans : uint8_t {
  kNone,       // InfiniBand, or unknown: the NIC's own choice
  kModify,     // the NIC sets any port
  kFlowLabel,  // by the flow label of the address handle
  kNumber,     // follows from the queue pair's number
};

// How long after Stop a device may still deliver completions of a queue pair, if it has no event
// for their end: far longer than a device needs to flush its requests.
inline constexpr int64_t kDrainNs = 20 * kNsPerMs;

class QueuePair {
 public:
  // REQUIRES: it was never connected, or has drained.
  virtual ~QueuePair() = default;
  virtual QueuePairAddress address() const = 0;
  // Connects it to a peer's queue pair: it receives and sends from now on. Once only.
  virtual absl::Status Connect(const QueuePairAddress& peer) = 0;
  // Posts the requests in their order. REQUIRES: connected; no more than `requests` are incomplete.
  // An error: the queue pair does not work any more.
  virtual absl::Status Post(std::span<const WorkRequest> requests) = 0;
  // Ends all requests: those incomplete are flushed, and the peer's fail. Nothing arrives after it
  // has returned; completions may follow for kDrainNs, or until a kDrained event.
  virtual void Stop() = 0;
  // Lets the device send no faster; 0: no limit. REQUIRES: NicAttributes::rate_limits; connected.
  virtual void LimitRate(uint64_t bps) = 0;
  // The source port of its packets; 0: unknown.
  virtual uint16_t source_port() const = 0;
};

// ---- NICs ---------------------------------------------------------------------------------------

struct NicAttributes {
  std::string device;  // "mlx5_0"
  uint8_t port = 1;
  Gid gid{};
  uint8_t gid_index = 0;
  uint16_t lid = 0;
  uint16_t mtu_bytes = 0;
  uint32_t inline_bytes = 0;  // longest inlined write
  SourcePortMeans source_port_means = SourcePortMeans::kNone;
  bool rate_limits = false;  // of connected queue pairs
  std::string no_dma_bufs;   // why it cannot register memory on GPUs; empty: it can
};

// Something that happened without a request.
struct VerbsEvent {
  enum class Kind : uint8_t {
    kQueuePair,  // this queue pair has failed
    kDrained,    // no more completions of this stopped queue pair follow than Poll delivers now
    kPortDown,
    kPortUp,
    kDevice,  // the device has failed: nothing works any more
    kOther,
  };
  Kind kind = Kind::kDevice;
  QueuePairNumber queue_pair;  // kQueuePair, kDrained
  std::string text;            // the verbs' own
};

// One port of a NIC, with one completion queue.
//
// LIFETIME: outlives its domains and queue pairs.
class VerbsNic {
 public:
  virtual ~VerbsNic() = default;
  virtual const NicAttributes& attributes() const = 0;
  virtual absl::StatusOr<std::unique_ptr<ProtectionDomain>> MakeDomain() = 0;
  // LIFETIME: `domain` outlives it.
  virtual absl::StatusOr<std::unique_ptr<QueuePair>> MakeQueuePair(
      ProtectionDomain& domain, const QueuePairOptions& options) = 0;

  // Writes completions and refills the receive queues; returns how many. Once the device has
  // failed: none, and a kDevice event.
  virtual size_t Poll(std::span<Completion> completions) = 0;
  // The most completions that may wait for Poll now.
  virtual uint32_t completion_entries() const = 0;
  virtual std::optional<VerbsEvent> TakeEvent() = 0;
  // The next completion or event wakes the engine. Those that came before may not: poll once more
  // before the sleep.
  virtual void Arm() = 0;

  struct Counters {
    uint64_t requests = 0;     // posted
    uint64_t completions = 0;  // polled
    uint64_t refills = 0;      // calls that refilled the receive queue
    uint64_t receives = 0;     // entries that they added
  };
  virtual Counters counters() const = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_RDMA_VERBS_H_
