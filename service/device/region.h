// Memory that the daemon, or kernels for it, can work on, with its identity, and parts of it.
// Everything between a tenant's work record and a lane refers to memory in this way, so that a
// transport can find what a NIC needs of it (its registration), and a device where it is.
#ifndef MCCS_SERVICE_DEVICE_REGION_H_
#define MCCS_SERVICE_DEVICE_REGION_H_

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/ids.h"
#include "base/unique_fd.h"
#include "proto/shim_control.h"

namespace mccs {

class TenantResources;

// Of a region; never used again.
using RegionId = StrongInt<struct RegionIdTag, uint64_t>;

enum class RegionKind : uint8_t {
  kTenant,   // a tenant's allocation, which MemoryMapper maps and unmaps
  kStaging,  // the daemon's own: slots and staging memory of lanes, freed with the object
};

// One allocation, or one address range that consists of several (DeviceRange).
//
// OWNER: of tenants' memory the frontend's registry, of staging memory the lanes. THREAD: the owning
// engine, except where stated.
// REQUIRES at destruction: no MemOp and no lane uses it any more.
class Region {
 public:
  virtual ~Region() = default;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  RegionId id() const { return id_; }
  RegionKind kind() const { return kind_; }
  // Where the daemon has mapped it; null: it cannot, as memory on a GPU.
  std::byte* address() const { return address_; }
  uint64_t bytes() const { return bytes_; }

  bool is_mapped() const { return address_ != nullptr; }

  // The dma-buf of memory on a GPU, by which NICs reach it. LIFETIME: that of the region.
  struct DmaBuf {
    int descriptor = -1;
    uint64_t offset = 0;   // of the region's first byte
    uint64_t address = 0;  // by which requests of NICs name that byte; never 0
  };
  // Null: it has none.
  const DmaBuf* dma_buf() const { return dma_buf_.has_value() ? &*dma_buf_ : nullptr; }
  // Why memory on a GPU has none, for operators; empty: unknown.
  const std::string& no_dma_buf() const { return no_dma_buf_; }
  // `own`: kept as long as the region. REQUIRES: the daemon has not mapped it.
  void SetDmaBuf(const DmaBuf& dma_buf, UniqueFd own) {
    dma_buf_ = dma_buf;
    dma_buf_->descriptor = own.get();
    dma_buf_descriptor_ = std::move(own);
  }
  void SetNoDmaBuf(std::string why) { no_dma_buf_ = std::move(why); }
  // The address by which requests of NICs name its first byte; 0: NICs cannot reach it.
  uint64_t nic_address() const {
    return dma_buf_.has_value() ? dma_buf_->address : reinterpret_cast<uintptr_t>(address_);
  }

  // How processes make the memory accessible to their kernels.
  struct KernelAccess {
    wire::ExportKind kind = wire::ExportKind::kCudaIpc;
    std::array<uint8_t, wire::kIpcHandleBytes> handle = {};  // kCudaIpc
    int descriptor = -1;                                     // the other kinds
    pid_t owner = 0;             // the process whose memory it is; 0: the daemon
    uint64_t owner_address = 0;  // for the owner's kernels
    int32_t owner_device = 0;    // CUDA ordinal in the owner, of the memory's GPU
  };
  // Null: they cannot. LIFETIME: that of the region.
  const KernelAccess* kernel_access() const {
    return kernel_access_.has_value() ? &*kernel_access_ : nullptr;
  }
  // `own`: for the kinds with a descriptor, kept as long as the region; invalid: the caller keeps
  // `access.descriptor` itself.
  void SetKernelAccess(const KernelAccess& access, UniqueFd own = {}) {
    kernel_access_ = access;
    if (!own.valid()) return;
    kernel_access_->descriptor = own.get();
    access_descriptor_ = std::move(own);
  }
  // Expires with the region.
  std::weak_ptr<const void> alive() const { return alive_; }

  // In whose part of the host's budget the memory is (service/host_budget.h); null: in none.
  void SetBudget(std::weak_ptr<TenantResources> budget) { budget_ = std::move(budget); }
  std::shared_ptr<TenantResources> budget() const { return budget_.lock(); }

  // The mapper calls these to populate page tables in pieces, and to release them in pieces after
  // the last use, each about a millisecond of work. Without them, the first uses and the destructor
  // take longer. THREAD: the mapper's.
  // Returns true when nothing is left to do.
  virtual bool PopulatePart() { return true; }
  // Releases some of these bytes; returns how many, at least 1.
  virtual uint64_t ReleasePart(uint64_t /*offset*/, uint64_t bytes) { return bytes; }
  // Size in bytes of the largest file that the last step of an unmapping may free. THREAD: any.
  virtual uint64_t LargestFile() const { return bytes(); }

 protected:
  Region(RegionKind kind, std::byte* address, uint64_t bytes)
      : id_(NextId()), kind_(kind), address_(address), bytes_(bytes) {}

 private:
  static RegionId NextId() {
    static std::atomic<uint64_t> last{0};
    return RegionId(last.fetch_add(1, std::memory_order_relaxed) + 1);
  }

  std::optional<KernelAccess> kernel_access_;
  UniqueFd access_descriptor_;
  std::optional<DmaBuf> dma_buf_;
  UniqueFd dma_buf_descriptor_;
  std::string no_dma_buf_;
  const std::shared_ptr<const char> alive_ = std::make_shared<char>();
  // Weak: a mapper's thread may destroy the region, and only the engine the budget.
  std::weak_ptr<TenantResources> budget_;
  const RegionId id_;
  const RegionKind kind_;
  std::byte* const address_;
  const uint64_t bytes_;
};

// A part of a region. A value; the region outlives it.
struct RegionSpan {
  const Region* region = nullptr;  // null: no memory, and no bytes
  uint64_t offset = 0;             // bytes from the start of the region
  uint64_t bytes = 0;

  // REQUIRES: the daemon has mapped the region.
  std::byte* address() const { return region == nullptr ? nullptr : region->address() + offset; }
  // REQUIRES: NICs reach the region.
  uint64_t nic_address() const { return region == nullptr ? 0 : region->nic_address() + offset; }
  // Whether a processor can read and write it.
  bool is_mapped() const { return bytes == 0 || region->is_mapped(); }
  // The `bytes` bytes from `begin` on. REQUIRES: within this span.
  RegionSpan Part(uint64_t begin, uint64_t part_bytes) const {
    return {.region = region, .offset = offset + begin, .bytes = part_bytes};
  }
};

// Whether two spans share bytes of one region. Regions that are two mappings of one allocation
// count as different.
inline bool Overlap(const RegionSpan& a, const RegionSpan& b) {
  return a.region == b.region && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes &&
         a.bytes > 0 && b.bytes > 0;
}

inline RegionSpan WholeOf(const Region& region) {
  return {.region = &region, .offset = 0, .bytes = region.bytes()};
}

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_REGION_H_
