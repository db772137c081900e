// Host memory mapped by the daemon: a tenant's file, or staging memory of its own; and the checks
// of a tenant's file.
#ifndef MCCS_SERVICE_DEVICE_MAPPED_MEMORY_H_
#define MCCS_SERVICE_DEVICE_MAPPED_MEMORY_H_

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "service/device/device.h"

namespace mccs {

// ---- Files --------------------------------------------------------------------------------------

// A file must be ordinary memory (memfd_create) that cannot shrink and has all its pages: those
// that the daemon would allocate at its first access would count for the daemon, not for the
// tenant. All checks use the descriptor that is then mapped.

// kInvalidArgument: "import of a buffer of process 4711 rejected: WHY".
absl::Status ImportRejected(pid_t owner, const std::string& why);

struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  uint64_t bytes = 0;
  uint64_t allocated = 0;  // bytes of the pages that it has
};
absl::StatusOr<FileIdentity> IdentifyMemoryFile(int fd, pid_t owner);
// Whether it is memory of that kind, of any size and seals. Closing it does not call a file server,
// but the last close takes as long as the file is large (MemoryMapper::Close).
bool IsMemoryFile(int fd);

// Whether it is a character device with this major number. As above, no file server is asked.
bool IsCharacterDevice(int fd, unsigned major);
// The size of the file, as far as the kernel knows it; 0: unknown.
uint64_t CachedSize(int fd);

// Returns the file's size. Rejects a file that can shrink, is empty, is shorter than offered, or
// has holes.
absl::StatusOr<uint64_t> CheckSealedFile(int fd, const BufferExport& offer);

// ---- Mappings -----------------------------------------------------------------------------------

// Bytes of a tenant's allocation whose page-table entries are populated at import. That takes a
// quarter of the time of single faults (16 MiB: 0.9 ms against 4.1 ms), off the hot path. Limited,
// because a tenant may have reserved far more than it uses.
inline constexpr size_t kPopulateBytes = 32 * kMiB;

// Bytes populated per call: the kernel locks the process's address space meanwhile, and the engine
// may need it. Pages that the tenant has not touched yet take 0.7 ms per MiB, with their zeroing.
inline constexpr size_t kPopulatePieceBytes = 1 * kMiB;
// Bytes released per call: takes 0.04 ms per MiB.
inline constexpr size_t kReleasePieceBytes = 4 * kMiB;

// Populate or release one piece of `bytes`; return the size of the piece.
size_t PopulatePiece(std::span<std::byte> bytes);
size_t ReleasePiece(std::span<std::byte> bytes);

// madvise with `advice` for the whole pages within these bytes.
void DiscardWholePages(std::span<std::byte> bytes, int advice);

// LIFETIME: the destructor unmaps. That takes as long as pages are mapped; for the last mapping of
// a file that no process has open, as long as the file is large.
class MappedMemory final : public Region {
 public:
  // Maps the first `bytes` bytes of the file, shared, read and write. `fd` may be closed
  // afterwards.
  // REQUIRES: the file cannot become shorter than `bytes`.
  static absl::StatusOr<std::unique_ptr<MappedMemory>> OfFile(int fd, size_t bytes);

  // Maps the whole file of an offer. Errors: as CheckSealedFile, and kResourceExhausted.
  static absl::StatusOr<std::unique_ptr<MappedMemory>> OfSealedFile(int fd,
                                                                    const BufferExport& offer);

  // Private zeroed memory. A page uses memory from its first access on, so that an idle
  // communicator costs little.
  static absl::StatusOr<std::unique_ptr<MappedMemory>> Anonymous(size_t bytes);

  // Releases the whole pages within these bytes of an Anonymous; the next access finds them zeroed.
  static void Discard(std::span<std::byte> bytes);

  ~MappedMemory() override;
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  bool PopulatePart() override;
  uint64_t ReleasePart(uint64_t offset, uint64_t bytes) override;

 private:
  MappedMemory(RegionKind kind, std::byte* address, size_t bytes) : Region(kind, address, bytes) {}

  size_t populated_ = 0;
};

// A reserved range of host addresses into which tenants' memory files are mapped.

// LIFETIME: the destructor unmaps all mappings in it.
class MappedRange final : public DeviceRange {
 public:
  // See MemoryMapper::Reserve.
  static absl::StatusOr<std::unique_ptr<DeviceRange>> Reserve(uint64_t bytes);

  ~MappedRange() override;
  MappedRange(const MappedRange&) = delete;
  MappedRange& operator=(const MappedRange&) = delete;

  absl::Status Map(uint64_t offset, const BufferExport& offer) override;
  void Unmap(uint64_t offset, uint64_t bytes) override;
  bool PopulatePart() override;
  uint64_t ReleasePart(uint64_t offset, uint64_t bytes) override;
  uint64_t LargestFile() const override { return largest_file_.load(std::memory_order_relaxed); }

 private:
  MappedRange(std::byte* address, size_t bytes) : DeviceRange(address, bytes) {}

  size_t populated_ = 0;                   // bytes populated since the last Map
  std::span<std::byte> to_populate_;       // rest of what was mapped last
  std::atomic<uint64_t> largest_file_{0};  // that Map has mapped; only Map writes it
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_MAPPED_MEMORY_H_
