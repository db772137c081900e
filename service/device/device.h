// Where the daemon's work on memory happens: a GPU, or host memory that stands in for one.
//
// OWNER: the daemon, one Device for all its tenants. THREAD: the owning engine only; a Device may
// have threads of its own behind it. Never blocks.
#ifndef MCCS_SERVICE_DEVICE_DEVICE_H_
#define MCCS_SERVICE_DEVICE_DEVICE_H_

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "proto/shim_control.h"
#include "service/device/mem_op.h"

namespace mccs {

// Memory that the daemon can work on: a tenant's allocation, which MemoryMapper maps and unmaps, or
// staging, which goes with the object.
// REQUIRES at destruction: no MemOp and no lane uses it any more.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::byte* address() const = 0;
  virtual size_t bytes() const = 0;

  // The mapper makes the memory ready in pieces, and takes it apart in pieces behind its last use,
  // each about a millisecond of work. Without these the first uses and the destructor take longer.
  // THREAD: the mapper's.
  // True: nothing is left to do.
  virtual bool PopulateSome() { return true; }
  // Of these bytes; how many it took out: at least 1.
  virtual uint64_t GiveBackPart(uint64_t /*offset*/, uint64_t bytes) { return bytes; }
  // Bytes of the largest file that the last step of an unmapping may free. THREAD: any.
  virtual uint64_t LargestFile() const { return bytes(); }
};

struct BufferExport;

// Addresses of the daemon's own, in which a tenant's allocations lie side by side. address() and
// bytes() speak of all of them; what is not mapped must not be touched.
class DeviceRange : public DeviceMemory {
 public:
  // The first `offer.bytes` bytes of the allocation behind `offer.fd` are at `offset` from now on.
  // Refuses as MemoryMapper::Import, and what is not whole pages. REQUIRES: it lies within the
  // range, and nothing is mapped there. PopulateSome is for what was mapped last.
  // THREAD: one calls Map and PopulateSome, another one may call Unmap and GiveBackPart.
  virtual absl::Status Map(uint64_t offset, const BufferExport& offer) = 0;
  // Undoes one Map. REQUIRES: as for the end of a DeviceMemory.
  virtual void Unmap(uint64_t offset, uint64_t bytes) = 0;
};

// What a tenant offers: handle or descriptor of one whole allocation.
struct BufferExport {
  wire::ExportKind kind = wire::ExportKind::kCudaIpc;
  std::array<uint8_t, wire::kIpcHandleBytes> handle = {};
  UniqueFd fd;         // kFileDescriptor
  uint64_t bytes = 0;  // as the tenant says; checked against the truth
  pid_t owner = 0;     // the process at the other end of the session, as the kernel says
};

class MemoryMapper;

class Device {
 public:
  virtual ~Device() = default;

  // What brings tenants' memory in and out. LIFETIME: as the device.
  virtual MemoryMapper& mapper() = 0;

  // Staging memory that the lanes can send from and receive into. kResourceExhausted when there is
  // none. LIFETIME: the device outlives it.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(size_t bytes) = 0;

  // What lies in `bytes` is of no use any more: the memory behind them is given back, as far as the
  // device can (whole pages), and taken again when they are next used. Their addresses stay.
  // REQUIRES: they are part of what one Allocate gave, and no MemOp or lane uses them now.
  virtual void Discard(std::span<std::byte> bytes) = 0;

  // Starts `op`. False: the queue is full, try again after Poll(). ENSURES on true: `token` comes
  // back from Poll() exactly once, also when the operation was finished at once.
  virtual bool Submit(const MemOp& op, MemToken token) = 0;

  struct Polled {
    size_t finished = 0;
    bool worked = false;  // part of an operation was done in this call: call again soon
  };
  // Writes the tokens of finished operations, at most finished.size(), and says how many. What a
  // finished operation wrote is visible to the caller. Takes well below a millisecond, whatever the
  // size of the operations.
  virtual Polled Poll(std::span<MemToken> finished) = 0;

  // Bits that it reads and writes in a second, on the average of its large MemOps of late; 0: not
  // known.
  virtual uint64_t pass_bps() const { return 0; }

  // For logs: "host memory, AVX3_SPR, 2 workers".
  virtual std::string Description() const = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_DEVICE_H_
