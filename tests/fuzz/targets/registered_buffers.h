// The memory of one tenant process in fuzz targets: buffer 1 is one allocation, buffer 2 a range of
// chunks with a hole in it. A target that has written to neither can use the same ones for all
// inputs.
//
// THREAD: one.
#ifndef MCCS_TESTS_FUZZ_TARGETS_REGISTERED_BUFFERS_H_
#define MCCS_TESTS_FUZZ_TARGETS_REGISTERED_BUFFERS_H_

#include <unistd.h>

#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "service/device/cpu_device.h"
#include "service/frontend/buffer_registry.h"
#include "tests/unit/device/emulated_allocation.h"
#include "tests/unit/device/local_importer.h"

namespace mccs {

class RegisteredBuffers {
 public:
  static constexpr size_t kWholeBytes = 4096;
  static constexpr size_t kChunkBytes = 4096;
  static constexpr size_t kChunks = 4;  // the third one is the hole

  RegisteredBuffers() {
    auto importer = std::make_unique<LocalImporter>();
    const LocalImporter::Handle handle = importer->Register(memory_, kProcess);
    device_ = std::make_unique<CpuDevice>(CpuDeviceOptions{}, std::move(importer));
    registry_ = std::make_unique<BufferRegistry>(*device_, quota_, "blue");
    MCCS_CHECK(
        registry_
            ->Register(
                1, {.handle = handle, .fd = UniqueFd(), .bytes = kWholeBytes, .owner = kProcess})
            .ok());
    const absl::StatusOr<BufferId> range = registry_->Reserve(kChunks * kChunkBytes);
    MCCS_CHECK(range.ok());
    for (const uint64_t chunk : {0, 1, 3}) {
      EmulatedAllocation allocation(kChunkBytes);
      MCCS_CHECK(registry_
                     ->MapChunk(1, *range, chunk * kChunkBytes,
                                {.kind = wire::ExportKind::kFileDescriptor,
                                 .fd = allocation.TakeFd(),
                                 .bytes = kChunkBytes,
                                 .owner = kProcess})
                     .ok());
    }
    for (const BufferRegistry::Mapped& mapped : registry_->TakeMapped()) {
      MCCS_CHECK(mapped.id.ok());
    }
  }

  const BufferRegistry& registry() const { return *registry_; }

  // Aborts unless a processor may access all bytes of a resolved span.
  static void CheckSpan(const RegionSpan& span) {
    if (span.bytes == 0) return;
    MCCS_CHECK(span.region != nullptr);
    MCCS_CHECK(span.offset <= span.region->bytes());
    MCCS_CHECK(span.bytes <= span.region->bytes() - span.offset);
    // The sanitizer checks bytes of buffer 1, the page tables those of buffer 2.
    volatile std::byte first = span.address()[0];
    volatile std::byte last = span.address()[span.bytes - 1];
    static_cast<void>(first);
    static_cast<void>(last);
  }

 private:
  static constexpr pid_t kProcess = 7;

  std::vector<std::byte> memory_ = std::vector<std::byte>(kWholeBytes);
  std::unique_ptr<CpuDevice> device_;
  BufferQuota quota_{BufferLimits{}};
  std::unique_ptr<BufferRegistry> registry_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_FUZZ_TARGETS_REGISTERED_BUFFERS_H_
