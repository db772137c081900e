// Where the daemon's work on memory happens: a GPU, or host memory that stands in for one.
//
// OWNER: the daemon, one Device for all its tenants. THREAD: the owning engine only; a Device may
// have threads of its own behind it. Never blocks, except Import and Allocate, which are not on the
// hot path.
#ifndef MCCS_SERVICE_DEVICE_DEVICE_H_
#define MCCS_SERVICE_DEVICE_DEVICE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "proto/operation.h"
#include "proto/shim_control.h"

namespace mccs {

// One input of a MemOp. A scale multiplies each element before it is accumulated; it is a value of
// the MemOp's type: in the low bytes of `scale_bits`, or on the device at `scale_address`, which
// need not be aligned. The device reads it there while the MemOp runs, perhaps several times.
struct MemSource {
  const std::byte* address = nullptr;
  bool scaled = false;
  uint64_t scale_bits = 0;
  const std::byte* scale_address = nullptr;  // null: scale_bits
};

// What happens to the accumulated value before it is written.
enum class Finish : uint8_t {
  kNone,
  kDivide,  // integers: by MemOp::divisor, towards zero (ncclAvg of integers)
};

// The one compute primitive: reads each source once, accumulates element by element in the order of
// `sources`, writes each destination once. One source is a copy. Floats of 16 and 8 bits are
// accumulated in float32 and rounded once, to nearest even.
//
// REQUIRES: at least one source and one destination; `elements` elements at each address, aligned to
// the element. A destination may be one of the sources exactly; otherwise no overlap.
// `op` is kSum, kProd, kMin or kMax. NaN in kMin/kMax: as CUDA's fmin/fmax, the other operand wins.
// LIFETIME: the spans and what they point to, until the token comes back from Poll().
struct MemOp {
  std::span<const MemSource> sources;
  std::span<std::byte* const> destinations;
  uint64_t elements = 0;
  DataType type = DataType::kInt8;
  ReduceOp op = ReduceOp::kSum;
  Finish finish = Finish::kNone;
  uint64_t divisor = 1;
  // A hint: nobody reads the destinations soon and they are no sources, so they need not pass
  // through the caches. For a tenant's output of an operation larger than the caches; not for
  // staging.
  bool stream = false;
};

inline constexpr size_t kMaxMemOpSources = 129;  // 128 local ranks and a receive slot

// Names a submitted MemOp to its submitter.
using MemToken = uint64_t;

// A tenant's allocation, mapped into the daemon. Unmapped with the object.
// REQUIRES at destruction: no MemOp and no lane uses it any more.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::byte* address() const = 0;
  virtual size_t bytes() const = 0;
};

// What a tenant offers: handle or descriptor of one whole allocation.
struct BufferExport {
  wire::ExportKind kind = wire::ExportKind::kCudaIpc;
  std::span<const uint8_t, wire::kIpcHandleBytes> handle;
  UniqueFd fd;         // kFileDescriptor
  uint64_t bytes = 0;  // as the tenant says; checked against the truth
  pid_t owner = 0;     // the process at the other end of the session, as the kernel says
};

class Device {
 public:
  virtual ~Device() = default;

  // Maps a tenant's allocation. Refuses (kInvalidArgument, with the reason) what does not belong to
  // `owner`, is shorter than `bytes`, or could shrink later.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> Import(const BufferExport& offer) = 0;

  // Staging memory that the lanes can send from and receive into. kResourceExhausted when there is
  // none.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(size_t bytes) = 0;

  // Starts `op`. False: the queue is full, try again after Poll(). ENSURES on true: `token` comes
  // back from Poll() exactly once, also when the operation was finished at once.
  virtual bool Submit(const MemOp& op, MemToken token) = 0;

  // Writes the tokens of finished operations, at most finished.size(), and says how many. What a
  // finished operation wrote is visible to the caller.
  virtual size_t Poll(std::span<MemToken> finished) = 0;

  // For logs: "host memory, AVX3_SPR, 2 workers".
  virtual std::string Description() const = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_DEVICE_H_
