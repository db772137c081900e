#include "service/device/local_importer.h"

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/device/mapped_range.h"

namespace mccs {
namespace {

class LocalMemory final : public DeviceMemory {
 public:
  explicit LocalMemory(std::span<std::byte> memory) : memory_(memory) {}
  std::byte* address() const override { return memory_.data(); }
  size_t bytes() const override { return memory_.size(); }

 private:
  std::span<std::byte> memory_;
};

uint64_t NumberOf(std::span<const uint8_t, wire::kIpcHandleBytes> handle) {
  uint64_t number;
  std::memcpy(&number, handle.data(), sizeof(number));
  return number;
}

}  // namespace

LocalImporter::Handle LocalImporter::Register(std::span<std::byte> memory, pid_t owner) {
  Handle handle{};
  std::memcpy(handle.data(), &next_, sizeof(next_));
  entries_[next_++] = {memory, owner};
  return handle;
}

void LocalImporter::Unregister(const Handle& handle) { entries_.erase(NumberOf(handle)); }

absl::StatusOr<std::unique_ptr<DeviceMemory>> LocalImporter::Import(const BufferExport& offer) {
  const auto found = entries_.find(NumberOf(offer.handle));
  if (found == entries_.end() || found->second.owner != offer.owner) {
    return absl::InvalidArgumentError(
        absl::StrCat("import refused: process ", offer.owner, " has no such buffer"));
  }
  const std::span<std::byte> memory = found->second.memory;
  if (memory.size() < offer.bytes) {
    return absl::InvalidArgumentError(absl::StrCat("import refused: the buffer has ", memory.size(),
                                                   " bytes, ", offer.bytes, " offered"));
  }
  return std::make_unique<LocalMemory>(memory);
}

absl::StatusOr<std::unique_ptr<DeviceRange>> LocalImporter::Reserve(uint64_t bytes) {
  return MappedRange::Reserve(bytes);
}

}  // namespace mccs
