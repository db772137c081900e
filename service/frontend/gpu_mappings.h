// The map of memory for the kernels of one process on one of its GPUs: buffers of other ranks, and
// memory of the daemon. Each GPU has its own, because CUDA opens memory of other processes for one
// context, and memory on another GPU of the process itself needs access, too.
//
//   AddressOf ── MapMemory ──► process ── MemoryMapped ──► the address
//   Withdraw, or the region ends ── UnmapMemory ──► process ── MemoryUnmapped ──► forgotten
//
// OWNER: ProcessGpus. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_FRONTEND_GPU_MAPPINGS_H_
#define MCCS_SERVICE_FRONTEND_GPU_MAPPINGS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/shim_control.h"
#include "service/device/gpu/gpu_address_space.h"
#include "service/frontend/buffer_registry.h"

namespace mccs {

class GpuMappings final : public GpuAddressSpace {
 public:
  using Send = std::function<void(std::span<const std::byte> message, std::span<const int> fds)>;

  // The numbers of memory, and those of copies: first, first + step, …; they identify it in the
  // messages of a process.
  struct Numbers {
    uint64_t first = 1;
    uint64_t step = 1;
  };
  // `send`: to the process.
  GpuMappings(KernelPlace place, const Numbers& numbers, Send send)
      : place_(std::move(place)),
        step_(numbers.step),
        send_(std::move(send)),
        next_number_(numbers.first),
        next_copy_(numbers.first) {}

  const KernelPlace& place() const override { return place_; }
  // kFailedPrecondition: no kernel can access the region; others: the process's.
  absl::StatusOr<uint64_t> AddressOf(const Region& region) override;
  bool alive() const override { return alive_; }
  uint64_t StartCopy(uint64_t to, uint64_t from, uint64_t bytes) override;
  absl::StatusOr<bool> TakeCopied(uint64_t copy) override;
  void ForgetCopy(uint64_t copy) override;
  const Region* probe() const override { return probe_.get(); }
  // The first one stays.
  void SetProbe(BufferHold probe) {
    if (probe_ == nullptr) probe_ = std::move(probe);
  }

  // kInvalidArgument: the daemon did not ask for it.
  absl::Status OnMapped(const wire::MemoryMapped& message);
  absl::Status OnUnmapped(const wire::MemoryUnmapped& message);
  absl::Status OnCopied(const wire::MemoryCopied& message);

  // Destroys `token` when the process has unmapped the region, or has ended.
  void Withdraw(const Region& region, std::shared_ptr<void> token);
  // Notices regions that have ended: a few at each call.
  void Sweep();
  // The process has ended.
  void End();

 private:
  struct Mapping {
    uint64_t number = 0;
    uint64_t address = 0;  // 0: not known yet
    bool withdrawn = false;
    absl::Status status;
    std::weak_ptr<const void> alive;
    std::shared_ptr<void> token;

    bool answered() const { return address != 0 || !status.ok(); }
  };

  void RequestUnmap(Mapping& mapping);
  static constexpr size_t kSweptAtOnce = 4;
  // At a time, with forgotten ones: their messages fit the socket of a process that is busy.
  static constexpr size_t kMostCopies = 64;

  const KernelPlace place_;
  const uint64_t step_;
  const Send send_;
  bool alive_ = true;
  BufferHold probe_;
  uint64_t next_number_;
  absl::flat_hash_map<uint64_t, Mapping> mappings_;  // by RegionId
  std::map<uint64_t, uint64_t> regions_;             // by number
  uint64_t last_swept_ = 0;                          // number
  uint64_t next_copy_;
  struct Copy {
    std::optional<absl::Status> result;  // nothing: in progress
    bool forgotten = false;
  };
  // By number. Not a flat_hash_map: in its moves GCC takes an absent Status for an uninitialized
  // one.
  std::map<uint64_t, Copy> copies_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_GPU_MAPPINGS_H_
