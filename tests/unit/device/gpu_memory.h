// Memory on a GPU, as the daemon knows it: without an address, with or without a dma-buf. NICs of
// tests find it in the test's own process.
#ifndef MCCS_TESTS_UNIT_DEVICE_GPU_MEMORY_H_
#define MCCS_TESTS_UNIT_DEVICE_GPU_MEMORY_H_

#include <fcntl.h>

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "service/device/region.h"

namespace mccs {

class GpuMemoryOfTest final : public Region {
 public:
  // `no_dma_buf`: why it has none; empty: it has one.
  explicit GpuMemoryOfTest(std::vector<std::byte> bytes, const std::string& no_dma_buf = "")
      : Region(RegionKind::kTenant, nullptr, bytes.size()), bytes_(std::move(bytes)) {
    if (!no_dma_buf.empty()) {
      SetNoDmaBuf(no_dma_buf);
      return;
    }
    SetDmaBuf({.offset = 0, .address = reinterpret_cast<uintptr_t>(bytes_.data())},
              UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC)));
  }

  std::span<const std::byte> span() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_DEVICE_GPU_MEMORY_H_
