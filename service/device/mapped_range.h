// A reserved range of host addresses into which tenants' memory files are mapped.
#ifndef MCCS_SERVICE_DEVICE_MAPPED_RANGE_H_
#define MCCS_SERVICE_DEVICE_MAPPED_RANGE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "service/device/device.h"

namespace mccs {

// LIFETIME: the destructor unmaps all mappings in it.
class MappedRange final : public DeviceRange {
 public:
  // See MemoryMapper::Reserve.
  static absl::StatusOr<std::unique_ptr<DeviceRange>> Reserve(uint64_t bytes);

  ~MappedRange() override;
  MappedRange(const MappedRange&) = delete;
  MappedRange& operator=(const MappedRange&) = delete;

  std::byte* address() const override { return address_; }
  size_t bytes() const override { return bytes_; }
  absl::Status Map(uint64_t offset, const BufferExport& offer) override;
  void Unmap(uint64_t offset, uint64_t bytes) override;
  bool PopulatePart() override;
  uint64_t ReleasePart(uint64_t offset, uint64_t bytes) override;
  uint64_t LargestFile() const override { return largest_file_.load(std::memory_order_relaxed); }

 private:
  MappedRange(std::byte* address, size_t bytes) : address_(address), bytes_(bytes) {}

  std::byte* const address_;
  const size_t bytes_;
  size_t populated_ = 0;                   // bytes populated since the last Map
  std::span<std::byte> to_populate_;       // rest of what was mapped last
  std::atomic<uint64_t> largest_file_{0};  // that Map has mapped; only Map writes it
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_MAPPED_RANGE_H_
