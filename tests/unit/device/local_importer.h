// Buffers of this process, registered under a number: for the simulator and for tests, whose
// tenants are not processes.
#ifndef MCCS_TESTS_UNIT_DEVICE_LOCAL_IMPORTER_H_
#define MCCS_TESTS_UNIT_DEVICE_LOCAL_IMPORTER_H_

#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/device/mapped_memory.h"
#include "service/device/memory_mapper.h"

namespace mccs {

// Any holder of a handle may import. LIFETIME: buffers outlive what was imported from them.
class LocalImporter final : public MemoryImporter {
 public:
  // `maps_gpu_memory`: else buffers are on a GPU and regions of them have no address, unless they
  // are registered as host memory.
  explicit LocalImporter(bool maps_gpu_memory = true) : maps_gpu_memory_(maps_gpu_memory) {}
  bool maps_gpu_memory() const { return maps_gpu_memory_; }

  using Handle = std::array<uint8_t, wire::kIpcHandleBytes>;

  // Makes `memory` importable by the process that calls itself `owner`.
  Handle Register(std::span<std::byte> memory, pid_t owner, bool of_host = false) {
    Handle handle{};
    std::memcpy(handle.data(), &next_, sizeof(next_));
    entries_[next_++] = {memory, owner, of_host};
    return handle;
  }

  // The memory of a handle; null: none.
  std::byte* AddressOf(const Handle& handle) const {
    const auto found = entries_.find(NumberOf(handle));
    return found == entries_.end() ? nullptr : found->second.memory.data();
  }

  // Until it is OK again, nothing can be imported or reserved, for this reason.
  void FailWith(absl::Status error) { error_ = std::move(error); }

  // kInvalidArgument: an unknown handle, another owner, or more bytes than registered.
  absl::StatusOr<std::unique_ptr<Region>> Import(const BufferExport& offer) override {
    if (!error_.ok()) return error_;
    const auto found = entries_.find(NumberOf(offer.handle));
    if (found == entries_.end() || found->second.owner != offer.owner) {
      return absl::InvalidArgumentError(
          absl::StrCat("import rejected: process ", offer.owner, " has no such buffer"));
    }
    const std::span<std::byte> memory = found->second.memory;
    if (memory.size() < offer.bytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "import rejected: the buffer has ", memory.size(), " bytes, ", offer.bytes, " offered"));
    }
    const bool mapped = maps_gpu_memory_ || found->second.of_host;
    auto region = std::make_unique<LocalMemory>(mapped ? memory.data() : nullptr, memory.size());
    if (offer.address != 0) region->SetKernelAccess(KernelAccessOf(offer));
    if (mapped) return region;
    region->SetNoDmaBuf(offer.no_dma_buf);
    if (offer.dma_buf.valid()) {
      region->SetDmaBuf({.offset = offer.dma_buf_offset, .address = offer.address},
                        UniqueFd(dup(offer.dma_buf.get())));
    }
    return region;
  }
  absl::StatusOr<std::unique_ptr<DeviceRange>> Reserve(uint64_t bytes) override {
    if (!error_.ok()) return error_;
    return MappedRange::Reserve(bytes);
  }

 private:
  class LocalMemory final : public Region {
   public:
    LocalMemory(std::byte* address, size_t bytes) : Region(RegionKind::kTenant, address, bytes) {}
  };

  static uint64_t NumberOf(std::span<const uint8_t, wire::kIpcHandleBytes> handle) {
    uint64_t number;
    std::memcpy(&number, handle.data(), sizeof(number));
    return number;
  }

  struct Entry {
    std::span<std::byte> memory;
    pid_t owner;
    bool of_host;
  };

  const bool maps_gpu_memory_;
  absl::Status error_;
  uint64_t next_ = 1;
  std::map<uint64_t, Entry> entries_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_DEVICE_LOCAL_IMPORTER_H_
