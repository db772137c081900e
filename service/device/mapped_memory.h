// Pages of host memory that the daemon can reach: a tenant's file, or staging of its own.
#ifndef MCCS_SERVICE_DEVICE_MAPPED_MEMORY_H_
#define MCCS_SERVICE_DEVICE_MAPPED_MEMORY_H_

#include <cstddef>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "service/device/device.h"

namespace mccs {

// So much of a tenant's allocation gets its page-table entries at import: that takes a quarter of
// the time of faults one by one (16 MiB: 0.9 ms against 4.1 ms), and off the hot path. Not more,
// because a tenant may have reserved far more than it uses.
inline constexpr size_t kPopulateBytes = 32 * kMiB;

// So much in one call: the process's map is locked for that long, and the engine may need it. Pages
// that the tenant has not touched yet take 0.7 ms per MiB, with their zeros.
inline constexpr size_t kPopulatePieceBytes = 1 * kMiB;
// Taking out takes 0.04 ms per MiB.
inline constexpr size_t kGiveBackPieceBytes = 4 * kMiB;

// One piece of either; how many bytes of these it did.
size_t PopulatePiece(std::span<std::byte> bytes);
size_t GiveBackPiece(std::span<std::byte> bytes);

// LIFETIME: unmaps with the object, which takes as long as pages are mapped and, of the last mapping
// of a file that nobody has open, as long as the file is large.
class MappedMemory final : public DeviceMemory {
 public:
  // The first `bytes` bytes of the file, shared, read and write. `fd` may be closed afterwards.
  // REQUIRES: the file cannot become shorter than `bytes`.
  static absl::StatusOr<std::unique_ptr<MappedMemory>> OfFile(int fd, size_t bytes);

  // Zeros that belong to this process alone. A page takes memory from its first use on, so that a
  // communicator that carries nothing, or little, costs little.
  static absl::StatusOr<std::unique_ptr<MappedMemory>> Anonymous(size_t bytes);

  // The whole pages within these bytes of an Anonymous are given back; they come again, as zeros,
  // with their next use.
  static void Discard(std::span<std::byte> bytes);

  ~MappedMemory() override;
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  std::byte* address() const override { return address_; }
  size_t bytes() const override { return bytes_; }
  bool PopulateSome() override;
  uint64_t GiveBackPart(uint64_t offset, uint64_t bytes) override;

 private:
  MappedMemory(std::byte* address, size_t bytes) : address_(address), bytes_(bytes) {}

  std::byte* const address_;
  const size_t bytes_;
  size_t populated_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_MAPPED_MEMORY_H_
