// The tenant's virtual memory (cuMemMap) as the daemon knows it: ranges of addresses in which
// allocations come and go, as PyTorch's expandable segments are.
//
// A window is a span of this process's addresses for which the daemon has reserved as many. A chunk
// (one mapping of ours) that lies in the window is mapped at the same place in the daemon's, so a
// buffer over several chunks is one piece there too. Addresses cost nothing: a window is centred
// where it is first used, and so large that a segment grows within it. What is mapped stays so when
// a segment grows. A window with nothing left in it ends when leases do, or when another begins.
//
//        window.start                                                    + window.bytes
//   ours      |......[chunk][chunk][chunk]..........[chunk]..................|
//   daemon's  |......[chunk][chunk][chunk]..........[chunk]..................|
//
// CUDA's number of each chunk that a call uses is compared at each call: an address may be mapped
// anew. That costs a look-up for each mapping, which is small beside the bytes in it.
#ifndef MCCS_SHIM_VIRTUAL_RANGES_H_
#define MCCS_SHIM_VIRTUAL_RANGES_H_

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/address_range.h"
#include "shim/daemon_client.h"
#include "shim/driver_api.h"
#include "shim/export_leases.h"

namespace mccs::shim {

// THREAD: under the lock of the BufferExports that it is part of.
class VirtualRanges {
 public:
  // LIFETIME: all outlive this.
  VirtualRanges(const DriverApi& driver, DaemonClient& client, const ExportLeases& leases)
      : driver_(driver), client_(client), leases_(leases) {}

  // Whether the chunk around the address is this one.
  bool Knows(uint64_t address, unsigned long long cuda_id) const;

  // Where the daemon finds `use`; what it has not mapped yet is mapped now.
  struct Found {
    uint32_t id = 0;      // the daemon's buffer; 0: the range has to be staged
    uint64_t offset = 0;  // of the range's beginning in it
    // The chunk around the range's beginning.
    AddressRange chunk;
    unsigned long long cuda_id = 0;
    // Why it has to be staged: it can never be shared (empty), or what the daemon said.
    std::string refusal;
  };
  // kInvalidArgument: a part of the range is not mapped, or no virtual memory; else the connection's
  // errors. REQUIRES: the range does not wrap around.
  absl::StatusOr<Found> Resolve(const AddressRange& use);

  // One export that the daemon was asked to let go of.
  struct Leaving {
    AddressRange range;
    uint64_t request;
  };
  // Asks the daemon to let go of every chunk of the range that `chosen` likes, and adds the
  // requests that have to be answered first. True if there were any.
  using Chooser = absl::FunctionRef<bool(const AddressRange& chunk, const ExportLeases::Use& use)>;
  bool BeginLettingGo(const AddressRange& range, Chooser chosen, std::vector<Leaving>* requests);
  // The same for all there is, without anybody who waits, and with at most so many requests. False
  // where some are left.
  bool LetGoOf(Chooser chosen, size_t most);
  // Requests of which nobody has seen the answer.
  size_t CountUnanswered();

  // The chunks that a span of offsets in this buffer of the daemon lies in; nothing where it has no
  // such buffer. REQUIRES: the span is not empty.
  std::optional<AddressRange> ChunksAround(uint32_t id, const AddressRange& span) const;
  bool empty() const;

 private:
  struct Chunk {
    uint64_t bytes = 0;
    unsigned long long cuda_id = 0;
    bool shared = false;  // else it cannot be
    ExportLeases::Use last_use;
  };
  using Chunks = std::map<uint64_t, Chunk>;  // by address
  struct Window {
    AddressRange range;
    uint32_t id = 0;
    Chunks chunks;
    std::vector<Leaving> leaving;
  };
  struct Asked {
    uint64_t address;
    uint64_t request;
  };

  Window* WindowOf(const AddressRange& use) const;
  absl::StatusOr<Window*> OpenWindow(const AddressRange& use);
  uint64_t WindowBytes(const AddressRange& use) const;
  void CloseEmptyWindows();
  static Chunks::iterator FirstBeyond(Window& window, uint64_t address);

  // Steps of Resolve.
  absl::Status CheckMapped(const AddressRange& use) const;
  absl::Status MapMissing(Window& window, const AddressRange& use, Found& found);
  absl::StatusOr<Chunk*> Add(Window& window, const AddressRange& chunk, unsigned long long cuda_id,
                             Found& found);
  void DropLeft(Window& window);
  bool IsFree(Window& window, const AddressRange& range);
  absl::Status Collect(Window& window, Found& found);

  // Without `requests` they are kept in the window. False where `most` were not enough.
  bool TakeOut(Window& window, const AddressRange& range, Chooser chosen,
               std::vector<Leaving>* requests, size_t most = SIZE_MAX);
  void ForgetUnmapped();

  const DriverApi& driver_;
  DaemonClient& client_;
  const ExportLeases& leases_;
  std::vector<std::unique_ptr<Window>> windows_;
  std::vector<Asked> asked_;    // for chunks of the window that is being resolved
  uint64_t checked_up_to_ = 0;  // the chunk that ForgetUnmapped looked at last
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_VIRTUAL_RANGES_H_
